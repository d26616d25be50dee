"""The levels of `metadata.version`: their release names, and the version of each record type at each level."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from kraft import Message
from quorate.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnknownRecord,
)

METADATA_VERSION: Final = "metadata.version"
"""The name of the feature that decides which records may be written, and in which version. KIP-778."""

_RELEASES: Final = (
    ("3.3", 7, 3, 1),  # release, first level, its IV number, how many levels
    ("3.4", 8, 0, 1),
    ("3.5", 9, 0, 3),
    ("3.6", 12, 0, 3),
    ("3.7", 15, 0, 5),
    ("3.8", 20, 0, 1),
    ("3.9", 21, 0, 1),
    ("4.0", 22, 0, 4),
    ("4.1", 26, 0, 2),
    ("4.2", 28, 0, 2),
    ("4.3", 30, 0, 1),
    ("4.4", 31, 0, 3),
)

RELEASES: Final[Mapping[int, str]] = {
    first + i: f"{release}-IV{iv + i}" for release, first, iv, count in _RELEASES for i in range(count)
}
"""Kafka's name of each level, oldest first. Kafka 4.x refuses levels below 7; 33 is the last that 4.4 released."""

OLDEST: Final = 7
LATEST: Final = 33
"""The newest metadata.version whose records this schema knows completely: 4.4-IV2."""

DROPPED: Final[Mapping[int, str]] = {
    1: "3.0-IV1",
    2: "3.1-IV0",
    3: "3.2-IV0",
    **{4 + iv: f"3.3-IV{iv}" for iv in range(3)},
}
"""Kafka's name of each level below `OLDEST`: releases before 4.0 know them."""

assert list(RELEASES) == list(range(OLDEST, LATEST + 1)), list(RELEASES)

_NEW_METADATA: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""Levels that introduced records or fields which the level before cannot store (from a released 4.4.0)."""

# The levels that introduced records or fields (from a released 4.4.0). A lower level must not write these.
SCRAM: Final = 11
NO_LEADER_EPOCH_BUMP_ON_ISR_SHRINK: Final = 12
"""From this level on, a shrinking ISR does not raise the leader epoch any more. KAFKA-15021."""
TRANSACTIONS: Final = 13
DELEGATION_TOKENS: Final = 14
CONTROLLER_REGISTRATION: Final = 15
DIRECTORIES: Final = 17
ELIGIBLE_LEADER_REPLICAS: Final = 23
CORDONED_DIRECTORIES: Final = 30
CONTROLLER_UNREGISTRATION: Final = 33

assert max(_NEW_METADATA) <= LATEST, _NEW_METADATA
assert _NEW_METADATA >= {SCRAM, TRANSACTIONS, DELEGATION_TOKENS, CONTROLLER_REGISTRATION, DIRECTORIES}, _NEW_METADATA

_RAISED: Final[Mapping[type[Message], tuple[tuple[int, int], ...]]] = {
    # (level, record version) from that level on, newest first. Other records are always written in version 0.
    RegisterBrokerRecord: ((CORDONED_DIRECTORIES, 4), (DIRECTORIES, 3), (8, 2), (OLDEST, 1)),
    PartitionRecord: ((ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORIES, 1)),
    PartitionChangeRecord: ((ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORIES, 1)),
}


def release_of(level: int) -> str:
    """Returns Kafka's name of a metadata.version level; for an unknown level the number as text."""
    return RELEASES.get(level) or DROPPED.get(level, str(level))


def level_of(release: str) -> int:
    """Returns the level of a metadata.version, such as 4.4-IV2, 33 or 4.4; a release stands for its last level.

    Raises ValueError for anything else, also a level that this code does not support.
    """
    for level in reversed(tuple(RELEASES)):
        if release in (RELEASES[level], RELEASES[level].partition("-")[0], str(level)):
            return level
    raise ValueError(f"{release!r} is no metadata.version: known are {RELEASES[OLDEST]} to {RELEASES[LATEST]}")


def newest_level_lost(present: int, lower: int) -> int | None:
    """Returns the newest level in (`lower`, `present`] whose metadata `lower` cannot store; None if there is none."""
    return max((level for level in _NEW_METADATA if lower < level <= present), default=None)


def record_version(record: Message, metadata_version: int) -> int:
    """Returns the record version in which `record` is written at this metadata.version.

    As in Kafka, a BrokerRegistrationChangeRecord gets the lowest version that has its fields.
    """
    if isinstance(record, UnknownRecord):
        return record.version
    if isinstance(record, BrokerRegistrationChangeRecord):
        return _registration_change_version(record)
    return version_at(type(record), metadata_version)


@lru_cache(1024)  # called for every record that is written
def version_at(record: type[Message], metadata_version: int) -> int:
    """Returns the record version of a record class at this metadata.version."""
    for level, version in _RAISED.get(record, ()):
        if metadata_version >= level:
            return version
    return 0


def _registration_change_version(record: BrokerRegistrationChangeRecord) -> int:
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0
