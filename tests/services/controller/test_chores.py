"""The controller's loop of chores: what is too much for one go is done in several, at once."""

from __future__ import annotations

import asyncio
import logging

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.controller.periodic import CHORES
from quorate.metadata.partitions import NO_LEADER
from quorate.records import ConfigRecord, PartitionChangeRecord
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from services.controller.driver import ControllerDriver
from services.controller.periodic_tasks import PeriodicTasks
from tests.controller.clusters import Cluster

PARTITIONS = 1_200
INTERVAL_MS = 3_600_000
ALWAYS_S = {chore.interval_ms / 1_000 for chore in CHORES if chore.setting is None}


def leaderless() -> Cluster:
    """A topic whose partitions have no leader: broker 1 alone was in sync, 2 may lead all the same."""
    cluster = Cluster(25).brokers(1, 2)
    topic_id = cluster.topic("t", *[[1, 2]] * PARTITIONS)
    cluster.apply(PartitionChangeRecord(number, topic_id, isr=(1,), leader=NO_LEADER) for number in range(PARTITIONS))
    cluster.apply([ConfigRecord(2, "t", "unclean.leader.election.enable", "true")])
    return cluster


async def test_who_stands_by_does_none_of_them(caplog: pytest.LogCaptureFixture) -> None:
    """Not even to be refused: every standby would do so twice a second."""
    channel = grpc.aio.insecure_channel("localhost:1")
    cluster = leaderless()
    engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
    driver = ControllerDriver(
        engine, channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    looked = asyncio.Semaphore(0)

    async def sleep(_: float) -> None:
        """Takes no time, and lets others have their turn."""
        looked.release()
        await asyncio.sleep(0)

    caplog.set_level(logging.DEBUG)
    loop = asyncio.create_task(PeriodicTasks(driver, ControllerSettings(), {}, sleep=sleep).run())
    async with asyncio.timeout(120):
        for _ in range(3 * len(CHORES)):
            await looked.acquire()
    loop.cancel()
    await channel.close()

    assert [] == [
        record.getMessage() for record in caplog.records if record.name == "services.controller.periodic_tasks"
    ]


async def test_a_full_bite_is_followed_by_the_next_and_not_by_the_interval() -> None:
    channel = grpc.aio.insecure_channel("localhost:1")  # nobody is there: the test says what the quorum node would
    cluster = leaderless()
    engine = Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)
    driver = ControllerDriver(
        engine, channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await driver.hear(
        ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=engine.next_offset))
    )
    pauses: list[tuple[float, int]] = []
    done = asyncio.Event()

    async def sleep(seconds: float) -> None:
        """The first three pauses take no time; then the test has seen enough. A task that cannot be turned off
        waits."""
        if seconds in ALWAYS_S:
            await asyncio.Event().wait()
        pauses.append((seconds, driver.engine.state.topics.leader_count(NO_LEADER)))
        if len(pauses) > 3:
            done.set()
            await asyncio.Event().wait()

    off = {
        "metadata.max.idle.interval.ms": 0,
        "leader.imbalance.check.interval.seconds": 0,
        "delegation.token.expiry.check.interval.ms": 0,
    }
    chores = PeriodicTasks(
        driver, ControllerSettings(), off | {"unclean.leader.election.interval.ms": INTERVAL_MS}, sleep=sleep
    )
    loop = asyncio.create_task(chores.run())
    async with asyncio.timeout(120):
        while not done.is_set():
            await asyncio.sleep(0)  # the chores may go on
            driver.appended(driver.engine.next_offset)
            driver.commit(driver.engine.next_offset)
    loop.cancel()
    await channel.close()

    assert [(3_600.0, 1_200), (0.01, 200), (3_600.0, 0), (3_600.0, 0)] == pauses
