"""Runs a seed of real drivers, with files of their own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.seeds.outcome import VIOLATED, Outcome, judge
from tests.sim_driver.profiles import CleaningWorld, LyingWorld, MovingWorld, WalkingWorld, WipingWorld
from tests.sim_driver.world import World

MEMORY: Final = Path("/dev/shm")
"""Files that need not outlive the test, where nothing waits for a disk."""
PROFILE, MOVING, CLEANING, WALKING, LYING, WIPING = PROFILES = (
    "driver",
    "moving",
    "cleaning",
    "walking",
    "lying",
    "wiping",
)
"""What is drawn; voters that move; slow disks, cleaned often; voter sets that walk to a target; a leader's nonsense;
disks that are lost."""
WORLDS: Final[dict[str, type[World]]] = {
    PROFILE: World,
    MOVING: MovingWorld,
    CLEANING: CleaningWorld,
    WALKING: WalkingWorld,
    LYING: LyingWorld,
    WIPING: WipingWorld,
}


def home() -> TemporaryDirectory[str]:
    """For one world's files."""
    return TemporaryDirectory(prefix="sim_driver", dir=MEMORY if MEMORY.is_dir() else None)


def run(seed: int, profile: str = PROFILE) -> Outcome:
    """One seed, from its first event to its verdict."""
    with home() as directory:
        return judged(made(seed, Path(directory), profile), profile=profile)


def made(seed: int, directory: Path, profile: str, *, keeps_all: bool = False) -> World:
    """A world of this profile."""
    return WORLDS[profile](seed, directory, keeps_all=keeps_all)


def judged(world: World, *, profile: str = PROFILE) -> Outcome:
    """What becomes of this world."""
    verdict = judge(world)
    return Outcome(
        seed=world.seed,
        profile=profile,
        verdict=verdict.verdict,
        number=verdict.number,
        message=verdict.message,
        digest=world.trace.digest,
        story=world.trace.story(20) if verdict.verdict == VIOLATED else "",
        event_count=world.loop.step_count,
        simulated_ms=world.now_ms,
        fired=dict(world.tally),
        counts=world.counts(),
    )
