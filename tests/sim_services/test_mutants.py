"""A bug that is put into the glue of the controller or heartbeat service is found, and soon."""

from __future__ import annotations

import pytest

from tests.mutation.planted import BUGS
from tests.seeds.planting import Mutant, kill
from tests.sim_services.mutants import LIVING, MUTANTS
from tests.sim_services.runner import run

SEEDS_TO_KILL = 100
QUICK = ("G1", "G2", "G4", "G6", "G7", "G8", "G11", "G13", "G14", "G15", "G18")
"""Found by one of the first seeds; the others are tried with `-m mutants`."""


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.number in QUICK], ids=lambda mutant: mutant.number)
def test_a_bug_that_is_met_often_is_found(mutant: Mutant) -> None:
    assert kill(run, mutant, base=mutant.base, limit=40) is not None, mutant.what


@pytest.mark.parametrize("mutant", LIVING, ids=lambda mutant: mutant.number)
def test_a_bug_that_lives_here_is_found_by_a_test_of_the_services(mutant: Mutant) -> None:
    """`make mutants-glue` plants it, and sees that test fail."""
    (found,) = (bug for bug in BUGS if bug.number == mutant.number)

    assert found.test.startswith("tests/services/")
    assert mutant.number not in {each.number for each in MUTANTS}


@pytest.mark.mutants
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(
    "mutant", [each for each in MUTANTS if each.number not in QUICK], ids=lambda mutant: mutant.number
)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    assert kill(run, mutant, base=mutant.base, limit=SEEDS_TO_KILL) is not None, mutant.what
