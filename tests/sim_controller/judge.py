"""Plants each bug and counts the seeds until an invariant breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from tests.seeds import planting
from tests.seeds.outcome import Outcome
from tests.seeds.planting import Killed, Mutant, Patch
from tests.sim_controller.mutants import MUTANTS
from tests.sim_controller.runner import run

MAX_SEEDS: Final = 60
"""After so many seeds a bug has survived."""

TWO: Final = """
import sys
from tests.sim_controller.judge import planted
number, seed = sys.argv[1], int(sys.argv[2])
print(planted(number, seed).digest)
"""


def planted(number: str, seed: int, profile: str | None = None) -> Outcome:
    """One seed with one bug; with none if `number` names none."""
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
        if len(set(digests(mutant.number, base + count - 1))) > 1:
            return count, "I-37"
    return None


def digests(number: str, seed: int) -> Iterator[str]:
    """What one seed comes to in processes with different PYTHONHASHSEED."""
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", TWO, number, str(seed)]
        yield subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
