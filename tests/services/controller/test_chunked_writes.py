"""A change in chunks lets others in between, never has much under way, and is not left half done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.controller.engine.engine import Answer, Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import NoOpRecord
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from services.controller.chunked_writes import UNDER_WAY_MAX, write_in_chunks
from services.controller.driver import ControllerDriver

COUNT = 3 * UNDER_WAY_MAX


class Story:
    """What was decided, in order."""

    def __init__(self) -> None:
        self.decided: list[str] = []

    def command(self, name: str, error: ApiError | None = None) -> Command[str]:
        """Writes one record, or is refused."""

        def decide(_state: ClusterState, _moment: Moment) -> Decision[str]:
            self.decided.append(name)
            if error is not None:
                raise error
            return Decision(name, (NoOpRecord(),))

        return decide

    def chunks(self) -> Iterator[Command[str]]:
        """Each is taken when the one before has been decided."""
        for number in range(COUNT):
            assert [f"chunk {earlier}" for earlier in range(number)] == [
                name for name in self.decided if name.startswith("chunk")
            ]
            yield self.command(f"chunk {number}")


@pytest.fixture
async def driver() -> AsyncIterator[ControllerDriver]:
    """One that is active. Nobody is at the other end: a test says what the quorum node would."""
    channel = grpc.aio.insecure_channel("localhost:1")
    driver = ControllerDriver(
        Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await driver.hear(ListenResponse(leadership=ListenResponse.Leadership(leader_id=1, epoch=1, next_offset=1)))
    commit(driver)
    yield driver
    await channel.close()


def commit(driver: ControllerDriver) -> None:
    driver.appended(driver.engine.next_offset)
    driver.commit(driver.engine.next_offset)


async def until_over(driver: ControllerDriver, write: asyncio.Future[Answer]) -> None:
    """Commit whatever there is, again and again."""
    async with asyncio.timeout(120):
        while not write.done():
            commit(driver)
            await asyncio.sleep(0)


async def idle() -> None:
    """As many turns of the loop as all of a story could take."""
    for _ in range(5 * COUNT):
        await asyncio.sleep(0)


async def test_others_have_their_turn_in_between(driver: ControllerDriver) -> None:
    story = Story()
    write = asyncio.ensure_future(write_in_chunks(driver, "test", story.chunks()))
    other = asyncio.ensure_future(driver.write("test", story.command("another")))
    await until_over(driver, write)

    assert f"chunk {COUNT - 1}" == write.result().response
    assert f"chunk {COUNT - 1}" == story.decided[-1]
    assert story.decided.index("another") < 4, story.decided
    assert "another" == (await other).response


async def test_few_chunks_are_under_way(driver: ControllerDriver) -> None:
    story = Story()
    write = asyncio.ensure_future(write_in_chunks(driver, "test", story.chunks()))
    await idle()
    uncommitted = len(story.decided)
    commit(driver)
    await idle()

    assert UNDER_WAY_MAX + 1 == uncommitted
    assert uncommitted < len(story.decided) <= 2 * uncommitted
    await until_over(driver, write)


async def test_it_goes_on_when_the_asker_has_gone(driver: ControllerDriver) -> None:
    story = Story()
    write = asyncio.ensure_future(write_in_chunks(driver, "test", story.chunks()))
    await asyncio.sleep(0)
    write.cancel()
    async with asyncio.timeout(120):
        while len(story.decided) < COUNT:
            commit(driver)
            await asyncio.sleep(0)

    assert write.cancelled()


async def test_a_refusal_is_the_end_of_it(driver: ControllerDriver) -> None:
    story = Story()
    refusal = ApiError(ErrorCode.STALE_BROKER_EPOCH, "another registration")

    def chunks() -> Iterator[Command[str]]:
        yield story.command("first")
        yield story.command("refused", refusal)
        for number in range(COUNT):
            yield story.command(f"after {number}")

    write = asyncio.ensure_future(write_in_chunks(driver, "test", chunks()))
    await until_over(driver, write)

    assert refusal is write.exception()
    assert len(story.decided) <= UNDER_WAY_MAX + 3, story.decided


async def test_leadership_that_is_lost_is_the_end_of_it(driver: ControllerDriver) -> None:
    story = Story()
    write = asyncio.ensure_future(write_in_chunks(driver, "test", story.chunks()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    driver.cut_off()
    await idle()

    assert isinstance(error := write.exception(), ApiError)
    assert (ErrorCode.NOT_CONTROLLER, True) == (error.code, len(story.decided) < COUNT)
