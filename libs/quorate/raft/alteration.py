"""The way from one voter set to another, one voter at a time. KIP-595's AlterQuorum on top of KIP-853.

Any two neighbours on the way differ by one voter, so that their majorities meet.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from quorate.nouns import NodeId, ReplicaKey


@dataclass(frozen=True, slots=True)
class Add:
    """A voter comes."""

    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class Remove:
    """A voter goes."""

    key: ReplicaKey


Step = Add | Remove


def way(current: Collection[ReplicaKey], target: Collection[ReplicaKey], leader_id: NodeId | None) -> tuple[Step, ...]:
    """Every step from `current` to `target`, none of which leaves the set empty or with an id twice.

    First come the new ids, so that more can fail on the way; then those whose directory has changed, each taken out
    and put back by the ones that stay or go; then those that go. The leader is the last of its kind. Raises ValueError
    for a target that is empty, has an id twice, or replaces the only voter.
    """
    _check(current, target)
    before, after = {key.id: key for key in current}, {key.id: key for key in target}

    def rank(node_id: NodeId) -> tuple[bool, NodeId]:
        return node_id == leader_id, node_id

    come = [Add(after[node_id]) for node_id in sorted(after.keys() - before.keys())]
    go = [Remove(before[node_id]) for node_id in sorted(before.keys() - after.keys(), key=rank)]
    changed = sorted((id for id in before.keys() & after.keys() if before[id] != after[id]), key=rank)
    replace = [step for node_id in changed for step in (Remove(before[node_id]), Add(after[node_id]))]
    return (*come, *replace, *go)


def _check(current: Collection[ReplicaKey], target: Collection[ReplicaKey]) -> None:
    ids = sorted(key.id for key in target)
    if not ids:
        raise ValueError("the target has no voter; it must have at least one")
    if len(set(ids)) < len(ids):
        raise ValueError(f"the target has the ids {ids}; each must be there once")
    if len(current) == 1 and ids == [key.id for key in current] and set(current) != set(target):
        raise ValueError(
            f"the only voter is {next(iter(current))}; its directory cannot be replaced while there is no other"
        )
