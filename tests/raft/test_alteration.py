"""The way to another voter set: each step safe, each order with its reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kraft import Uuid
from quorate.nouns import ReplicaKey
from quorate.raft.target_voters import Add, Remove, steps_between


def key(text: str) -> ReplicaKey:
    """`2b`: node 2 with directory b."""
    return ReplicaKey(int(text[:-1]), Uuid(text[-1].encode() * 16))


def keys(texts: str) -> list[ReplicaKey]:
    return [key(text) for text in texts.split()]


def steps(current: str, target: str, leader_id: int | None) -> str:
    def shown(step: Add | Remove) -> str:
        sign = "+" if isinstance(step, Add) else "-"
        return f"{sign}{step.key.id}{chr(step.key.directory_id[0])}"

    return " ".join(shown(step) for step in steps_between(keys(current), keys(target), leader_id))


@pytest.mark.parametrize(
    ("current", "target", "leader_id", "expected"),
    [
        ("1a 2a 3a", "1a 2a 3a", 1, ""),
        ("1a", "1a 2a 3a", 1, "+2a +3a"),
        ("1a 2a 3a", "2a", 1, "-3a -1a"),
        ("1a 2a 3a", "4a 5a 6a", 2, "+4a +5a +6a -1a -3a -2a"),
        ("1a 2a 3a", "1a 2b 3a", 1, "-2a +2b"),
        ("1a 2a 3a", "1b 2b 3a 4a", 1, "+4a -2a +2b -1a +1b"),
        ("1a 2a 3a", "1b 2a", 1, "-1a +1b -3a"),
        ("1a 2a", "1b 2b", 1, "-2a +2b -1a +1b"),
    ],
    ids=["there", "grow", "leader last", "all new", "a new disk", "mixed", "leader's new disk", "two new disks"],
)
def test_the_way(current: str, target: str, leader_id: int, expected: str) -> None:
    assert expected == steps(current, target, leader_id)


@pytest.mark.parametrize(
    ("current", "target", "reason"),
    [
        ("1a", "", "has no voter"),
        ("1a 2a", "1a 1b", r"the ids \[1, 1\]"),
        ("1a", "1b", "the only voter is 1"),
    ],
    ids=["nobody", "an id twice", "the only voter"],
)
def test_refuses_what_no_way_leads_to(current: str, target: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        steps_between(keys(current), keys(target), 1)


VOTERS = some.dictionaries(some.integers(1, 5), some.sampled_from("abc"), min_size=1).map(
    lambda chosen: {key(f"{node_id}{directory}") for node_id, directory in chosen.items()}
)


@given(VOTERS, VOTERS, some.integers(1, 5))
def test_every_step_is_safe_and_the_last_one_arrives(
    current: set[ReplicaKey], target: set[ReplicaKey], leader_id: int
) -> None:
    if len(current) == 1 and current != target and [k.id for k in current] == [k.id for k in target]:
        return
    voters = set(current)
    for step in steps_between(current, target, leader_id):
        if isinstance(step, Add):
            assert step.key.id not in {voter.id for voter in voters}, voters
            voters.add(step.key)
        else:
            voters.remove(step.key)
        assert voters, step

    assert target == voters


@given(VOTERS, VOTERS, some.integers(1, 5))
def test_the_way_may_be_begun_anew_anywhere(current: set[ReplicaKey], target: set[ReplicaKey], leader_id: int) -> None:
    """Who has gone a part of it asks for the way from there: what is left is what was left."""
    if len(current) == 1 and current != target and [k.id for k in current] == [k.id for k in target]:
        return
    voters, whole = set(current), steps_between(current, target, leader_id)
    for done, step in enumerate(whole):
        voters = voters | {step.key} if isinstance(step, Add) else voters - {step.key}
        left = steps_between(voters, target, leader_id)
        assert len(whole) - done - 1 == len(left), (voters, left)
