"""A refusal says of which state it speaks, as an answer does; one that rests on no state says nothing of the kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Decision, Moment
from quorate.controller.engine.engine import Answer, Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import NoOpRecord
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from services.controller.driver import ControllerDriver

EPOCH = 4


def refuse(_: ClusterState, __: Moment) -> Decision[None]:
    raise ApiError(ErrorCode.INVALID_REQUEST, "no", {"field": "it"})


def no_op(_: ClusterState, __: Moment) -> Decision[None]:
    return Decision(None, (NoOpRecord(),))


@asynccontextmanager
async def active() -> AsyncIterator[ControllerDriver]:
    """A controller that leads; the test says what its quorum node would."""
    channel = grpc.aio.insecure_channel("localhost:1")
    driver = ControllerDriver(
        Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=EPOCH, next_offset=1)))
    yield driver
    await channel.close()


async def refusal(task: asyncio.Task[Answer]) -> ApiError:
    async with asyncio.timeout(120):
        with pytest.raises(ApiError) as refused:
            await task
    return refused.value


async def test_a_refusal_speaks_of_the_state_that_it_rests_on() -> None:
    async with active() as driver:
        written = asyncio.create_task(driver.write("first", no_op))
        refused = asyncio.create_task(driver.write("second", refuse))
        await asyncio.sleep(0)  # both have begun
        end_offset = driver.engine.next_offset
        driver.appended(end_offset)
        assert not refused.done()  # it has seen what is not committed

        driver.commit(end_offset)
        error = await refusal(refused)
        answer = await written

    assert {"field": "it", "leader_epoch": str(EPOCH), "offset": str(end_offset)} == error.metadata
    assert (EPOCH, end_offset) == (answer.epoch, answer.offset)


async def test_who_was_not_heard_to_the_end_is_told_of_no_state() -> None:
    """The write was never committed; what it was decided on may be gone with it."""
    async with active() as driver:
        lost = asyncio.create_task(driver.write("lost", no_op))
        await asyncio.sleep(0)  # it has begun
        driver.cut_off()
        error = await refusal(lost)

    assert (ErrorCode.NOT_CONTROLLER, {}) == (error.code, error.metadata)
