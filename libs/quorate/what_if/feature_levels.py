"""The obstacles to feature levels, node by node, and the way to clear each; without any, the records of the change.

The controller's own checks say it, and its own command writes it: UpdateFeatures (KIP-584, KIP-778, KIP-1022).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kraft import Message
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.controller.commands.update_features import Kind, Obstacle, UpgradeType, obstacles, update_features
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Moment
from quorate.metadata.features import FEATURES, KRAFT_VERSION, default_levels
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION, OLDEST, newest_level_lost, release_of
from quorate.nouns import NodeId

__all__ = ["Blocked", "LevelPlan", "levels_of", "plan_levels"]

_TOOL = "kafka-features.sh --bootstrap-server HOST:PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """One thing that stands against a level, and what an operator does about it."""

    kind: Kind
    why: str
    node: str
    """`broker 3`, `controller 1` or `this controller`; empty if it is no node's."""
    supported: tuple[int, int] | None
    """The levels that the node supports; None if it is no node's, or not known."""
    clear: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPlan:
    """One feature's change. `command` is the line for a shell that does it, once nothing stands against it."""

    feature: str
    present: int
    wanted: int
    blocked: Sequence[Blocked]
    command: str


def levels_of(metadata_version: int, *, present: Mapping[str, int]) -> dict[str, int]:
    """Returns metadata.version and the level of each other feature that is Kafka's default with it.

    kraft.version is left out. If metadata.version falls from what is `present`, the levels are those that
    `kafka-features.sh downgrade --release-version` asks for, 0 among them. Else they are those of `upgrade`, which
    lowers none: a feature that is higher already is left out.
    """
    on = default_levels(metadata_version)
    levels = {METADATA_VERSION: metadata_version}
    levels |= {name: on.get(name, 0) for name in sorted(FEATURES) if name != KRAFT_VERSION}
    if metadata_version < present.get(METADATA_VERSION, 0):
        return levels
    return {name: level for name, level in levels.items() if level >= present.get(name, 0)}


def plan_levels(
    state: ClusterState,
    wanted: Mapping[str, int],
    *,
    kraft_version: int,
    voters: Collection[NodeId],
    settings: ControllerSettings,
) -> tuple[Sequence[LevelPlan], Sequence[Message]]:
    """Returns a plan for each feature that changes, and the records that one request for all of them writes.

    There are no records if anything stands against one of the changes; those of kraft.version are the quorum's, and
    never among them. The state stays as it is.
    """
    present = {**state.features.finalized(), KRAFT_VERSION: kraft_version}
    proposed = {**present, **wanted}
    updates = [_update(name, level, present.get(name, 0)) for name, level in wanted.items()]
    changed = [each for each in updates if each.max_version_level != present.get(each.feature, 0)]
    plans = []
    for update in changed:
        name, level, now = update.feature, update.max_version_level, present.get(update.feature, 0)
        found = obstacles(state, update, present=now, proposed=proposed, voters=voters)
        blocked = [_blocked(state, update, each, now) for each in found]
        plans.append(
            LevelPlan(feature=name, present=now, wanted=level, blocked=blocked, command=_command(name, level, now))
        )
    if not changed or any(each.blocked for each in plans):
        return plans, ()
    request = UpdateFeaturesRequest(feature_updates=tuple(changed))
    command = update_features(request, kraft_version=kraft_version, voters=voters, settings=settings)
    return plans, command(state, Moment(next_offset=0, now_ms=0)).records


def _update(name: str, level: int, present: int) -> UpdateFeaturesRequest.FeatureUpdateKey:
    how = UpgradeType.SAFE_DOWNGRADE if level < present else UpgradeType.UPGRADE
    return UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=int(how))


def _command(name: str, level: int, present: int) -> str:
    verb = "downgrade" if level < present else "upgrade"
    if name == METADATA_VERSION:
        return f"{_TOOL} {verb} --metadata {release_of(level)}"
    return f"{_TOOL} {verb} --feature {name}={level}"


def _blocked(
    state: ClusterState, update: UpdateFeaturesRequest.FeatureUpdateKey, found: Obstacle, present: int
) -> Blocked:
    is_node = found.kind in (Kind.RANGE, Kind.UNREGISTERED)
    return Blocked(
        kind=found.kind,
        why=found.why,
        node=found.subject if is_node else "",
        supported=(found.lowest, found.highest) if found.kind is Kind.RANGE else None,
        clear=_clear(state, update, found, present),
    )


def _clear(state: ClusterState, update: UpdateFeaturesRequest.FeatureUpdateKey, found: Obstacle, present: int) -> str:
    """Says what clears it."""
    level = update.max_version_level
    match found.kind:
        case Kind.RANGE:
            return _other_software(state, found.subject, higher=level > found.highest)
        case Kind.UNREGISTERED:
            number = found.subject.removeprefix("controller ")
            gone = f"kafka-metadata-quorum.sh remove-controller --controller-id {number} --controller-directory-id ID"
            return f"start {found.subject}; if it is gone for good, {gone}"
        case Kind.NEEDS:
            return _command(found.subject, found.lowest, state.features.level(found.subject))
        case Kind.LOSES:
            lowest = min(each for each in range(OLDEST, present + 1) if newest_level_lost(present, each) is None)
            return f"nothing does: the lowest that {present} ({release_of(present)}) can go to is {release_of(lowest)}"
        case Kind.UNKNOWN:
            return "ask a release that knows the feature"
        case _:
            return "nothing does: ask for another level"


def _other_software(state: ClusterState, node: str, *, higher: bool) -> str:
    age = "newer" if higher else "older"
    kind, _, number = node.partition(" ")
    if kind == "broker":
        broker = state.brokers.get(int(number))
        assert broker is not None, node
        restart = f"restart {node} with {age} software"
        if not broker.fenced:
            return restart
        gone = f"kafka-cluster.sh unregister --bootstrap-server HOST:PORT --id {number}"
        if next(state.topics.with_replica(broker.id), None) is not None:
            gone = f"move its replicas (quorate reassign plan --drain {number}), then {gone}"
        return f"it is fenced: {restart}; if it is gone for good, {gone}"
    if kind == "controller":
        return f"restart {node} with {age} software"
    return f"use {age} controllers: this release decides by what it knows itself"
