"""The jars of a Kafka release: fetched once by Maven, and called.

The release is the one that a POM names, `pom.xml` unless said otherwise; its jars go to `build/kafka-<version>/`,
outside git.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

__all__ = [
    "BUILD",
    "MAVEN_TIMEOUT_S",
    "POM",
    "QUICK",
    "SERVER",
    "NotFetched",
    "jars",
    "java",
    "missing",
    "shared_classes",
    "version",
]

HERE: Final = Path(__file__).parent
POM: Final = HERE / "pom.xml"
BUILD: Final = HERE.parents[1] / "build"
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
MAVEN_TIMEOUT_S: Final = 600
"""About 80 jars, 150 MB, from a registry that may be slow."""
HEAP: Final = "512m"
QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that is there to start soon: it compiles little."""
SERVER: Final = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""Those of Kafka's own start scripts: for measurements."""

ONLY_ERRORS: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""A JVM that cannot use an archive of classes goes on without it, and warns on stdout, where a tool's answer is."""

HOW_TO_GET: Final = (
    "a Kafka release needs a JDK 17 and Maven 3.8 (Debian, Ubuntu: `apt-get install openjdk-17-jdk-headless maven`; "
    "macOS: `brew install openjdk@17 maven`)"
)


class NotFetched(Exception):
    """Raised when Maven does not fetch the jars; the message has what it said."""


def version(pom: Path = POM) -> str:
    """Returns the release of a POM, such as "4.3.1"."""
    found = re.search(r"<kafka\.version>(.+?)</kafka\.version>", pom.read_text())
    assert found, f"{pom} names no kafka.version"
    return found[1]


def missing(pom: Path = POM, *, programs: Sequence[str] = ("java",)) -> str | None:
    """Returns what is needed to run the release and not on the PATH, and how to get it; None if all is there.

    `programs` are needed in any case, and Maven as long as the jars are not fetched.
    """
    names = [each for each in (*programs, *(() if _fetched(pom) else ("mvn",))) if shutil.which(each) is None]
    return f"not on PATH: {', '.join(names)}; {HOW_TO_GET}" if names else None


@cache
def jars(pom: Path = POM) -> Path:
    """Returns the directory with every jar of the release, fetched if it is not there yet. Raises NotFetched."""
    directory = BUILD / f"kafka-{version(pom)}"
    if not _fetched(pom):
        command = ["mvn", "-q", "-B", "-f", str(pom), COPY, f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
        try:
            ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise NotFetched(f"Maven does not fetch Kafka {version(pom)}: {problem}") from None
        if ran.returncode:
            raise NotFetched(f"Maven does not fetch Kafka {version(pom)}:\n{ran.stdout}{ran.stderr}")
        shared_classes(pom).unlink(missing_ok=True)
        (directory / "complete").write_text(pom.read_text())
    return directory


def shared_classes(pom: Path = POM) -> Path:
    """Returns where the release's archive of loaded classes (JEP 350) is, once somebody has made one.

    A JVM with it starts with two thirds of the CPU time.
    """
    return BUILD / f"kafka-{version(pom)}" / "classes.jsa"


def java(
    main: str,
    *arguments: object,
    level: str = "error",
    classes: Sequence[Path] = (),
    heap: str = HEAP,
    pom: Path = POM,
    options: Sequence[str] = QUICK,
) -> list[str]:
    """Returns the command that runs a main class of the release that `pom` names.

    `level` is what of its log it prints, `classes` are directories of classes after the release's jars, which are
    those of its archive; `options` are the JVM's. Raises NotFetched.
    """
    classpath = ":".join((f"{jars(pom)}/*", *map(str, classes)))
    archive = shared_classes(pom)
    shared = (f"-XX:SharedArchiveFile={archive}", *ONLY_ERRORS) if options == QUICK and archive.exists() else ()
    of_jvm = [f"-Xmx{heap}", *options, *shared, "-Djava.net.preferIPv4Stack=true"]
    log = [f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", f"-Dquorate.kafka.level={level}"]
    return ["java", *of_jvm, *log, "-cp", classpath, main, *map(str, arguments)]


def _fetched(pom: Path) -> bool:
    """Whether Maven has fetched all that the POM names as it is now."""
    complete = BUILD / f"kafka-{version(pom)}" / "complete"
    return complete.exists() and complete.read_text() == pom.read_text()
