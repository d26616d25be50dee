"""Finalized feature levels: `metadata.version` and the other features. KIP-584, KIP-778, KIP-1022."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from kraft import Message
from quorate.metadata.faults import UnsupportedLevel
from quorate.metadata.versions import LATEST, METADATA_VERSION, OLDEST, release_of
from quorate.nouns import Offset
from quorate.records import FeatureLevelRecord, NoOpRecord, ZkMigrationStateRecord
from quorate.timeline import SnapshotRegistry, TimelineDict, TimelineValue

__all__ = ["ELR_VERSION", "FEATURES", "KRAFT_VERSION", "Feature", "Features", "default_levels", "unfamiliar"]

KRAFT_VERSION: Final = "kraft.version"
"""A feature that is not in this state: the quorum keeps its level in control records of the log. KIP-853."""
NO_EPOCH: Final = -1
"""The finalized features epoch before any level is finalized."""
ELR_VERSION: Final = "eligible.leader.replicas.version"
"""The feature that turns eligible leader replicas (ELR) on at level 1. KIP-966."""


class Feature(NamedTuple):
    """The levels of one feature in Kafka 4.4.0, and what they depend on."""

    levels: tuple[int, ...]
    """The lowest metadata.version at which a new cluster gets each level, indexed by level; level 0 is off."""
    needs: Mapping[int, tuple[str, int]] = MappingProxyType({})
    """The dependency of each level that has one: another feature and the level of it that is required."""


FEATURES: Final[Mapping[str, Feature]] = {
    KRAFT_VERSION: Feature((OLDEST, 21)),
    "transaction.version": Feature((OLDEST, 24, 24)),
    "group.version": Feature((OLDEST, 22)),
    ELR_VERSION: Feature((OLDEST, 26), needs={1: (METADATA_VERSION, 23)}),
    "share.version": Feature((OLDEST, 28, 31)),
    "streams.version": Feature((OLDEST, 29)),
}


assert all(list(feature.levels) == sorted(feature.levels) for feature in FEATURES.values()), FEATURES
assert all(feature.levels[0] == OLDEST for feature in FEATURES.values()), "level 0 is possible from the oldest version"


def supported_features() -> dict[str, tuple[int, int]]:
    """Returns the (lowest, highest) level that this software supports, by feature. Controllers register it. KIP-584."""
    ranges = {name: (0, len(feature.levels) - 1) for name, feature in FEATURES.items()}
    return {METADATA_VERSION: (OLDEST, LATEST), **ranges}


def default_levels(metadata_version: int) -> dict[str, int]:
    """Returns the level of each feature that a new cluster at this metadata.version has on, by name, as Kafka 4.4.0.

    Without metadata.version itself and kraft.version.
    """
    newest = {
        name: max(level for level, since in enumerate(feature.levels) if metadata_version >= since)
        for name, feature in FEATURES.items()
        if metadata_version >= OLDEST and name != KRAFT_VERSION
    }
    return {name: newest[name] for name in sorted(newest) if newest[name]}


def unfamiliar(levels: Mapping[str, int]) -> Iterator[str]:
    """Yields a sentence for each finalized level that this software does not know, and one without a metadata.version.

    `levels` are by feature name, as `Features.finalized` gives them.
    """
    supported = supported_features()
    if METADATA_VERSION not in levels:
        yield f"no {METADATA_VERSION} is finalized in it"
    for name, level in levels.items():
        if name not in supported:
            yield f"{name} is at level {level}; this feature is not known here"
            continue
        lowest, highest = supported[name]
        if not lowest <= level <= highest:
            yield f"{_outside(name, level, lowest, highest)}, of another level records may be missing"


def _outside(name: str, level: int, lowest: int, highest: int) -> str:
    """Says that a level is not known; for metadata.version with the releases.

    >>> _outside("metadata.version", 4, 7, 33)
    'metadata.version is at level 4 (3.3-IV0); known here are 7 to 33 (3.3-IV3 to 4.4-IV2)'
    """
    if name != METADATA_VERSION:
        return f"{name} is at level {level}; known here are {lowest} to {highest}"
    release = f" ({release_of(level)})" if release_of(level) != str(level) else ""
    known = f"known here are {lowest} to {highest} ({release_of(lowest)} to {release_of(highest)})"
    return f"{name} is at level {level}{release}; {known}"


def _advice(name: str, level: int, lowest: int) -> str:
    """Says what an operator can do about a level that is not supported."""
    if level > lowest:
        return "start a release that knows it, or let its release lower the level (kafka-features.sh downgrade)"
    if name != METADATA_VERSION:
        return "start a release that knows it"
    return "raise it first with a Kafka release that knows both, 3.3 to 3.9 (kafka-features.sh upgrade --metadata 3.9)"


class Features:
    """The table of finalized feature levels.

    `supported` maps each feature to the (lowest, highest) level that this process supports. A level outside is a
    ReplayFault, as in Kafka's controller. With None every level is accepted, for processes that only read.
    """

    def __init__(self, registry: SnapshotRegistry, supported: Mapping[str, tuple[int, int]] | None = None) -> None:
        self._supported = supported
        self._levels: TimelineDict[str, int] = TimelineDict(registry)
        self._zk_migration_state: TimelineValue[int | None] = TimelineValue(registry, None)
        self._epoch: TimelineValue[Offset] = TimelineValue(registry, NO_EPOCH)

    @property
    def metadata_version(self) -> int | None:
        """The finalized metadata.version; None until a record sets it."""
        return self._levels.get(METADATA_VERSION)

    @property
    def epoch(self) -> Offset:
        """The offset of the record that finalized the last level; -1 if none is finalized.

        After a checkpoint it is the checkpoint's last offset. ApiVersions returns it as finalized_features_epoch, which
        never falls. KIP-584.
        """
        return self._epoch.value

    @property
    def record_level(self) -> int:
        """The metadata.version for records that are written: the finalized one, or the latest if none is finalized."""
        return self._levels.get(METADATA_VERSION, LATEST)

    @property
    def zk_migration_state(self) -> int | None:
        """The last ZkMigrationState: 0 none, 3 post-migration, None if there was no record. Kafka 4.4 drops it."""
        return self._zk_migration_state.value

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas (ELR) are in use. KIP-966."""
        return self.level(ELR_VERSION) > 0

    def level(self, feature: str) -> int:
        """Returns the finalized level of a feature; 0 means that it is off."""
        return self._levels.get(feature, 0)

    def finalized(self) -> dict[str, int]:
        """Returns all features that are on with their levels, metadata.version included, sorted by name."""
        return {name: self._levels[name] for name in sorted(self._levels)}

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields the feature records and their record version: metadata.version first, at the given level.

        The others follow by name, and a ZkMigrationStateRecord if the log had one.
        """
        if METADATA_VERSION in self._levels:
            yield FeatureLevelRecord(METADATA_VERSION, metadata_version), 0
        for name, level in self.finalized().items():
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name, level), 0
        if self.zk_migration_state is not None:
            yield ZkMigrationStateRecord(self.zk_migration_state), 0

    def set_level(self, record: FeatureLevelRecord, offset: Offset) -> None:
        """Finalizes a feature level; level 0 turns the feature off. Raises UnsupportedLevel for one not supported here.

        A level of kraft.version is checked and not stored: the quorum keeps it.
        """
        name, level = record.name, record.feature_level
        if self._supported is not None:
            lowest, highest = self._supported.get(name, (0, 0))
            if not lowest <= level <= highest:
                raise UnsupportedLevel(f"{_outside(name, level, lowest, highest)}; {_advice(name, level, lowest)}")
        if name == KRAFT_VERSION:
            return
        assert offset >= self._epoch.value, (record, offset, self._epoch.value)  # clients take no older one (KIP-584)
        self._epoch.value = offset
        if level != 0:
            self._levels[name] = level
        else:
            self._levels.pop(name, None)

    def set_zk_migration_state(self, record: ZkMigrationStateRecord, _: Offset) -> None:
        """Stores the state of the migration from ZooKeeper. KIP-866."""
        self._zk_migration_state.value = record.zk_migration_state

    def do_nothing(self, _record: NoOpRecord, _: Offset) -> None:
        """Does nothing: a NoOpRecord only lets the high watermark advance. KIP-835."""
