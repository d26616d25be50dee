"""Runs seeds and judges them: passed, violated, or void if too little has happened to show anything."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.sim.invariants.base import Violation
from tests.sim.runner import PASSED, VIOLATED, VOID, Outcome
from tests.sim_driver.world import World

CHUNK: Final = 5
MEMORY: Final = Path("/dev/shm")
"""Files that need not outlive the test, where nothing waits for a disk."""
PROFILE: Final = "driver"


def home() -> TemporaryDirectory[str]:
    """For one world's files."""
    return TemporaryDirectory(prefix="sim_driver", dir=MEMORY if MEMORY.is_dir() else None)


def run(seed: int) -> Outcome:
    """One seed, from its first event to its verdict."""
    with home() as directory:
        return judged(World(seed, Path(directory)))


def judged(world: World) -> Outcome:
    """Runs it."""
    verdict, number, message = PASSED, "", ""
    try:
        world.run()
        missing = world.missing()
        if missing:
            verdict, message = VOID, "not enough: " + ", ".join(missing)
    except Violation as broken:
        verdict, number, message = VIOLATED, broken.number, str(broken)
    except Exception as broken:  # an assertion of the code under test, or whatever a planted bug leads to
        cause = _innermost(broken)
        place = traceback.extract_tb(cause.__traceback__)[-1]
        where = f"{place.filename.rpartition('/')[2]}:{place.name}"
        number = cause.number if isinstance(cause, Violation) else "code"
        verdict, message = VIOLATED, f"{type(cause).__name__} in {where}: {cause}"
    return Outcome(
        seed=world.seed,
        profile=PROFILE,
        verdict=verdict,
        number=number,
        message=message,
        digest=world.trace.digest,
        story=world.trace.story(20) if verdict == VIOLATED else "",
        event_count=world.loop.step_count,
        simulated_ms=world.now_ms,
        fired=dict(world.tally),
        counts=world.counts(),
    )


def run_many(seeds: Sequence[int], *, jobs: int) -> Iterator[Outcome]:
    """All of `seeds`, in order, by so many processes."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run, seeds, chunksize=CHUNK)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
