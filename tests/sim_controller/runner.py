"""Runs a seed of the whole control plane."""

from __future__ import annotations

from tests.seeds.outcome import Outcome
from tests.sim import runner as cluster
from tests.sim.invariants.base import Violation
from tests.sim_controller.world import ControllerWorld


def run(seed: int, profile: str | None = None) -> Outcome:
    """One seed, from its first event to its verdict."""
    return judged(ControllerWorld(seed, profile=profile))


def judged(world: ControllerWorld) -> Outcome:
    """What becomes of this world."""
    return cluster.judged(world, lambda: _counts(world))


def _counts(world: ControllerWorld) -> dict[str, int]:
    try:
        return world.counts()
    except Violation:
        return {}  # it is the verdict already
