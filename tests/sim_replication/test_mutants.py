"""Every planted bug breaks a rule, and soon."""

from __future__ import annotations

import pytest

from tests.seeds.planting import Mutant
from tests.sim_replication.mutants import MUTANTS, kill

SEEDS_TO_KILL = 100
BASES = (0, 100_000, 200_000, 400_000)


@pytest.mark.mutants
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.number)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    found = any(
        kill(mutant, base=base, limit=SEEDS_TO_KILL) for base in sorted(BASES, key=lambda base: base != mutant.base)
    )

    assert found, f"{mutant.number} survived {SEEDS_TO_KILL} seeds from each of {BASES}: {mutant.what}"
