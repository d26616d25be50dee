"""Where the jars of Kafka releases are on this machine, and the message JSON inside them."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
JARS_VARIABLE: Final = "QUORATE_KAFKA_JARS"
OLDEST: Final = (4, 1)
NEEDED: Final = ("kafka-clients", "kafka-metadata")
"""The requests, responses and control records are in the one, the metadata records in the other."""

ABSENT: Final = (
    f"no Kafka release >= {'.'.join(map(str, OLDEST))} on this machine, so the schema is compared with NOTHING: "
    f"run `make interop-setup`, or set {JARS_VARIABLE} to a directory with kafka-clients-<version>.jar, "
    f"kafka-metadata-<version>.jar and slf4j-api-<version>.jar"
)

_JAR_NAME = re.compile(r"(kafka-clients|kafka-metadata|slf4j-api)-(\d+(?:\.\d+)+)\.jar")
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of Kafka, by its jars."""

    version: tuple[int, ...]
    clients: Path
    metadata: Path
    slf4j: Path | None  # what the classes in `clients` need besides themselves

    def __str__(self) -> str:
        return ".".join(map(str, self.version))

    def messages(self) -> Mapping[str, Mapping[str, Any]]:
        """The message JSON of the release, by the name of the message."""
        return {**message_json(self.clients), **message_json(self.metadata)}


def releases() -> tuple[Release, ...]:
    """Every whole release on this machine, the oldest first."""
    found: dict[tuple[str, tuple[int, ...]], Path] = {}
    for path in _jars():
        if match := _JAR_NAME.fullmatch(path.name):
            found.setdefault((match[1], tuple(map(int, match[2].split(".")))), path)
    slf4j = max((key for key in found if key[0] == "slf4j-api" and key[1][0] < 2), default=None)
    versions = sorted({version for name, version in found if name in NEEDED and version >= OLDEST})
    return tuple(
        Release(
            version=version,
            clients=found["kafka-clients", version],
            metadata=found["kafka-metadata", version],
            slf4j=found[slf4j] if slf4j else None,
        )
        for version in versions
        if all((name, version) in found for name in NEEDED)
    )


def _jars() -> Iterator[Path]:
    """The jars in the directory that is named by hand, else in those that Maven fills."""
    if named := os.environ.get(JARS_VARIABLE):
        assert Path(named).is_dir(), f"{JARS_VARIABLE} is {named}, which is no directory"
        yield from sorted(Path(named).rglob("*.jar"))
        return
    yield from sorted(ROOT.glob("build/kafka-*/**/*.jar"))
    maven = Path.home() / ".m2" / "repository"
    for artifact in ("org/apache/kafka/kafka-clients", "org/apache/kafka/kafka-metadata", "org/slf4j/slf4j-api"):
        yield from sorted(maven.glob(f"{artifact}/*/*.jar"))


@cache
def message_json(jar: Path) -> Mapping[str, Mapping[str, Any]]:
    """All message JSON in a jar, by the name of the message."""
    with zipfile.ZipFile(jar) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"common/(message|metadata)/\w+\.json", name)]
        documents = [without_comments(archive.read(name).decode()) for name in names]
    return {document["name"]: document for document in documents}


def without_comments(text: str) -> Any:
    """Kafka's JSON, which has comments to the end of the line.

    >>> without_comments('{"about": "see http://x", // not this\\n "tag": 0}')
    {'about': 'see http://x', 'tag': 0}
    """
    return json.loads(_STRING_OR_COMMENT.sub(lambda match: match[0] if match[0].startswith('"') else "", text))
