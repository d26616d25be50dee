"""UpdateFeatures (57): upgrades or downgrades finalized features, all or none. KIP-584, KIP-778, KIP-1022.

kraft.version is only checked here. The quorum writes it once the others are committed: if the leadership ends in
between, they stay, it is not raised, and the caller gets an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import Enum, IntEnum, auto
from typing import NamedTuple

from kraft import Message
from kraft.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorate.controller.configs.config_changes import cleared
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.topic import MIN_INSYNC_REPLICAS
from quorate.controller.engine.decision import Command, Decision, Moment, dry
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import BROKER
from quorate.metadata.features import ELR_VERSION, FEATURES, KRAFT_VERSION, supported_features
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import (
    CONTROLLER_REGISTRATION,
    METADATA_VERSION,
    RELEASES,
    newest_level_lost,
    release_of,
)
from quorate.nouns import NodeId
from quorate.records import ConfigRecord, FeatureLevelRecord

__all__ = ["Kind", "Obstacle", "UpgradeType", "kraft_version_update", "obstacles", "update_features"]

Update = UpdateFeaturesRequest.FeatureUpdateKey


class UpgradeType(IntEnum):
    """The upgrade type of a feature update. KIP-778."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Allows a downgrade only if no metadata is lost."""
    UNSAFE_DOWNGRADE = 3


def kraft_version_update(request: UpdateFeaturesRequest) -> int | None:
    """Returns the requested kraft.version, whose records the quorum node writes; None if it is not named."""
    return next((each.max_version_level for each in request.feature_updates if each.feature == KRAFT_VERSION), None)


def update_features(
    request: UpdateFeaturesRequest, *, kraft_version: int, voters: Collection[NodeId], settings: ControllerSettings
) -> Command[UpdateFeaturesResponse]:
    """Returns the command that finalizes the levels of `request`, except kraft.version's, which it only checks.

    `kraft_version` is the quorum's present level. `voters` are the quorum's other voters: a controller's supported
    levels are known once it has registered. A level that is in force already is not written again; with `validate_only`
    none is. The command raises ApiError(INVALID_UPDATE_VERSION) that names the feature, and the node and range that
    conflict; then nothing of the request is done.
    """

    def command(state: ClusterState, _: Moment) -> Decision[UpdateFeaturesResponse]:
        present = {**state.features.finalized(), KRAFT_VERSION: kraft_version}
        proposed = present | {update.feature: update.max_version_level for update in request.feature_updates}
        for update in request.feature_updates:
            now = present.get(update.feature, 0)
            for obstacle in obstacles(state, update, present=now, proposed=proposed, voters=voters):
                raise _refusal(update, obstacle.why)
        changed = [each for each in request.feature_updates if proposed[each.feature] != present.get(each.feature, 0)]
        records = tuple(record for update in changed for record in _records(state, update, settings))
        levels = [record.name for record in records if isinstance(record, FeatureLevelRecord)]
        assert levels == [each.feature for each in changed if each.feature != KRAFT_VERSION], (changed, levels)
        response = UpdateFeaturesResponse(error_message=None)
        decision = Decision(response, records)
        return dry(decision) if request.validate_only else decision

    return command


class Kind(Enum):
    """The reason against a feature update."""

    BAD_TYPE = auto()
    NEGATIVE = auto()
    UNKNOWN = auto()
    RANGE = auto()
    """A node does not support the level."""
    UNREGISTERED = auto()
    """A voter has not registered, and may not support it."""
    LOWERS = auto()
    RAISES = auto()
    GOES_BACK = auto()
    """kraft.version cannot be lowered."""
    LOSES = auto()
    """Metadata would be lost."""
    NEEDS = auto()
    """Another feature is too low. KIP-1022."""


class Obstacle(NamedTuple):
    """One thing that stands against an update, in words that follow `… cannot go to …: `.

    `subject` is the node, or for NEEDS the other feature. `lowest` and `highest` are the levels that the node supports;
    for NEEDS `lowest` is the level of the other feature that it takes.
    """

    kind: Kind
    why: str
    subject: str = ""
    lowest: int = 0
    highest: int = 0


def obstacles(
    state: ClusterState, update: Update, *, present: int, proposed: Mapping[str, int], voters: Collection[NodeId]
) -> Iterator[Obstacle]:
    """Yields all that stands against an update of a feature that is at level `present`; a refusal names the first.

    `proposed` are the levels of all features after the request, `voters` the quorum's other voters.
    """
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in tuple(UpgradeType):
        why = f"upgrade_type {update.upgrade_type} is none of {[each.value for each in UpgradeType]}"
        yield Obstacle(Kind.BAD_TYPE, why)
    if level < 0:
        yield Obstacle(Kind.NEGATIVE, "a level must not be below 0")
    if name not in supported_features():
        why = f"no feature {name} is known; known are {', '.join(sorted(supported_features()))}"
        yield Obstacle(Kind.UNKNOWN, why)
    for node, lowest, highest in _ranges(state, name):
        if not lowest <= level <= highest:
            yield Obstacle(Kind.RANGE, f"{node} supports {lowest} to {highest}", node, lowest, highest)
    for node_id in _unregistered(state, voters):
        why = f"controller {node_id} has not registered, and may not support it"
        yield Obstacle(Kind.UNREGISTERED, why, f"controller {node_id}")
    if level < present and update.upgrade_type == UpgradeType.UPGRADE:
        yield Obstacle(
            Kind.LOWERS, f"it is at {present}; a lower level needs upgrade_type SAFE_DOWNGRADE or UNSAFE_DOWNGRADE"
        )
    if level > present and update.upgrade_type != UpgradeType.UPGRADE:
        yield Obstacle(Kind.RAISES, f"it is at {present}; a higher level needs upgrade_type UPGRADE")
    if name == KRAFT_VERSION and level < present:
        yield Obstacle(Kind.GOES_BACK, f"it is at {present}; {KRAFT_VERSION} cannot be lowered")
    # Also an unsafe downgrade is refused if it loses metadata, as in Kafka 4.4, which does not support it (KIP-778).
    if name == METADATA_VERSION and (lost := newest_level_lost(present, level)) is not None:
        why = f"metadata that {release_of(lost)} brought would be lost; no such downgrade is supported"
        yield Obstacle(Kind.LOSES, why, lowest=lost)
    for needed, least in _needs(name, level):
        if proposed.get(needed, 0) < least:
            why = f"it needs {needed} at {least} or above, which is at {proposed.get(needed, 0)}"
            yield Obstacle(Kind.NEEDS, why, needed, least)


def _ranges(state: ClusterState, feature: str) -> Iterator[tuple[str, int, int]]:
    """Yields (node, lowest, highest): the feature's levels supported by this controller and every registered node."""
    lowest, highest = supported_features().get(feature, (0, 0))
    yield "this controller", lowest, highest
    for broker in state.brokers:
        yield f"broker {broker.id}", *_declared(broker.features, feature)
    for controller in state.controllers:
        yield f"controller {controller.controller_id}", *_declared(controller.features, feature)


def _unregistered(state: ClusterState, voters: Collection[NodeId]) -> Iterator[NodeId]:
    """Yields the voters whose controllers are not registered; none below 3.7-IV0, where none registers (KIP-919)."""
    if state.features.record_level >= CONTROLLER_REGISTRATION:
        yield from (node_id for node_id in sorted(voters) if node_id not in state.controllers)


def _declared(features: tuple[object, ...], feature: str) -> tuple[int, int]:
    for each in features:
        if each.name == feature:  # type: ignore[attr-defined]  # two records' nested classes, alike in Kafka's schema
            return each.min_supported_version, each.max_supported_version  # type: ignore[attr-defined]
    return 0, 0


def _needs(feature: str, level: int) -> Iterator[tuple[str, int]]:
    """Yields the levels of other features that this level depends on. KIP-1022."""
    known = FEATURES.get(feature)
    if known is not None and level in known.needs:
        yield known.needs[level]


def _records(state: ClusterState, update: Update, settings: ControllerSettings) -> Iterator[Message]:
    if update.feature == KRAFT_VERSION:
        return
    if update.feature == ELR_VERSION and update.max_version_level:
        agreed = tuple(_one_min_insync_replicas(state, settings))
        yield from agreed
        yield from cleared(state, agreed)
    yield FeatureLevelRecord(update.feature, update.max_version_level)


def _one_min_insync_replicas(state: ClusterState, settings: ControllerSettings) -> Iterator[ConfigRecord]:
    """Yields the ConfigRecords that ELR needs: one min.insync.replicas for the cluster, and none per broker.

    KIP-966.
    """
    if MIN_INSYNC_REPLICAS not in state.configs.of(BROKER, ""):
        value = settings.static_configs.get(MIN_INSYNC_REPLICAS, "1")
        yield ConfigRecord(BROKER, "", MIN_INSYNC_REPLICAS, value)
    for resource in state.configs:
        if resource.type == BROKER and resource.name and MIN_INSYNC_REPLICAS in state.configs.of(*resource):
            yield ConfigRecord(BROKER, resource.name, MIN_INSYNC_REPLICAS, None)


def _refusal(update: Update, why: str) -> ApiError:
    level = update.max_version_level
    shown = f"{level} ({RELEASES[level]})" if update.feature == METADATA_VERSION and level in RELEASES else str(level)
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"{update.feature} cannot go to {shown}: {why}; nothing of the request is done",
        {"feature": update.feature, "level": str(level)},
    )
