"""A log directory's files of one offset a partition: recovery points, high watermarks, log starts.

Kafka's text: version 0, the count, then `topic partition offset` lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.files import replace_whole

VERSION: Final = "0"


class TopicPartition(NamedTuple):
    """A partition by its topic's name, as Kafka's files and directories have it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def read_offsets(path: Path) -> dict[TopicPartition, Offset]:
    """Returns the offsets in a file; none if it does not exist. Raises Corrupt, naming the line."""
    if not path.is_file():
        return {}
    lines = path.read_text("utf-8").splitlines()
    if len(lines) < 2 or lines[0] != VERSION:
        raise Corrupt(f"version {lines[0] if lines else 'missing'!s}; only {VERSION} is spoken", path=path)
    found: dict[TopicPartition, Offset] = {}
    for number, line in enumerate(lines[2:], start=3):
        try:
            topic, partition, offset = line.split(" ")
            found[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise Corrupt(f"line {number} is {line!r}; expected: topic partition offset", path=path) from None
    if lines[1] != str(len(found)):
        raise Corrupt(f"{len(found)} offsets, and {lines[1]} are announced", path=path)
    return found


def write_offsets(path: Path, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replaces the file by one with these offsets, durably. Raises OSError."""
    lines = [f"{each.topic} {each.partition} {offset}" for each, offset in sorted(offsets.items())]
    replace_whole(path, "\n".join((VERSION, str(len(lines)), *lines, "")).encode())
