"""Small clusters of real cores, every state of each: no law is broken. Planted bugs break one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.exhaustive.bounds import Bounds
from tests.exhaustive.plants import PLANTS, Plant, planted
from tests.exhaustive.walk import Report, Walk

LEAN = Bounds(voters=2, crashes=0, resigns=0, stale=0, is_pre_vote_free=True, is_lean=True)

WALKS = {
    "two voters, all timers, a crash, resignations": Bounds(voters=2, epochs=1, crashes=1, resigns=9),
    "two voters, late requests, a crash": replace(LEAN, epochs=2, crashes=1, stale=9, duplicates=1),
    "three voters": replace(LEAN, voters=3, epochs=1, resigns=1),
    "a voter comes": replace(LEAN, epochs=1, appends=0, adds=1),
    "a voter goes": replace(LEAN, voters=3, epochs=1, appends=0, removes=1),
}
SLOW_PLANTS = {"M7 truncates by offset alone"}
"""Found too, in tens of seconds: `README.md`."""


@pytest.mark.parametrize("name", WALKS)
def test_every_state_keeps_the_laws(name: str) -> None:
    report = Walk(WALKS[name]).run()

    print(f"{name}: {report.states} states, {report.transitions} transitions, {report.seconds:.1f} s")
    assert report.broken is None, "\n".join([report.broken or "", *report.path])
    assert report.is_complete
    # A walk in which nothing happens shows nothing.
    assert report.states > 1_000
    assert report.leaders == WALKS[name].epochs
    assert report.committed > WALKS[name].appends
    assert report.voter_sets == 1 + WALKS[name].adds + WALKS[name].removes


def test_a_walk_is_the_same_every_time() -> None:
    first, second = (Walk(WALKS["a voter comes"]).run() for _ in range(2))

    assert replace_times(first) == replace_times(second)


def test_a_walk_that_is_cut_says_so() -> None:
    report = Walk(WALKS["three voters"], states_max=100).run()

    assert not report.is_complete
    assert report.broken is None


@pytest.mark.parametrize("name", sorted(PLANTS.keys() - SLOW_PLANTS))
def test_a_planted_bug_is_found(name: str) -> None:
    plant: Plant = PLANTS[name]
    with planted(plant):
        report = Walk(plant.bounds, states_max=50_000).run()

    print(f"{name}: {report.states} states\n{report.broken}\n" + "\n".join(report.path))
    assert report.broken is not None
    assert report.path


@pytest.mark.parametrize("wrong", [{"voters": 0}, {"voters": 4, "adds": 2}, {"epochs": -1}, {"crashes": -1}])
def test_refuses_bounds_that_bound_nothing(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Bounds(**wrong)  # type: ignore[arg-type]


def replace_times(report: Report) -> Report:
    return replace(report, seconds=0.0)
