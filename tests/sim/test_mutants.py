"""Every planted bug breaks an invariant, and soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeds.many import kept_bugs
from tests.seeds.planting import Mutant
from tests.sim.faults import MIXED
from tests.sim.mutants.judge import DRAWN, MUTANTS, kill

SEEDS_TO_KILL = 150
"""The longest-lived bug took 34 seeds of its profile when this was written."""

KEPT = Path(__file__).parent / "kept_seeds.txt"
ASKED = [*range(1, 20), 20, 21, 22, 30, 31, 32, 33, 34]


def test_every_bug_of_the_catalogue_is_planted() -> None:
    planted = {mutant.number for mutant in MUTANTS}

    assert {f"M{number}" for number in ASKED} <= planted


@pytest.mark.parametrize(("seed", "profile", "bug"), kept_bugs(KEPT))
def test_a_kept_seed_finds_the_bug_that_it_names(seed: int, profile: str, bug: str) -> None:
    (mutant,) = (mutant for mutant in MUTANTS if mutant.number == bug)

    assert kill(mutant, base=seed, limit=1, profile=profile) is not None


def test_a_rare_bug_has_a_kept_seed() -> None:
    kept = {bug for _, _, bug in kept_bugs(KEPT)}

    assert {mutant.number for mutant in MUTANTS if mutant.is_rare} <= kept


@pytest.mark.mutants
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("mutant", DRAWN, ids=lambda mutant: mutant.number)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    found = kill(mutant, base=0, limit=SEEDS_TO_KILL, profile=mutant.profile or MIXED)

    assert found is not None, f"{mutant.number} survived {SEEDS_TO_KILL} seeds: {mutant.what}"
