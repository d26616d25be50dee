"""Every planted bug breaks an invariant, and the right one, and soon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeds.many import kept_bugs
from tests.seeds.outcome import VIOLATED
from tests.seeds.planting import Mutant
from tests.sim_controller.judge import kill, planted
from tests.sim_controller.mutants import MUTANTS

SEEDS_TO_KILL = 60

KILLED_BY = {
    "M23": {"I-37"},
    "M24": {"I-64"},
    "M25": {"I-52", "I-53"},
    "M25e": {"I-52"},
    "M26": {"I-49", "code"},
    "M27": {"I-57"},
    "M28": {"I-50"},
    "M29": {"I-51"},
    "M29r": {"I-51", "code"},
    "C1": {"I-38"},
    "C2": {"I-25", "I-43", "code"},
    "C3": {"I-38", "I-43", "code"},
    "C4": {"I-57"},
    "C5": {"I-48", "I-52", "I-53", "I-54"},
    "C6": {"I-46", "I-48"},
    "C7": {"I-49"},
    "C8": {"I-49"},
    "C20": {"I-90"},
}


def test_every_bug_of_the_catalogue_is_planted() -> None:
    assert {f"M{number}" for number in range(23, 30)} <= {mutant.number for mutant in MUTANTS}


@pytest.mark.parametrize(("seed", "profile", "bug"), kept_bugs(Path(__file__).parent / "kept_seeds.txt"))
def test_a_kept_seed_finds_the_bug_that_it_names(seed: int, profile: str, bug: str) -> None:
    outcome = planted(bug, seed, profile)

    assert (outcome.verdict, outcome.number in KILLED_BY[bug]) == (VIOLATED, True), outcome


@pytest.mark.mutants
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.number)
def test_a_planted_bug_is_found(mutant: Mutant) -> None:
    found = kill(mutant, base=0, limit=SEEDS_TO_KILL)

    assert found is not None, f"{mutant.number} survived {SEEDS_TO_KILL} seeds: {mutant.what}"
    assert found[1] in KILLED_BY[mutant.number], found
