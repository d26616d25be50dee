"""Every seed keeps every invariant; every fault strikes; and what could go wrong comes about."""

from __future__ import annotations

import os
from functools import partial

import pytest

from tests.seeds.many import check_invariants, check_void, run_many, summed
from tests.seeds.outcome import Outcome
from tests.sim_services.runner import LEADING, TWO, run

SEED_COUNT = int(os.environ.get("SIM_SERVICES_SEEDS", "45"))
"""The rarest of the rows strike in one of sixteen seeds. The longest-lived planted bug needs eleven (README.md)."""
JOBS = 2
CHUNK = 5
VOID_SHARE_MAX = 0.1
ROWS = (
    *("S-03", "S-05", "S-05 unaware", "S-06", "S-07", "S-08", "S-09", "S-10", "S-11", "S-12", "S-13", "S-14", "S-15"),
    *("S-17", "S-18", "S-19", "S-20", "S-22", "S-24 in chunks", "S-26"),
    *("C-01", "C-02", "C-05", "C-07", "C-08", "C-09", "C-13", "C-14", "C-15"),
    *("C-16", "C-16 killed", "C-16 without brokers", "C-16 without nodes"),
)
"""Not S-21, which strikes in one of thirty seeds here: `tests/sim_driver` has it."""

OVER_ALL = (
    *("all were silent", "another one counts"),
    *("append refused", "chores", "decisions in steps", "failover with writes in flight", "fencings asked for"),
    *("answered without a leader", "asked of the next leader", "handed over again", "passed on", "places taken"),
    "taken back in part",
)
COUNTS = ("acknowledged", "answers", "installs", "loads", "no-ops", "reads", "refused untouched", "states compared")

pytestmark = pytest.mark.timeout(7_200)  # all seeds run in the set-up of the first test


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    fifth = SEED_COUNT // 5
    beside = [
        outcome
        for profile in (LEADING, TWO)
        for outcome in run_many(partial(run, profile=profile), range(fifth), jobs=JOBS, chunk=CHUNK)
    ]
    return [*run_many(run, range(SEED_COUNT - fifth), jobs=JOBS, chunk=CHUNK), *beside]


def test_no_seed_breaks_an_invariant(outcomes: list[Outcome]) -> None:
    check_invariants(outcomes)


def test_few_seeds_are_void(outcomes: list[Outcome]) -> None:
    check_void(outcomes, share_max=VOID_SHARE_MAX)


def test_everything_strikes_and_comes_about_in_some_seed(outcomes: list[Outcome]) -> None:
    fired, counts = summed(outcomes, "fired"), summed(outcomes, "counts")

    assert [] == [row for row in (*ROWS, *OVER_ALL) if not fired[row]], fired
    assert [] == [what for what in COUNTS if not counts[what]], counts
