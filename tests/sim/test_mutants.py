"""Every planted bug breaks an invariant, and soon."""

from __future__ import annotations

import pytest

from tests.sim.mutants.base import Mutant
from tests.sim.mutants.judge import MUTANTS, kill

SEEDS_TO_KILL = 150
"""The longest-lived bug took 34 seeds of its profile when this was written."""

ASKED = [*range(1, 20), 20, 21, 22, 30, 31, 32, 33, 34]


def test_every_bug_of_the_catalogue_is_planted() -> None:
    planted = {mutant.number for mutant in MUTANTS}

    assert {f"M{number}" for number in ASKED} <= planted


@pytest.mark.mutants
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.number)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    found = kill(mutant, base=0, limit=SEEDS_TO_KILL, profile=mutant.profile)

    assert found is not None, f"{mutant.number} survived {SEEDS_TO_KILL} seeds: {mutant.what}"
