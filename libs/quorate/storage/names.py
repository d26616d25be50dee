"""What each file is called, and what a name says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, Offset, OffsetAndEpoch

PARTITION_DIRECTORY: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"
LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
CHECKPOINT: Final = ".checkpoint"
PART: Final = ".checkpoint.part"
DELETED: Final = ".deleted"
"""What Kafka renames segments and checkpoints to before it removes them."""
TEMPORARY: Final = ".tmp"
DAMAGED: Final = ".damaged"
"""What did not check, kept for whoever looks into it; a JVM passes over the name."""
BOOTSTRAP: Final = "bootstrap.checkpoint"
QUORUM_STATE: Final = "quorum-state"
META_PROPERTIES: Final = "meta.properties"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
LOCK: Final = ".lock"
DURABLE_MARK: Final = "quorate-durable-end"
"""Ours alone; a JVM passes over names that it does not know."""
PROMISE: Final = "quorate-promised-end"
"""Ours alone: damage was cut off here, and the log has not yet got back what it had promised to keep."""
ELECTION_MARK: Final = "quorate-election-written"
"""Ours alone: a quorum-state was written here, so that if it is not there it is missing."""

_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_CHECKPOINT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def segment_file(directory: Path, base_offset: Offset, suffix: str) -> Path:
    """A file of the segment that begins at `base_offset`."""
    return directory / f"{base_offset:020d}{suffix}"


def segment_bases(directory: Path) -> list[Offset]:
    """Base offsets of the segments that are there, ascending."""
    return sorted(int(match[1]) for path in directory.iterdir() if (match := _SEGMENT.fullmatch(path.name)))


def checkpoint_file(directory: Path, snapshot: OffsetAndEpoch) -> Path:
    """Where a checkpoint lies: its end offset, exclusive, and the epoch of the record before."""
    return directory / f"{snapshot.offset:020d}-{snapshot.epoch:010d}{CHECKPOINT}"


def checkpoint_id(path: Path) -> OffsetAndEpoch | None:
    """What a checkpoint's name says; None if it is no such name.

    >>> checkpoint_id(Path("00000000000000000058-0000000001.checkpoint"))
    OffsetAndEpoch(epoch=1, offset=58)
    """
    match = _CHECKPOINT.fullmatch(path.name)
    return OffsetAndEpoch(offset=int(match[1]), epoch=int(match[2])) if match else None


def checkpoint_ids(directory: Path) -> list[OffsetAndEpoch]:
    """The checkpoints that are there, oldest first."""
    found = (checkpoint_id(path) for path in directory.iterdir())
    return sorted((each for each in found if each is not None), key=lambda each: each.offset)
