"""Kafka brokers that find our voters in the log, by the listeners that each node announces (KIP-853)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.interop.kafka.fleet import TOOLS, Fleet, fleet_of
from tests.interop.kafka.release import OLDEST_POM, OPERATIONS_POM, absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

BROKERS: Final = {101: OLDEST_POM, 102: OPERATIONS_POM, 103: OPERATIONS_POM}
RECORDS: Final = 100


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    async with fleet_of(tmp_path_factory.mktemp("fleet"), BROKERS, level="4.0-IV3", dynamic=True) as brokers:
        yield brokers


async def create(fleet: Fleet, topic: str) -> None:
    await fleet.ask(TOOLS + "TopicCommand", "--create", "--if-not-exists", "--topic", topic, "--replication-factor", 3)


async def test_brokers_of_two_releases_register_and_serve_a_topic(fleet: Fleet) -> None:
    await create(fleet, "first")

    assert (await fleet.produce("first", RECORDS)).startswith(f"{RECORDS} records sent")


async def test_they_find_the_next_leader_when_its_node_is_gone(fleet: Fleet) -> None:
    plane = fleet.plane
    active = await plane.active()
    for each in (plane.controller(active), plane.plan.gateways[active - 1], plane.quorum(active)):
        await plane.kill(each)
    await create(fleet, "second")
    await plane.heal()

    assert (await fleet.produce("second", RECORDS)).startswith(f"{RECORDS} records sent")


async def test_a_broker_that_starts_again_finds_them(fleet: Fleet) -> None:
    await fleet.stop(102)
    await fleet.start(102)
    await fleet.in_sync("second")

    assert RECORDS == len(await fleet.consume("second", RECORDS))
