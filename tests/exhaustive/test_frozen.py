"""A core put down as a value and taken up again goes on as it was; renaming nodes loses nothing."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.exhaustive.bounds import Bounds
from tests.exhaustive.cluster import Cluster, State
from tests.exhaustive.frozen import FIRST_ID, LATER_MS, NOW_MS, freeze, moment, rename
from tests.exhaustive.node import Branches, Node
from tests.exhaustive.walk import mark

BOUNDS = Bounds(voters=3, epochs=2, appends=1, crashes=1, resigns=1, removes=1, is_pre_vote_free=True)


def some_states(cluster: Cluster, count: int) -> list[State]:
    """The first states that are found, breadth first."""
    states = [cluster.first()]
    seen = {mark(states[0])}
    for state in islice(iter(states), count):
        for _, after in cluster.events(state):
            if mark(after) not in seen:
                seen.add(mark(after))
                states.append(after)
    return states[:count]


def test_a_node_taken_up_is_put_down_the_same() -> None:
    cluster = Cluster(BOUNDS)
    some_states(cluster, 300)
    values = list(cluster.table.locals.values)

    assert len(values) > 100
    for value in values:
        assert Node.take_up(cluster.table.setting, value, Branches()).put_down() == value


def test_renaming_there_and_back_changes_nothing() -> None:
    cluster = Cluster(BOUNDS)
    some_states(cluster, 300)
    there = {FIRST_ID: FIRST_ID + 1, FIRST_ID + 1: FIRST_ID + 2, FIRST_ID + 2: FIRST_ID}
    back = {new: old for old, new in there.items()}

    for value in list(cluster.table.locals.values):
        assert rename(rename(value, there), back) == value


def test_states_that_differ_in_names_alone_are_one() -> None:
    cluster = Cluster(BOUNDS)
    for state in some_states(cluster, 300):
        one = cluster.canonical(state)
        nodes, wire, budgets, past = state
        for at, names in enumerate(cluster.table.renamings):
            places = {names[FIRST_ID + place]: cluster.table.renamed(local)[at] for place, local in enumerate(nodes)}
            renamed = (
                tuple(places[id] for id in sorted(places)),
                tuple(sorted(cluster.table.renamed_letter(number)[at] for number in wire)),
                budgets,
                cluster.table.renamed_past(past)[at],
            )
            assert cluster.canonical(renamed) == one


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOW_MS, NOW_MS),
        (NOW_MS - 7, NOW_MS),
        (NOW_MS + 1, LATER_MS),
        (LATER_MS, LATER_MS),
        (42, 42),
        (1 << 63, 1 << 63),
    ],
)
def test_a_moment_has_come_or_has_not(value: int, expected: int) -> None:
    assert expected == moment(value)
    assert freeze([value]) == ("list", expected)
