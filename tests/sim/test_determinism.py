"""One seed is one history, in every process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.sim.faults import PROFILES
from tests.sim.runner import run

SEEDS = (1,)

SCRIPT = f"""
from tests.sim.runner import run
for profile in {PROFILES!r}:
    for seed in {SEEDS!r}:
        print(profile, seed, run(seed, profile=profile).digest)
"""


def digests(hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


def test_two_processes_with_different_hash_seeds_tell_one_story() -> None:
    first, second = digests("1"), digests("2")

    assert len(PROFILES) * len(SEEDS) == len(first)
    assert first == second


def test_two_seeds_tell_two_stories() -> None:
    assert run(1).digest != run(2).digest
