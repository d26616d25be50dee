"""Every seed keeps every invariant, whatever order things come in; and enough happens in them."""

from __future__ import annotations

import os

import pytest

from tests.seeds.many import check_invariants, check_void, run_many, summed
from tests.seeds.outcome import Outcome
from tests.sim_driver.runner import run

SEED_COUNT = int(os.environ.get("SIM_DRIVER_SEEDS", "40"))
JOBS = 2
CHUNK = 5
VOID_SHARE_MAX = 0.1
OVER_ALL = {
    *("installs", "truncations", "cleanings", "loads", "read bytes"),
    *("pieces", "first batches", "confirmed", "voter changes"),
}
ROWS = {
    *("S-05", "S-06", "S-07", "S-08", "S-09", "S-10", "S-11", "S-12", "S-13", "S-14", "S-15", "S-17", "S-18", "S-19"),
    *(
        "S-22",
        "S-23",
        "P-03",
        "clerk restarts",
        "refused",
        "snapshot",
        "cleaned with a fetch",
        "changed",
        "moves",
        "walks",
    ),
}

pytestmark = pytest.mark.timeout(1_800)  # all seeds run in the set-up of the first test


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
