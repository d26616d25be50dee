"""The names of all files in a log directory, and what can be read from a name."""

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
"""The suffix that Kafka gives to segments and checkpoints before it removes them."""
TEMPORARY: Final = ".tmp"
DAMAGED: Final = ".damaged"
"""The suffix of damaged files, which are kept for analysis; a JVM ignores them."""
BOOTSTRAP: Final = "bootstrap.checkpoint"
"""The file in which releases before 4.4 store the bootstrap records of a new cluster."""
BOOTSTRAP_ID: Final = OffsetAndEpoch(epoch=0, offset=0)
"""The id of the bootstrap checkpoint, which holds the first voters (KIP-853) and, since 4.4, the bootstrap records.

It is never replicated, and is not part of the state: its records are written to the log.
"""
QUORUM_STATE: Final = "quorum-state"
META_PROPERTIES: Final = "meta.properties"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
LOCK: Final = ".lock"
DURABLE_MARK: Final = "quorate-durable-end"
"""The file of the durable mark. A JVM ignores it, as every name that it does not know."""
PROMISE: Final = "quorate-promised-end"
"""The file with the offset that a salvaged log must reach again. A JVM ignores it."""
ELECTION_MARK: Final = "quorate-election-written"
"""The file that shows that a quorum-state was written, so that a missing one is detected. A JVM ignores it."""

LAST_KNOWN: Final = "quorate-last-known"
"""The file beside the partition directory with the last end, epoch and vote of the node. A JVM ignores it."""
OWNER: Final = "quorate-owner"
"""The file in the partition directory that names its node and directory id. A JVM ignores it."""

_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_CHECKPOINT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def segment_file(directory: Path, base_offset: Offset, suffix: str) -> Path:
    """Returns the path of the segment's file with this suffix, such as `.log`; its name is the base offset."""
    return directory / f"{base_offset:020d}{suffix}"


def segment_bases(directory: Path) -> list[Offset]:
    """Returns the base offsets of the segments in a directory, ascending."""
    return sorted(int(match[1]) for path in directory.iterdir() if (match := _SEGMENT.fullmatch(path.name)))


def checkpoint_file(directory: Path, snapshot: OffsetAndEpoch) -> Path:
    """Returns the path of a checkpoint, named by its end offset (exclusive) and the epoch of the last record in it."""
    return directory / f"{snapshot.offset:020d}-{snapshot.epoch:010d}{CHECKPOINT}"


def checkpoint_id(path: Path) -> OffsetAndEpoch | None:
    """Returns the offset and epoch in a checkpoint's file name; None for another name.

    >>> checkpoint_id(Path("00000000000000000058-0000000001.checkpoint"))
    OffsetAndEpoch(epoch=1, offset=58)
    """
    match = _CHECKPOINT.fullmatch(path.name)
    return OffsetAndEpoch(offset=int(match[1]), epoch=int(match[2])) if match else None


def checkpoint_ids(directory: Path) -> list[OffsetAndEpoch]:
    """Returns the ids of the checkpoints in a directory, oldest first."""
    found = (checkpoint_id(path) for path in directory.iterdir())
    return sorted((each for each in found if each is not None), key=lambda each: each.offset)
