"""Plants each bug and counts the seeds until an invariant breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final

from tests.sim.runner import VIOLATED, Outcome
from tests.sim_controller.mutants import MUTANTS, Mutant, Patch
from tests.sim_controller.runner import run

MAX_SEEDS: Final = 60
"""After so many seeds a bug has survived."""
BASE_STEP: Final = 100_000

TWO: Final = """
import sys
from tests.sim_controller.judge import planted
number, seed = sys.argv[1], int(sys.argv[2])
print(planted(number, seed).digest)
"""


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    mutant: Mutant
    counts: tuple[int | None, ...]
    """Seeds until killed, by base; None for a survivor."""
    killers: tuple[str, ...]

    @property
    def is_survivor(self) -> bool:
        return None in self.counts

    def __str__(self) -> str:
        counts = " ".join("–" if count is None else str(count) for count in self.counts)
        known = [MAX_SEEDS if count is None else count for count in self.counts]
        killers = ", ".join(sorted(set(self.killers)))
        return f"| {self.mutant.number} | {self.mutant.what} | {counts} | {median_low(known)} | {killers} |"


def planted(number: str, seed: int, profile: str | None = None) -> Outcome:
    """One seed with one bug; with none if `number` names none."""
    with Patch.context() as patch:
        for mutant in MUTANTS:
            if mutant.number == number:
                mutant.plant(patch)
        return run(seed, profile=profile)


def kill(mutant: Mutant, *, base: int, limit: int) -> tuple[int, str] | None:
    """Seeds from `base` on until one is violated, and by what; None if none of `limit` is."""
    for count in range(1, limit + 1):
        seed = base + count - 1
        if mutant.needs_two:
            if len(set(digests(mutant.number, seed))) > 1:
                return count, "I-37"
        else:
            outcome = planted(mutant.number, seed, mutant.profile)
            if outcome.verdict == VIOLATED:
                return count, outcome.number
    return None


def digests(number: str, seed: int) -> Iterator[str]:
    """What one seed comes to in processes with different PYTHONHASHSEED."""
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", TWO, number, str(seed)]
        yield subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def table(names: Sequence[str], *, bases: int, limit: int) -> Iterator[Line]:
    """A line for each bug of these names, or for all."""
    for mutant in MUTANTS:
        if names and mutant.number not in names:
            continue
        kills = [kill(mutant, base=base * BASE_STEP, limit=limit) for base in range(bases)]
        counts = tuple(None if found is None else found[0] for found in kills)
        yield Line(mutant, counts, tuple(found[1] for found in kills if found is not None))
