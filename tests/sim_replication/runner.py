"""Runs a seed of brokers that replicate one partition."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.seeds.outcome import Outcome, judge
from tests.sim_replication.producer_world import ProducerWorld
from tests.sim_replication.reassigned_world import ReassignedWorld
from tests.sim_replication.stored_log import StoredLog
from tests.sim_replication.stored_producer_log import StoredProducerLog
from tests.sim_replication.unclean_world import UncleanWorld
from tests.sim_replication.world import World

PROFILES: Final = ("mixed", "engine", "producers", "files", "unclean", "reassigned")
"""The controller is abstract, or the real engine. Clients are producers with ids; their logs in memory, or in files.
Leaders are elected uncleanly. The partition moves between brokers."""
MIXED, ENGINE, PRODUCERS, FILES, UNCLEAN, REASSIGNED = PROFILES
BATCHES_SHOWN: Final = 8


def story(world: World) -> str:
    """The registrations of the metadata log, one a line, and then the last batches of each broker's log."""
    logs = (f"broker {broker.id}: … {broker.log.batches[-BATCHES_SHOWN:]}" for broker in world.brokers.values())
    return "\n".join([*map(str, world.controller.log), *logs])


def run(seed: int, profile: str | None = None) -> Outcome:
    """One seed, from its first event to its verdict."""
    if profile == FILES:
        with TemporaryDirectory() as directory:
            return run_on_disk(seed, Path(directory), FILES)
    if profile == UNCLEAN:
        return run_in(UncleanWorld(seed), seed, profile)
    if profile == REASSIGNED:
        return run_in(ReassignedWorld(seed), seed, profile)
    world = ProducerWorld(seed) if profile == PRODUCERS else World(seed, with_engine=profile == ENGINE)
    return run_in(world, seed, profile)


def run_on_disk(seed: int, directory: Path, profile: str | None = None) -> Outcome:
    """The same with logs in files, one below `directory` for each broker."""
    if profile == FILES:
        world = ProducerWorld(seed, lambda broker_id: StoredProducerLog(directory / f"broker-{broker_id}"))
        return run_in(world, seed, profile)
    return run_in(World(seed, lambda broker_id: StoredLog(directory / f"broker-{broker_id}")), seed, None)


def run_in(world: World, seed: int, profile: str | None) -> Outcome:
    """A world that has just been made, to its verdict."""
    verdict = judge(world)
    logs = [broker.log.batches for broker in world.brokers.values()]
    answers = world.referee.told if isinstance(world, ProducerWorld) else []
    told = repr((world.now_ms, world.controller.log, logs, answers))
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
