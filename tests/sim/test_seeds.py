"""Every seed keeps every invariant; enough happens in them; and a failure once found stays found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sim.faults import ROWS
from tests.sim.runner import VIOLATED, VOID, Outcome, run, run_many, summed

SEED_COUNT = int(os.environ.get("SIM_SEEDS", "1000"))
JOBS = 2
VOID_SHARE_MAX = 0.05

KEPT = [
    line.split(maxsplit=2)[:2]
    for line in (Path(__file__).parent / "kept_seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]

pytestmark = pytest.mark.timeout(1_800)  # all seeds run in the set-up of the first test


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return list(run_many(range(SEED_COUNT), jobs=JOBS))


def test_no_seed_breaks_an_invariant(outcomes: list[Outcome]) -> None:
    broken = [f"{outcome}\n{outcome.story}" for outcome in outcomes if outcome.verdict == VIOLATED]

    assert not broken, "\n\n".join(broken[:3])


def test_few_seeds_are_void(outcomes: list[Outcome]) -> None:
    void = [str(outcome) for outcome in outcomes if outcome.verdict == VOID]

    assert len(void) <= VOID_SHARE_MAX * len(outcomes), "\n".join(void[:20])


def test_every_row_of_the_fault_matrix_strikes(outcomes: list[Outcome]) -> None:
    fired = summed(outcomes, "fired")

    assert [] == [row for row in ROWS if not fired[row]], fired


@pytest.mark.parametrize(("seed", "profile"), KEPT)
def test_a_kept_seed_keeps_the_invariants(seed: str, profile: str) -> None:
    outcome = run(int(seed), profile=profile)

    assert outcome.verdict != VIOLATED, f"{outcome}\n{outcome.story}"
