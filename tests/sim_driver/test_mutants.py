"""A bug that is put into the real services is found, and soon."""

from __future__ import annotations

import pytest

from tests.seeds.planting import Mutant, kill
from tests.sim_driver.mutants import MUTANTS
from tests.sim_driver.runner import run

SEEDS_TO_KILL = 120
"""The longest-lived took 60 seeds when this was written."""
QUICK = ("D1", "D2", "D13")
"""Found within a few seeds; the others are tried with `-m mutants`."""


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.number in QUICK], ids=lambda mutant: mutant.number)
def test_a_bug_that_is_met_often_is_found(mutant: Mutant) -> None:
    assert kill(run, mutant, base=0, limit=20) is not None, mutant.what


@pytest.mark.mutants
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.number)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert kill(run, mutant, base=0, limit=SEEDS_TO_KILL) is not None, mutant.what
