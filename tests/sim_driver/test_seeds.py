"""Every seed keeps every invariant, whatever order things come in; and enough happens in them."""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.seeds.many import check_invariants, check_void, run_many, summed
from tests.seeds.outcome import Outcome
from tests.sim_driver.runner import WALKING, WIPING, run

SEED_COUNT = int(os.environ.get("SIM_DRIVER_SEEDS", "50"))
"""The rarest of the rows strike in one of twenty seeds at most."""
JOBS = 2
CHUNK = 5
VOID_SHARE_MAX = 0.1
OVER_ALL = {
    *("installs", "truncations", "cleanings", "loads", "read bytes"),
    *("pieces", "first batches", "confirmed", "voter changes"),
}
ROWS = {
    *("S-03", "S-05", "S-05 unaware", "S-06", "S-07", "S-08", "S-09", "S-10", "S-11", "S-12", "S-13", "S-14", "S-15"),
    *(
        "S-17",
        "S-18",
        "S-19",
        "S-20",
        "S-21",
        "S-21 older",
        "S-22",
        "S-23",
        "S-24",
        "S-24 in chunks",
        "S-26",
        "S-26 resigned",
        "S-46",
        "S-47",
    ),
    *(
        "P-03",
        "changed",
        "clerk restarts",
        "cleaned with a fetch",
        "snapshot with a fetch",
        "filled",
        "moves",
        "refused",
    ),
    "walks",
}
"""TCP loses and doubles nothing (S-01, S-02); S-04 comes with S-05; `tests/sim` has S-16 and S-27."""

WALKS = {"S-48 cancelled", "S-48 replaced", "S-48 left to itself", "S-49", "I-89 awaited"}
WALKING_SEEDS = 15
WIPING_SEEDS = 6

pytestmark = pytest.mark.timeout(7_200)  # all seeds run in the set-up of the first test


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(run_many(run, range(SEED_COUNT), jobs=JOBS, chunk=CHUNK))


def test_no_seed_breaks_an_invariant(outcomes: list[Outcome]) -> None:
    check_invariants(outcomes)


def test_few_seeds_are_void(outcomes: list[Outcome]) -> None:
    check_void(outcomes, share_max=VOID_SHARE_MAX)


def test_everything_strikes_and_comes_about_in_some_seed(outcomes: list[Outcome]) -> None:
    fired, counts = summed(outcomes, "fired"), summed(outcomes, "counts")

    assert [] == sorted(row for row in ROWS if not fired[row]), fired
    assert [] == sorted(what for what in OVER_ALL if not counts[what]), counts


def test_walks_are_replaced_taken_back_and_gone_on_with_after_the_leader() -> None:
    outcomes = list(run_many(partial(run, profile=WALKING), range(WALKING_SEEDS), jobs=JOBS, chunk=CHUNK))

    check_invariants(outcomes)
    fired = summed(outcomes, "fired")
    assert [] == sorted(row for row in WALKS if not fired[row]), fired


def test_voters_whose_disks_are_lost_vote_again_also_where_only_the_leader_finds_them() -> None:
    outcomes = list(run_many(partial(run, profile=WIPING), range(WIPING_SEEDS), jobs=JOBS, chunk=1))

    check_invariants(outcomes)
    assert summed(outcomes, "fired")["S-21 wiped"]
