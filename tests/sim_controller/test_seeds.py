"""Every seed keeps every invariant; enough happens in them; and a failure once found stays found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.seeds.many import check_invariants, check_void, kept_seeds, run_many, summed
from tests.seeds.outcome import Outcome
from tests.sim_controller.plan import ROWS
from tests.sim_controller.runner import run

SEED_COUNT = int(os.environ.get("SIM_CONTROLLER_SEEDS", "28"))
JOBS = 2
CHUNK = 5
VOID_SHARE_MAX = 0.15

OVER_ALL = (
    "elections",
    "fencings",
    "controlled shutdowns",
    "ISR changes",
    "reassignments completed",
    "reassignments called off",
    "unclean elections",
    "ELR members",
    "ELR elections",
    "failovers with writes in flight",
    "transactions aborted",
    "snapshot installs",
    "reads answered",
)
"""Each of these, in some seed or other."""

pytestmark = pytest.mark.timeout(7_200)  # all seeds run in the set-up of the first test


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(run_many(run, range(SEED_COUNT), jobs=JOBS, chunk=CHUNK))


def test_no_seed_breaks_an_invariant(outcomes: list[Outcome]) -> None:
    check_invariants(outcomes)


def test_few_seeds_are_void(outcomes: list[Outcome]) -> None:
    check_void(outcomes, share_max=VOID_SHARE_MAX)


def test_every_fault_strikes(outcomes: list[Outcome]) -> None:
    fired = summed(outcomes, "fired")

    assert [] == [row for row in ROWS if not fired[row]], fired


def test_everything_comes_about_that_could_go_wrong(outcomes: list[Outcome]) -> None:
    counts = summed(outcomes, "counts")

    assert [] == [name for name in OVER_ALL if not counts[name]], counts


@pytest.mark.parametrize(("seed", "profile"), kept_seeds(Path(__file__).parent / "kept_seeds.txt"))
def test_a_kept_seed_keeps_the_invariants(seed: int, profile: str) -> None:
    check_invariants([run(seed, profile=profile)])
