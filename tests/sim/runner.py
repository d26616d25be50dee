"""Runs a seed of the quorum's cores."""

from __future__ import annotations

from collections.abc import Callable

from tests.seeds.outcome import VIOLATED, Outcome, judge
from tests.sim.world import World


def run(seed: int, profile: str | None = None) -> Outcome:
    """One seed, from its first event to its verdict."""
    return judged(World(seed, profile=profile))


def judged(world: World, counts: Callable[[], dict[str, int]] | None = None) -> Outcome:
    """What becomes of this world; `counts` is what is counted in the end, if not what the cores have done."""
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
        counts=_counts(world) if counts is None else counts(),
    )


def _counts(world: World) -> dict[str, int]:
    checker = world.checker
    return {
        "elections": len(checker.election.leaders),
        "truncations": checker.log.truncation_count,
        "snapshot installs": checker.snapshots.install_count,
        "crashes": world.crash_count,
        "voter changes": checker.membership.change_count,
        "committed records": checker.ledger.end,
        "acknowledged appends": world.oracle.ok_count,
    }
