"""One seed is one history, in every process: I-37 across PYTHONHASHSEED."""

from __future__ import annotations

from tests.sim_controller.judge import digests
from tests.sim_controller.runner import run

SEED = 4


def test_two_processes_with_different_hash_seeds_tell_one_story() -> None:
    first, second = digests("no bug", SEED)

    assert first == second == run(SEED).digest


def test_two_seeds_tell_two_stories() -> None:
    assert run(SEED).digest != run(SEED + 1).digest
