"""A bug that is put into the glue of the controller or heartbeat service is found, and soon."""

from __future__ import annotations

import pytest

from tests.sim_services.mutants import MUTANTS, Mutant, kill

SEEDS_TO_KILL = 25
QUICK = ("G1", "G2", "G4", "G6", "G7", "G8", "G11", "G13")
"""Found by one of the first seeds; the others are tried with `-m mutants`."""
ALIVE = ("G3",)
"""Not found any more: see the README."""


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.number in QUICK], ids=lambda mutant: mutant.number)
def test_a_bug_that_is_met_often_is_found(mutant: Mutant) -> None:
    assert kill(mutant, base=0, limit=8) is not None, mutant.what


@pytest.mark.mutants
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(
    "mutant", [each for each in MUTANTS if each.number not in ALIVE], ids=lambda mutant: mutant.number
)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert kill(mutant, base=0, limit=SEEDS_TO_KILL) is not None, mutant.what
