"""The steps from one voter set to a target, one voter at a time: AlterQuorum (KIP-595) by means of KIP-853.

Two neighbouring voter sets differ by one voter, so that any two majorities of them share a voter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from quorate.nouns import NodeId, ReplicaKey


@dataclass(frozen=True, slots=True)
class Add:
    """The step that adds a voter."""

    key: ReplicaKey


@dataclass(frozen=True, slots=True)
class Remove:
    """The step that removes a voter."""

    key: ReplicaKey


Step = Add | Remove


def steps_between(
    current: Collection[ReplicaKey], target: Collection[ReplicaKey], leader_id: NodeId | None
) -> tuple[Step, ...]:
    """Returns the steps from `current` to `target`; no step leaves the set empty or with an id twice (I-34, I-36).

    New ids are added first, so that more voters may fail meanwhile. Then voters with another directory are replaced:
    removed and added again. Then voters are removed. The leader comes last in its group, since it resigns when it is
    removed. Raises ValueError if the target is empty, has an id twice, or would replace the only voter.
    """
    _check(current, target)
    before, after = {key.id: key for key in current}, {key.id: key for key in target}

    def rank(node_id: NodeId) -> tuple[bool, NodeId]:
        return node_id == leader_id, node_id

    come = [Add(after[node_id]) for node_id in sorted(after.keys() - before.keys())]
    go = [Remove(before[node_id]) for node_id in sorted(before.keys() - after.keys(), key=rank)]
    changed = sorted((id for id in before.keys() & after.keys() if before[id] != after[id]), key=rank)
    replace = [step for node_id in changed for step in (Remove(before[node_id]), Add(after[node_id]))]
    steps = (*come, *replace, *go)
    assert _after(current, steps) == set(target), (current, target, steps)
    return steps


def _after(current: Collection[ReplicaKey], steps: tuple[Step, ...]) -> set[ReplicaKey]:
    """Returns the voters after `steps`, each of which leaves a voter (I-36) and no id twice (I-34)."""
    voters = set(current)
    for step in steps:
        voters = voters | {step.key} if isinstance(step, Add) else voters - {step.key}
        assert voters, (current, steps)  # I-36
        assert len({key.id for key in voters}) == len(voters), (current, steps)  # I-34
    return voters


def _check(current: Collection[ReplicaKey], target: Collection[ReplicaKey]) -> None:
    """Raises ValueError if no steps can lead from `current` to `target`."""
    ids = sorted(key.id for key in target)
    if not ids:
        raise ValueError("the target has no voter; it must have at least one")
    if len(set(ids)) < len(ids):
        raise ValueError(f"the target has the ids {ids}; each must be there once")
    if len(current) == 1 and ids == [key.id for key in current] and set(current) != set(target):
        raise ValueError(
            f"the only voter is {next(iter(current))}; its directory cannot be replaced while there is no other"
        )
