"""Runs a seed of brokers that replicate one partition."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.seeds.outcome import Outcome, judge
from tests.sim_replication.stored_log import StoredLog
from tests.sim_replication.world import World

MIXED, ENGINE = PROFILES = ("mixed", "engine")
"""The controller is abstract, or the real engine."""
BATCHES_SHOWN: Final = 8


def story(world: World) -> str:
    """The registrations of the metadata log, one a line, and then the last batches of each broker's log."""
    logs = (f"broker {broker.id}: … {broker.log.batches[-BATCHES_SHOWN:]}" for broker in world.brokers.values())
    return "\n".join([*map(str, world.controller.log), *logs])


def run(seed: int, profile: str | None = None) -> Outcome:
    """One seed, from its first event to its verdict."""
    return run_in(World(seed, with_engine=profile == ENGINE), seed, profile)


def run_on_disk(seed: int, directory: Path) -> Outcome:
    """The same with logs in files, one below `directory` for each broker."""
    return run_in(World(seed, lambda broker_id: StoredLog(directory / f"broker-{broker_id}")), seed, None)


def run_in(world: World, seed: int, profile: str | None) -> Outcome:
    """A world that has just been made, to its verdict."""
    verdict = judge(world)
    told = repr((world.now_ms, world.controller.log, [broker.log.batches for broker in world.brokers.values()]))
    return Outcome(
        seed=seed,
        profile=profile or MIXED,
        verdict=verdict.verdict,
        number=verdict.number,
        message=verdict.message,
        digest=sha256(told.encode()).hexdigest(),
        story=story(world),
        simulated_ms=world.now_ms,
        fired=world.fired,
        counts=world.oracle.counts | {"failover": world.controller.failovers},
    )
