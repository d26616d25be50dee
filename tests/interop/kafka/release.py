"""The releases of Kafka that judge in tests, Java programs on top of their jars, and the message JSON of one.

The jars come as `deploy.kafka.release` fetches them.
"""

from __future__ import annotations

import fcntl
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from deploy.kafka import release
from deploy.kafka.release import BUILD, MAVEN_TIMEOUT_S, POM, QUICK, jars, missing, version

OPERATIONS_POM: Final = Path(__file__).parents[1] / "operations" / "pom.xml"
"""The release whose rules `quorate.controller` follows: its servers and its tools, without the metadata shell."""
OLDEST_POM: Final = Path(__file__).with_name("oldest.xml")
"""The oldest release whose brokers and tools Quorate is tried with."""
COPY_ONE: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
SCHEMA_RELEASE: Final = "4.4.0"
"""The release whose message JSON `protos/` says exactly. Maven Central has no metadata shell of it."""
SCHEMA_ARTIFACTS: Final = (
    f"org.apache.kafka:kafka-clients:{SCHEMA_RELEASE}",
    f"org.apache.kafka:kafka-metadata:{SCHEMA_RELEASE}",
    "org.slf4j:slf4j-api:1.7.36",
)
JAVAC_TIMEOUT_S: Final = 300


def absent(pom: Path = POM) -> str | None:
    """Why there can be no judge here, or None when there can."""
    why = missing(pom, programs=("java", "javac"))
    return why and f"No Kafka release can judge here: this test is SKIPPED and shows nothing: {why}"


def java(
    main: str,
    *arguments: object,
    level: str = "error",
    source: Path | None = None,
    pom: Path = POM,
    options: Sequence[str] = QUICK,
) -> list[str]:
    """The command that runs a main class of the release that `pom` names, or of `source` on top of it.

    `level` is what of its log it says, `options` are its JVM's.
    """
    classes = () if source is None else (compiled(source, pom),)
    return release.java(main, *arguments, level=level, classes=classes, pom=pom, options=options)


@cache
def compiled(source: Path, pom: Path = POM) -> Path:
    """The directory with the classes of a Java source, compiled anew when it is newer than they are.

    With them come those of all sources beside it, which together take hardly longer than one; the oldest release has
    not all that they name. Tests run in several processes: a lock keeps one from loading classes that another is still
    writing.
    """
    classes = BUILD / "interop-classes" / version(pom)
    classes.mkdir(parents=True, exist_ok=True)
    made = classes / f"{source.stem}.class"
    with (classes / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            sources = [source] if pom == OLDEST_POM else sorted(source.parent.glob("*.java"))
            options = (*(f"-J{each}" for each in QUICK), "-nowarn", "-proc:none", "-cp", f"{jars(pom)}/*")
            command = ["javac", *options, "-d", str(classes), *map(str, sources)]
            subprocess.run(command, check=True, timeout=JAVAC_TIMEOUT_S)
    return classes


def schema_jars() -> Path:
    """The directory with the jars that hold the message JSON of `SCHEMA_RELEASE`, fetched when they are not there."""
    directory = BUILD / f"kafka-{SCHEMA_RELEASE}"
    for artifact in SCHEMA_ARTIFACTS:
        _, name, number = artifact.split(":")
        if not (directory / f"{name}-{number}.jar").exists():
            command = ["mvn", "-q", "-B", COPY_ONE, f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
            subprocess.run(command, check=True, timeout=MAVEN_TIMEOUT_S)
    return directory


if __name__ == "__main__":
    if (why := absent()) is not None:
        raise SystemExit(why)
    print(f"a Kafka release: {jars()}, {jars(OPERATIONS_POM)}, {jars(OLDEST_POM)}\nthe message JSON: {schema_jars()}")
