"""What the controller's driver hears on two streams, in either order: an answer leaves as soon as it may."""

from __future__ import annotations

import asyncio
import gc
import weakref

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Decision
from quorate.controller.engine.engine import Engine
from quorate.errors import ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import BeginTransactionRecord, FeatureLevelRecord, NoOpRecord
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from services.controller.driver import ControllerDriver
from services.controller.quorum_link import EventsBehind


@pytest.mark.parametrize("first", ["the commit", "the append"])
async def test_an_answer_waits_for_nothing_else_whichever_is_heard_first(first: str) -> None:
    channel = grpc.aio.insecure_channel("localhost:1")  # nobody is there: the test says what the quorum node would
    driver = ControllerDriver(
        Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=1)))
    write = asyncio.create_task(driver.write("test", lambda _state, _moment: Decision("done", (NoOpRecord(),))))
    await asyncio.sleep(0)  # it has begun
    end_offset = driver.engine.next_offset
    steps = [driver.commit, driver.appended] if first == "the commit" else [driver.appended, driver.commit]
    for step in steps:
        assert not write.done()

        step(end_offset)

    async with asyncio.timeout(120):
        assert "done" == (await write).response
    await channel.close()


class Response:
    """What a command answers, and a caller may be the only one to hold."""


async def test_an_answer_goes_with_its_caller() -> None:
    """A large one would stay until a full garbage collection, which an idle process never runs."""
    channel = grpc.aio.insecure_channel("localhost:1")
    driver = ControllerDriver(
        Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=1)))
    made: list[weakref.ref[Response]] = []

    def command(_state: ClusterState, _moment: object) -> Decision[Response]:
        response = Response()
        made.append(weakref.ref(response))
        return Decision(response, (NoOpRecord(),))

    gc.collect()
    gc.disable()
    try:
        write = asyncio.create_task(driver.write("test", command))
        await asyncio.sleep(0)
        driver.appended(driver.engine.next_offset)
        driver.commit(driver.engine.next_offset)
        await write
        del write
        await asyncio.sleep(0)  # the callback that has brought the answer is over
        kept = [response() for response in made]
    finally:
        gc.enable()
        await channel.close()

    assert [None] == kept


async def test_who_cannot_go_back_has_its_stream_begin_anew() -> None:
    """An Abort was refused for a control record in between. The quorum node leads on, and would wait for ever."""
    channel = grpc.aio.insecure_channel("localhost:1")
    engine = Engine(ClusterState())
    engine.replay(
        [FeatureLevelRecord(METADATA_VERSION, 25), BeginTransactionRecord("half")], base_offset=0, end_offset=2
    )
    driver = ControllerDriver(
        engine, channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=3)))

    with pytest.raises(EventsBehind):
        driver.refused(ErrorCode.OFFSET_OUT_OF_RANGE, 4)
    assert not driver.is_active
    assert driver.next_offset() == 0
    await channel.close()


async def test_who_could_not_activate_is_not_active() -> None:
    """There was no room for the first records of a cluster: what is written next would come before them."""
    channel = grpc.aio.insecure_channel("localhost:1")
    driver = ControllerDriver(
        Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=1)))

    with pytest.raises(EventsBehind):
        driver.refused(ErrorCode.KAFKA_STORAGE_ERROR, 1)
    assert not driver.is_active
    await channel.close()
