"""Plants each bug and counts the seeds until an invariant breaks."""

from __future__ import annotations

from typing import Final

from tests.seeds import planting
from tests.seeds.many import digests
from tests.seeds.outcome import Outcome
from tests.seeds.planting import Killed, Mutant, Patch
from tests.sim_controller.mutants import MUTANTS
from tests.sim_controller.runner import run

MAX_SEEDS: Final = 60
"""After so many seeds a bug has survived."""


def planted(number: str, seed: int, profile: str | None = None) -> Outcome:
    """One seed with one bug."""
    with Patch.context() as patch:
        for mutant in MUTANTS:
            if mutant.number == number:
                mutant.plant(patch)
        return run(seed, profile=profile)


def kill(mutant: Mutant, *, base: int, limit: int) -> Killed | None:
    """Seeds from `base` on until one is violated, and by what; None if none of `limit` is."""
    if not mutant.needs_two:
        return planting.kill(run, mutant, base=base, limit=limit)
    for count in range(1, limit + 1):
        seed = base + count - 1
        first, second = (digests(planted, (mutant.number, seed), hash_seed=hash_seed) for hash_seed in ("1", "2"))
        if first != second:
            return count, "I-37"
    return None
