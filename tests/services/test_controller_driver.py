"""What the controller's driver hears on two streams, in either order: an answer leaves as soon as it may."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.decision import Decision
from quorate.controller.engine import Engine
from quorate.controller.settings import Settings
from quorate.metadata.state import ClusterState
from quorate.records import NoOpRecord
from quorate.runtime.clock import SystemClock
from quorate.runtime.telemetry import OFF
from services.controller.driver import Driver


@pytest.mark.parametrize("first", ["the commit", "the append"])
async def test_an_answer_waits_for_nothing_else_whichever_is_heard_first(first: str) -> None:
    channel = grpc.aio.insecure_channel("localhost:1")  # nobody is there: the test says what the quorum node would
    driver = Driver(Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), Settings()))
    driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=1)))
    write = asyncio.create_task(driver.write("test", lambda _state, _moment: Decision("done", (NoOpRecord(),))))
    await asyncio.sleep(0)  # it has begun
    end_offset = driver.engine.next_offset
    steps = [driver.commit, driver.appended] if first == "the commit" else [driver.appended, driver.commit]
    for step in steps:
        assert not write.done()

        step(end_offset)

    async with asyncio.timeout(30):
        assert "done" == (await write).response
    await channel.close()
