"""Which features are on, and at which level: `metadata.version` and the others. KIP-584, KIP-778, KIP-1022."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft import Message
from quorate.metadata.faults import ReplayFault
from quorate.metadata.versions import LATEST, METADATA_VERSION, OLDEST
from quorate.nouns import Offset
from quorate.records import FeatureLevelRecord, NoOpRecord, ZkMigrationStateRecord
from quorate.timeline import SnapshotRegistry, TimelineDict, TimelineValue

__all__ = ["ELR_VERSION", "FEATURES", "KRAFT_VERSION", "Feature", "Features", "default_levels"]

KRAFT_VERSION: Final = "kraft.version"
"""Not in this state: the quorum keeps it, in control records. KIP-853."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""KIP-966."""


class Feature(NamedTuple):
    """What Kafka 4.4.0 knows of a feature."""

    levels: tuple[int, ...]
    """By level, the metadata.version from which on a new cluster gets it; level 0 is off."""
    needs: Mapping[int, tuple[str, int]] = MappingProxyType({})
    """By level, another feature's level without which it cannot be."""


FEATURES: Final[Mapping[str, Feature]] = {
    KRAFT_VERSION: Feature((OLDEST, 21)),
    "transaction.version": Feature((OLDEST, 24, 24)),
    "group.version": Feature((OLDEST, 22)),
    ELR_VERSION: Feature((OLDEST, 26), needs={1: (METADATA_VERSION, 23)}),
    "share.version": Feature((OLDEST, 28, 31)),
    "streams.version": Feature((OLDEST, 29)),
}


def supported_features() -> dict[str, tuple[int, int]]:
    """What this software can serve, as (lowest, highest) by feature: what a controller registers with. KIP-584."""
    ranges = {name: (0, len(feature.levels) - 1) for name, feature in FEATURES.items()}
    return {METADATA_VERSION: (OLDEST, LATEST), **ranges}


def default_levels(metadata_version: int) -> dict[str, int]:
    """The features that a new cluster at this level has on, kraft.version aside; read off a released 4.4.0.

    >>> default_levels(25)
    {'group.version': 1, 'transaction.version': 2}
    """
    newest = {
        name: max(level for level, since in enumerate(feature.levels) if metadata_version >= since)
        for name, feature in FEATURES.items()
        if metadata_version >= OLDEST and name != KRAFT_VERSION
    }
    return {name: newest[name] for name in sorted(newest) if newest[name]}


class Features:
    """Finalized levels by feature.

    `supported` are the ranges that this process can serve, as (lowest, highest) by name: a level outside them
    is then a fault, as in Kafka's controller. None takes any level: who only reads need not understand.
    """

    def __init__(self, registry: SnapshotRegistry, supported: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._supported = supported
        self._levels: TimelineDict[str, int] = TimelineDict(registry)
        self._zk_migration_state: TimelineValue[int | None] = TimelineValue(registry, None)

    @property
    def metadata_version(self) -> int | None:
        """The finalized metadata.version; None before any record has said so."""
        return self._levels.get(METADATA_VERSION)

    @property
    def record_level(self) -> int:
        """The level at which records are written: metadata.version, and before there is one the latest."""
        return self._levels.get(METADATA_VERSION, LATEST)

    @property
    def zk_migration_state(self) -> int | None:
        """0 none, 3 post-migration; None where the log never said. Kafka 4.4 neither writes nor keeps it."""
        return self._zk_migration_state.value

    @property
    def elr_enabled(self) -> bool:
        """Are eligible leader replicas kept? KIP-966."""
        return self.level(ELR_VERSION) > 0

    def level(self, feature: str) -> int:
        """The finalized level of a feature; 0 is off."""
        return self._levels.get(feature, 0)

    def finalized(self) -> dict[str, int]:
        """All that are on, metadata.version among them, by name."""
        return {name: self._levels[name] for name in sorted(self._levels)}

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """metadata.version first, as this level if there is one; the others by name; the migration state if known."""
        if METADATA_VERSION in self._levels:
            yield FeatureLevelRecord(METADATA_VERSION, metadata_version), 0
        for name, level in self.finalized().items():
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name, level), 0
        if self.zk_migration_state is not None:
            yield ZkMigrationStateRecord(self.zk_migration_state), 0

    def set_level(self, record: FeatureLevelRecord, _: Offset) -> None:
        """Finalize a level; 0 turns the feature off. Raises ReplayFault for a level that is not supported."""
        name, level = record.name, record.feature_level
        if self._supported is not None:
            lowest, highest = self._supported.get(name, (0, 0))
            if not lowest <= level <= highest:
                raise ReplayFault(f"feature {name} at level {level}; supported here are {lowest} to {highest}")
        if name == KRAFT_VERSION:
            return
        if level != 0:
            self._levels[name] = level
        else:
            self._levels.pop(name, None)

    def set_zk_migration_state(self, record: ZkMigrationStateRecord, _: Offset) -> None:
        """Where the move from ZooKeeper stands. KIP-866."""
        self._zk_migration_state.value = record.zk_migration_state

    def do_nothing(self, _record: NoOpRecord, _: Offset) -> None:
        """A sign of life: it moves the high watermark, and nothing else. KIP-835."""
