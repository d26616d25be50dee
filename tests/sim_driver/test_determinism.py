"""One seed is one history, in whatever process: nothing of the real time, the disk or a hash order gets in."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim_driver.runner import run

SEEDS = (3, 11)
SCRIPT = "import sys; from tests.sim_driver.runner import run; print(*(run(int(seed)).digest for seed in sys.argv[1:]))"


@pytest.mark.timeout(7_200)
def test_two_processes_tell_one_story() -> None:
    here = [run(seed).digest for seed in SEEDS]
    environ = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, "-c", SCRIPT, *map(str, SEEDS)]
    there = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.split()

    assert here == there
