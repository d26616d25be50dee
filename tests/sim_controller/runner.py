"""Runs a seed of the whole control plane."""

from __future__ import annotations

from tests.seeds.outcome import VIOLATED, Outcome, judge
from tests.sim.invariants.base import Violation
from tests.sim_controller.world import ControllerWorld


def run(seed: int, *, profile: str | None = None) -> Outcome:
    """One seed, from its first event to its verdict."""
    return judged(ControllerWorld(seed, profile=profile))


def judged(world: ControllerWorld) -> Outcome:
    """What becomes of this world."""
    verdict = judge(world)
    return Outcome(
        seed=world.seed,
        profile=world.plan.profile,
        verdict=verdict.verdict,
        number=verdict.number,
        message=verdict.message,
        digest=world.trace.digest,
        story=world.trace.story(20) if verdict.verdict == VIOLATED else "",
        event_count=world.checker.turn_count,
        simulated_ms=world.timeline.now_ms,
        fired=dict(world.tally),
        counts=_counts(world),
    )


def _counts(world: ControllerWorld) -> dict[str, int]:
    try:
        return world.counts()
    except Violation:
        return {}  # it is the verdict already
