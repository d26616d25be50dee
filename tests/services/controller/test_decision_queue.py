"""A decision in steps leaves the loop to reads and to all that is no write; writes wait for it, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment
from quorate.controller.engine.engine import Answer, Engine, QueueLimit
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.records import ConfigRecord
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from services.controller.decision_queue import DecisionQueue
from services.controller.driver import ControllerDriver
from services.controller.reads import read_in_steps

STEP_COUNT = 20


@pytest.fixture
async def driver() -> AsyncIterator[ControllerDriver]:
    """One that is active. Nobody is at the other end: a test says what the quorum node would."""
    channel = grpc.aio.insecure_channel("localhost:1")
    driver = ControllerDriver(
        Engine(ClusterState()), channel, SystemClock(), OFF, node_id=1, activation=activate((), ControllerSettings())
    )
    await lead(driver, epoch=1)
    yield driver
    await channel.close()


async def lead(driver: ControllerDriver, *, epoch: int) -> None:
    end_offset = driver.engine.next_offset + 1
    leadership = ListenResponse.Leadership(leader_id=1, epoch=epoch, next_offset=end_offset)
    await driver.hear(ListenResponse(leadership=leadership))
    commit(driver)


def commit(driver: ControllerDriver) -> None:
    driver.appended(driver.engine.next_offset)
    driver.commit(driver.engine.next_offset)


def value(state: ClusterState) -> str:
    return state.configs.get(TOPIC, "t", "a") or ""


def adding(letter: str, step_count: int = 1) -> Command[str]:
    """Adds a letter to a config that it has read in its first step."""

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[str]]:
        after = value(state) + letter
        for _ in range(step_count - 1):
            yield
        return Decision(after, (ConfigRecord(TOPIC, "t", "a", after),))

    return command


def reading() -> Command[str]:
    return lambda state, _: Decision(value(state))


def writing(driver: ControllerDriver, letter: str, step_count: int = 1) -> asyncio.Future[Answer]:
    return asyncio.ensure_future(driver.write("test", adding(letter, step_count)))


async def some_turns(count: int = STEP_COUNT // 2) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def ended(driver: ControllerDriver, *writes: asyncio.Future[Answer]) -> list[object]:
    """The answers, or the error codes, of all, once what they have written is committed."""
    async with asyncio.timeout(30):
        while not all(write.done() for write in writes):
            commit(driver)
            await asyncio.sleep(0)
    found = await asyncio.gather(*writes, return_exceptions=True)
    return [each.code if isinstance(each, ApiError) else getattr(each, "response", each) for each in found]


async def test_writes_wait_for_a_decision_and_follow_in_their_order(driver: ControllerDriver) -> None:
    writes = [writing(driver, "a", STEP_COUNT), *(writing(driver, letter) for letter in "bcd")]
    await some_turns()
    meanwhile = value(driver.engine.state), any(write.done() for write in writes)

    assert ("", False) == meanwhile
    assert ["a", "ab", "abc", "abcd"] == await ended(driver, *writes)


async def test_a_decision_is_made_once_however_many_writes_come_meanwhile(driver: ControllerDriver) -> None:
    """Else it would be begun anew again and again, and never end."""
    begun: list[str] = []

    @CommandInSteps
    def noted(state: ClusterState, moment: Moment) -> Steps[Decision[str]]:
        begun.append(value(state))
        for _ in range(STEP_COUNT):
            yield
        return Decision("done")

    slow = asyncio.ensure_future(driver.write("test", noted))
    others = []
    while not slow.done():
        others.append(writing(driver, "x"))
        commit(driver)
        await asyncio.sleep(0)
        assert len(others) < 3 * STEP_COUNT

    assert [""] == begun
    assert "x" * len(others) == (await ended(driver, *others))[-1]


async def test_reads_are_answered_in_between(driver: ControllerDriver) -> None:
    await ended(driver, writing(driver, "a"))
    write = writing(driver, "b", STEP_COUNT)
    await some_turns()
    answer = await driver.query("test", reading())

    assert ("a", False) == (answer.response, write.done())
    assert ["ab"] == await ended(driver, write)


def reading_slowly() -> Command[str]:
    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[str]]:
        for _ in range(STEP_COUNT):
            yield
        return Decision(value(state))

    return command


async def test_reads_in_steps_hold_up_no_write_and_are_of_what_was_committed_when_they_began(
    driver: ControllerDriver,
) -> None:
    """A caller that may list topics may have 2,000 such reads wait. One at a time has the loop."""
    await ended(driver, writing(driver, "a"))
    under_way = writing(driver, "b")
    reads = [asyncio.ensure_future(read_in_steps(driver, reading_slowly())) for _ in range(2)]
    await some_turns()
    written = await ended(driver, under_way, writing(driver, "c"))
    held_up = any(read.done() for read in reads)

    assert (["ab", "abc"], False) == (written, held_up)
    assert ["a", "abc"] == await ended(driver, *reads)


async def test_a_read_whose_state_goes_with_the_leadership_is_asked_elsewhere(driver: ControllerDriver) -> None:
    read = asyncio.ensure_future(read_in_steps(driver, reading_slowly()))
    await some_turns()
    driver.cut_off()
    driver.engine.begin_load()
    after = asyncio.ensure_future(read_in_steps(driver, reading_slowly()))

    assert [ErrorCode.NOT_CONTROLLER] * 2 == [
        error.code for error in await asyncio.gather(read, after, return_exceptions=True) if isinstance(error, ApiError)
    ]


@pytest.mark.parametrize("is_back_at_once", [False, True])
async def test_who_loses_leadership_refuses_it_and_who_waits(driver: ControllerDriver, is_back_at_once: bool) -> None:
    writes = [writing(driver, "a", STEP_COUNT), writing(driver, "b")]
    await some_turns()
    driver.cut_off()
    if is_back_at_once:
        await lead(driver, epoch=2)
    told = [await asyncio.wait_for(asyncio.gather(write, return_exceptions=True), 30) for write in writes]

    assert [ErrorCode.NOT_CONTROLLER] * 2 == [error.code for (error,) in told if isinstance(error, ApiError)]
    assert "" == value(driver.engine.state)


async def test_who_goes_away_has_written_nothing_and_blocks_nobody(driver: ControllerDriver) -> None:
    gone, waiting, other = writing(driver, "a", STEP_COUNT), writing(driver, "b"), writing(driver, "c")
    await some_turns()
    gone.cancel()
    waiting.cancel()

    assert ["c"] == await ended(driver, other)
    assert gone.cancelled()
    assert waiting.cancelled()


async def test_who_goes_away_as_its_turn_comes_blocks_nobody(driver: ControllerDriver) -> None:
    queue = DecisionQueue(driver.engine)
    assert queue.enters(QueueLimit.ADMIN)
    gone, other = (asyncio.ensure_future(queue.enter(QueueLimit.ADMIN)) for _ in range(2))
    await asyncio.sleep(0)
    queue.leave()
    gone.cancel()
    await asyncio.wait_for(other, 30)

    assert gone.cancelled()


async def test_a_deadline_is_for_the_beginning_of_the_decision(driver: ControllerDriver) -> None:
    """It is looked at when the turn has come, not when the request has."""
    looked_at: list[str] = []

    def missed() -> None:
        looked_at.append(value(driver.engine.state))
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "too late")

    slow = writing(driver, "a", STEP_COUNT)
    late = asyncio.ensure_future(driver.write("test", adding("b"), begin=missed))
    after = writing(driver, "c")
    await some_turns()
    before = list(looked_at)

    assert ["a", ErrorCode.REQUEST_TIMED_OUT, "ac"] == await ended(driver, slow, late, after)
    assert ([], ["a"]) == (before, looked_at)


async def test_too_many_that_wait_are_refused(driver: ControllerDriver) -> None:
    slow = writing(driver, "a", STEP_COUNT)
    await asyncio.sleep(0)
    count = QueueLimit.CLUSTER.value
    waiting = [asyncio.ensure_future(driver.write("test", reading())) for _ in range(count + 1)]
    await asyncio.sleep(0)
    refused = [write for write in waiting if write.done()]

    assert [waiting[-1]] == refused
    assert [ErrorCode.REQUEST_TIMED_OUT] == await ended(driver, *refused)
    assert ["a", *["a"] * count] == await ended(driver, slow, *waiting[:-1])
