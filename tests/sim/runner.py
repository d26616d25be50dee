"""Runs seeds and judges them: passed, violated, or void if too little has happened to show anything."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from tests.sim.invariants.base import Violation
from tests.sim.world import World

PASSED, VIOLATED, VOID = "passed", "violated", "void"
CHUNK: Final = 25
"""Seeds that one process takes at a time."""


@dataclass(frozen=True)
class Outcome:
    """What became of one seed."""

    seed: int
    profile: str
    verdict: str
    number: str = ""
    """The invariant that was broken; "core" for an assertion of the core itself."""
    message: str = ""
    """What was violated, or what a void seed is missing."""
    digest: str = ""
    story: str = ""
    event_count: int = 0
    simulated_ms: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"seed {self.seed} ({self.profile}): {self.verdict} {self.message}"


def run(seed: int, *, profile: str | None = None) -> Outcome:
    """One seed, from its first event to its verdict."""
    world = World(seed, profile=profile)
    verdict, number, message = PASSED, "", ""
    try:
        world.run()
        missing = world.missing()
        if missing:
            verdict, message = VOID, "not enough: " + ", ".join(missing)
    except Violation as broken:
        verdict, number, message = VIOLATED, broken.number, str(broken)
    except Exception as broken:  # an assertion of the core, or whatever a planted bug leads to
        place = traceback.extract_tb(broken.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.name}"
        verdict, number, message = VIOLATED, "core", f"{type(broken).__name__} in {where}: {broken}"
    return Outcome(
        seed=seed,
        profile=world.plan.profile,
        verdict=verdict,
        number=number,
        message=message,
        digest=world.trace.digest,
        story=world.trace.story(20) if verdict == VIOLATED else "",
        event_count=world.checker.turn_count,
        simulated_ms=world.timeline.now_ms,
        fired=dict(world.tally),
        counts=_counts(world),
    )


def run_many(seeds: Sequence[int], *, jobs: int) -> Iterator[Outcome]:
    """All of `seeds`, in order, by so many processes."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, seeds, chunksize=CHUNK)


def summed(outcomes: Sequence[Outcome], what: str) -> Counter[str]:
    """The sum of `fired` or `counts` over seeds."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(getattr(outcome, what))
    return total


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
