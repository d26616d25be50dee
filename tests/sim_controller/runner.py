"""Runs seeds and judges them: passed, violated, or void if too little has happened to show anything."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.sim.invariants.base import Violation
from tests.sim.runner import PASSED, VIOLATED, VOID, Outcome
from tests.sim_controller.world import ControllerWorld

CHUNK: Final = 5
"""Seeds that one process takes at a time."""


def run(seed: int, *, profile: str | None = None) -> Outcome:
    """One seed, from its first event to its verdict."""
    world = ControllerWorld(seed, profile=profile)
    verdict, number, message = PASSED, "", ""
    try:
        world.run()
        missing = world.missing()
        if missing:
            verdict, message = VOID, "not enough: " + ", ".join(missing)
    except Violation as broken:
        verdict, number, message = VIOLATED, broken.number, str(broken)
    except Exception as broken:  # an assertion of the code under test, or whatever a planted bug leads to
        place = traceback.extract_tb(broken.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.name}"
        verdict, number, message = VIOLATED, "code", f"{type(broken).__name__} in {where}: {broken}"
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


def _counts(world: ControllerWorld) -> dict[str, int]:
    try:
        return world.counts()
    except Violation:
        return {}  # it is the verdict already
