"""The jars of a released Kafka: fetched once by Maven, compiled against, and called.

The release is the one that a POM names, `pom.xml` unless said otherwise; its jars go to `build/kafka-<version>/`,
outside git.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
POM: Final = HERE / "pom.xml"
OPERATIONS_POM: Final = HERE.parent / "operations" / "pom.xml"
"""A later release, of which there are the servers and not the tools."""
BUILD: Final = HERE.parents[2] / "build"
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
COPY_ONE: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
SCHEMA_RELEASE: Final = "4.4.0"
"""The release whose message JSON `protos/` says exactly; not all of its tools can be had, so an older one runs."""
SCHEMA_ARTIFACTS: Final = (
    f"org.apache.kafka:kafka-clients:{SCHEMA_RELEASE}",
    f"org.apache.kafka:kafka-metadata:{SCHEMA_RELEASE}",
    "org.slf4j:slf4j-api:1.7.36",
)
MAVEN_TIMEOUT_S: Final = 600
"""About 80 jars, 150 MB, from a registry that may be slow."""
JAVAC_TIMEOUT_S: Final = 300
HEAP: Final = "512m"

MISSING: Final = (
    "not on PATH: {tools}. No released Kafka can judge these bytes: this test is SKIPPED and shows nothing. "
    "It needs a JDK 17 and Maven 3.8 (Debian, Ubuntu: `apt-get install openjdk-17-jdk-headless maven`; "
    "macOS: `brew install openjdk@17 maven`)."
)


def version(pom: Path = POM) -> str:
    """The release of a POM, such as "4.3.1"."""
    found = re.search(r"<kafka\.version>(.+?)</kafka\.version>", pom.read_text())
    assert found, f"{pom} names no kafka.version"
    return found[1]


def absent(pom: Path = POM) -> str | None:
    """Why there can be no judge here, or None when there can."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if not missing or (missing == ["mvn"] and _fetched(pom)):
        return None
    return MISSING.format(tools=", ".join(missing))


@cache
def jars(pom: Path = POM) -> Path:
    """The directory with every jar of the release, fetched when it is not there yet."""
    directory = _directory(pom)
    if not _fetched(pom):
        command = ["mvn", "-q", "-B", "-f", str(pom), COPY, f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
        subprocess.run(command, check=True, timeout=MAVEN_TIMEOUT_S)
        (directory / "complete").write_text(pom.read_text())
    return directory


@cache
def compiled(source: Path, pom: Path = POM) -> Path:
    """The directory with the classes of a Java source, compiled anew when it is newer than they are.

    Tests run in several processes: a lock keeps one from loading classes that another is still writing.
    """
    classes = BUILD / "interop-classes" / version(pom)
    classes.mkdir(parents=True, exist_ok=True)
    made = classes / f"{source.stem}.class"
    with (classes / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            command = ["javac", "-nowarn", "-cp", f"{jars(pom)}/*", "-d", str(classes), str(source)]
            subprocess.run(command, check=True, timeout=JAVAC_TIMEOUT_S)
    return classes


def java(main: str, *arguments: object, level: str = "error", source: Path | None = None, pom: Path = POM) -> list[str]:
    """The command that runs a main class of the release that `pom` names, or of `source` on top of it.

    `level` is what of its log it says.
    """
    classpath = f"{jars(pom)}/*" if source is None else f"{compiled(source, pom)}:{jars(pom)}/*"
    options = [f"-Xmx{HEAP}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"]
    log = [f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}", f"-Djudge.level={level}"]
    return ["java", *options, *log, "-cp", classpath, main, *map(str, arguments)]


def _directory(pom: Path) -> Path:
    return BUILD / f"kafka-{version(pom)}"


def _fetched(pom: Path) -> bool:
    """Whether Maven ended, and for the POM of today."""
    complete = _directory(pom) / "complete"
    return complete.exists() and complete.read_text() == pom.read_text()


def schema_jars() -> Path:
    """The directory with the jars that hold the message JSON of `SCHEMA_RELEASE`, fetched when they are not there."""
    directory = BUILD / f"kafka-{SCHEMA_RELEASE}"
    for artifact in SCHEMA_ARTIFACTS:
        _, name, release = artifact.split(":")
        if not (directory / f"{name}-{release}.jar").exists():
            command = ["mvn", "-q", "-B", COPY_ONE, f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
            subprocess.run(command, check=True, timeout=MAVEN_TIMEOUT_S)
    return directory


if __name__ == "__main__":
    if (why := absent()) is not None:
        raise SystemExit(why)
    print(f"a released Kafka: {jars()}, {jars(OPERATIONS_POM)}\nthe message JSON: {schema_jars()}")
