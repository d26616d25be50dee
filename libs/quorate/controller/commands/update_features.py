"""UpdateFeatures (57): upgrades or downgrades finalized features, all or none. KIP-584, KIP-778, KIP-1022.

kraft.version is only checked here. The quorum writes it once the others are committed: if the leadership ends in
between, they stay, it is not raised, and the caller gets an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum

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
    loses_metadata,
    release_of,
)
from quorate.nouns import NodeId
from quorate.records import ConfigRecord, FeatureLevelRecord

__all__ = ["UpgradeType", "kraft_version_update", "update_features"]

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
    levels are known once it has registered. A level that is in force already is not written again. Raises
    ApiError(INVALID_UPDATE_VERSION) that names the feature, and the node and range that conflict.
    """

    def command(state: ClusterState, _: Moment) -> Decision[UpdateFeaturesResponse]:
        present = {**state.features.finalized(), KRAFT_VERSION: kraft_version}
        proposed = present | {update.feature: update.max_version_level for update in request.feature_updates}
        for update in request.feature_updates:
            _check(state, update, present=present.get(update.feature, 0), proposed=proposed, voters=voters)
        changed = [each for each in request.feature_updates if proposed[each.feature] != present.get(each.feature, 0)]
        records = tuple(record for update in changed for record in _records(state, update, settings))
        levels = [record.name for record in records if isinstance(record, FeatureLevelRecord)]
        assert levels == [each.feature for each in changed if each.feature != KRAFT_VERSION], (changed, levels)
        response = UpdateFeaturesResponse(error_message=None)
        decision = Decision(response, records)
        return dry(decision) if request.validate_only else decision

    return command


def _check(
    state: ClusterState, update: Update, *, present: int, proposed: Mapping[str, int], voters: Collection[NodeId]
) -> None:
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in tuple(UpgradeType):
        raise _refusal(update, f"upgrade_type {update.upgrade_type} is none of {[each.value for each in UpgradeType]}")
    if level < 0:
        raise _refusal(update, "a level must not be below 0")
    if name not in supported_features():
        raise _refusal(update, f"no feature {name} is known; known are {', '.join(sorted(supported_features()))}")
    for node, lowest, highest in _ranges(state, name):
        if not lowest <= level <= highest:
            raise _refusal(update, f"{node} supports {lowest} to {highest}")
    for node_id in _unregistered(state, voters):
        raise _refusal(update, f"controller {node_id} has not registered, and may not support it")
    if level < present and update.upgrade_type == UpgradeType.UPGRADE:
        raise _refusal(
            update, f"it is at {present}; a lower level needs upgrade_type SAFE_DOWNGRADE or UNSAFE_DOWNGRADE"
        )
    if level > present and update.upgrade_type != UpgradeType.UPGRADE:
        raise _refusal(update, f"it is at {present}; a higher level needs upgrade_type UPGRADE")
    if name == KRAFT_VERSION and level < present:
        raise _refusal(update, f"it is at {present}; {KRAFT_VERSION} cannot be lowered")
    if name == METADATA_VERSION and level < present:
        _check_downgrade(update, present)
    for needed, least in _needs(name, level):
        if proposed.get(needed, 0) < least:
            raise _refusal(update, f"it needs {needed} at {least} or above, which is at {proposed.get(needed, 0)}")


def _check_downgrade(update: Update, present: int) -> None:
    """Refuses a downgrade that loses metadata, also an unsafe one, as in Kafka 4.4, which does not support it.

    KIP-778.
    """
    lost = loses_metadata(present, update.max_version_level)
    if lost is not None:
        raise _refusal(
            update, f"metadata that {release_of(lost)} brought would be lost; no such downgrade is supported"
        )


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
