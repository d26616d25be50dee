"""Many heartbeats in one message: answered in their order, each as it would be by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager

import grpc
import pytest

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2 import (
    BrokerHeartbeatsRequest,
    BrokerHeartbeatsResponse,
    DescribeSessionsRequest,
    KeepAliveRequest,
)
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub, add_HeartbeatServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import Claimant, Sessions
from quorate.records import BrokerRegistrationChangeRecord
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.caps import LIST_MAX
from quorate.runtime.requests.statuses import error_from_call
from quorate.runtime.telemetry.tracing import OFF
from services.heartbeat import driver as heartbeat_driver
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.reading_ahead import read_ahead
from services.heartbeat.servicer import PER_TURN, SIDE_BY_SIDE_MAX, HeartbeatService
from tests.bench.synthetic import Shape, broker_epoch, cluster
from tests.services.scripted import WITHIN_S, controller_at_work

SHAPE = Shape(partitions=6, brokers=3)
NOWHERE = "127.0.0.1:1"

FENCED, OTHER = 0, 2
"""Of the three brokers: one is fenced in the log, the others are active."""


@asynccontextmanager
async def driving(controller: str) -> AsyncIterator[HeartbeatDriver]:
    """One tracker that has read a log, and reads on nowhere."""
    clock = SystemClock()
    replica = Replica(LogReader([NOWHERE], open_channel), clock, OFF)
    for offset, record in enumerate(cluster(SHAPE)):
        replica.state.apply(record, offset)
    change = BrokerRegistrationChangeRecord(broker_id=FENCED, broker_epoch=broker_epoch(FENCED), fenced=1)
    replica.state.apply(change, 100)
    replica.applied = 101
    controllers = Client([controller], ControllerStub)
    yield HeartbeatDriver(replica, Sessions(9_000), controllers, clock, Claimant(id="t", address="t:1"))
    await controllers.close()


@pytest.fixture
async def driver() -> AsyncIterator[HeartbeatDriver]:
    """Can reach no controller."""
    async with driving(NOWHERE) as made:
        yield made


def heartbeat(broker_id: int, *, epoch: int | None = None, offset: int = 100, **wants: bool) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch(broker_id) if epoch is None else epoch,
        current_metadata_offset=offset,
        **wants,  # type: ignore[arg-type]  # the two that are bool
    )


async def answers(
    driver: HeartbeatDriver, *batches: list[BrokerHeartbeatRequest]
) -> list[list[BrokerHeartbeatResponse]]:
    async def requests() -> AsyncIterator[BrokerHeartbeatsRequest]:
        for heartbeats in batches:
            yield BrokerHeartbeatsRequest(heartbeats=heartbeats)

    stream: AsyncIterator[BrokerHeartbeatsResponse] = HeartbeatService(driver).BrokerHeartbeats(requests(), None)
    return [list(answer.responses) async for answer in stream]


def said(answer: BrokerHeartbeatResponse) -> tuple[int, bool, bool]:
    return answer.error_code, answer.is_caught_up, answer.is_fenced


async def test_each_is_answered_in_its_place_and_a_refusal_is_its_own(driver: HeartbeatDriver) -> None:
    stale = ErrorCode.STALE_BROKER_EPOCH
    (found,) = await answers(
        driver, [heartbeat(1), heartbeat(1, epoch=5), heartbeat(FENCED, want_fence=True), heartbeat(OTHER)]
    )

    assert [(0, True, False), (stale, False, True), (0, True, True), (0, True, False)] == list(map(said, found))


async def test_what_is_gathered_is_answered_as_one_by_one(driver: HeartbeatDriver) -> None:
    asked = [
        heartbeat(1),
        heartbeat(1, offset=0),
        heartbeat(1, epoch=5),
        heartbeat(FENCED, want_fence=True),
        heartbeat(FENCED, want_shut_down=True, epoch=7),
        heartbeat(OTHER, offset=broker_epoch(OTHER) - 1),
    ]
    (gathered,) = await answers(driver, asked)
    single = [one for (one,) in await answers(driver, *([each] for each in asked))]

    assert list(map(said, single)) == list(map(said, gathered))


async def test_a_gathered_heartbeat_is_a_sign_of_life(driver: HeartbeatDriver) -> None:
    before = set(driver.sessions.contacts)
    await answers(driver, [heartbeat(1, offset=55), heartbeat(2, offset=66), heartbeat(2, epoch=5)])
    contacts = driver.sessions.contacts

    assert set() == before
    assert {1: 55, 2: 66} == {broker_id: contact.metadata_offset for broker_id, contact in contacts.items()}
    assert {broker_epoch(1), broker_epoch(2)} == {contact.broker_epoch for contact in contacts.values()}


async def test_more_than_are_served_side_by_side_are_all_answered(driver: HeartbeatDriver) -> None:
    count = 2 * SIDE_BY_SIDE_MAX + 3
    (found,) = await answers(driver, [heartbeat(1), *[heartbeat(1, epoch=5)] * count, heartbeat(2)])

    assert [0, *[ErrorCode.STALE_BROKER_EPOCH] * count, 0] == [each.error_code for each in found]


async def test_no_heartbeats_are_answered_by_none(driver: HeartbeatDriver) -> None:
    assert [[], []] == await answers(driver, [], [])


@asynccontextmanager
async def serving(driver: HeartbeatDriver) -> AsyncIterator[HeartbeatStub]:
    server = Server()
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, HeartbeatService(driver))
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        yield HeartbeatStub(channel)
    await server.stop(grace_s=0)


async def refusal_of(call: Awaitable[object]) -> ApiError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return error_from_call(caught.value)


async def test_a_change_that_is_not_applied_in_time_is_an_error_of_its_broker_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat_driver, "APPLIED_WITHIN_MS", 50)
    one = heartbeat(OTHER, want_shut_down=True)
    async with (
        controller_at_work() as (controller, address),
        driving(address) as driver,
        serving(driver) as stub,
    ):
        stream = stub.BrokerHeartbeats(timeout=WITHIN_S)
        await stream.write(BrokerHeartbeatsRequest(heartbeats=[heartbeat(1), one]))
        _, offset = await controller.asked()
        offset.set_result(900)
        first = await stream.read()
        await stream.write(BrokerHeartbeatsRequest(heartbeats=[heartbeat(1)]))
        second = await stream.read()
        by_itself = asyncio.ensure_future(refusal_of(stub.BrokerHeartbeat(one, timeout=WITHIN_S)))
        _, offset = await controller.asked()
        offset.set_result(900)
        refused = await by_itself

    assert isinstance(first, BrokerHeartbeatsResponse)
    assert isinstance(second, BrokerHeartbeatsResponse)
    assert [0, ErrorCode.REQUEST_TIMED_OUT] == [each.error_code for each in first.responses]
    assert [(0, True, False)] == list(map(said, second.responses))
    says = "waited 50 ms for the log up to offset 900; the heartbeat service has applied it up to offset 101"
    assert (ErrorCode.REQUEST_TIMED_OUT, says) == (refused.code, refused.message)


@pytest.mark.parametrize("rpc", ["BrokerHeartbeats", "BrokerHeartbeatStream"])
async def test_a_heartbeat_is_a_sign_of_life_while_those_before_it_wait_for_the_controller(rpc: str) -> None:
    """Else an outage of the controllers has healthy brokers fenced, because others want to be unfenced."""

    def message(*heartbeats: BrokerHeartbeatRequest) -> BrokerHeartbeatsRequest | BrokerHeartbeatRequest:
        return BrokerHeartbeatsRequest(heartbeats=heartbeats) if rpc == "BrokerHeartbeats" else heartbeats[0]

    async with controller_at_work() as (controller, address), driving(address) as driver, serving(driver) as stub:
        stream = getattr(stub, rpc)(timeout=WITHIN_S)
        await stream.write(message(heartbeat(FENCED)))
        _, offset = await controller.asked()
        await stream.write(message(heartbeat(1)))
        await stream.write(message(heartbeat(OTHER, want_shut_down=True)))  # it leads, and goes only by the controller
        first = asyncio.ensure_future(stream.read())
        for _ in range(1_000_000):
            await asyncio.sleep(0)
            if first.done() or driver.sessions.contacts.keys() == {FENCED, 1, OTHER}:
                break

        assert {FENCED, 1, OTHER} == driver.sessions.contacts.keys()
        assert not first.done()
        offset.set_result(0)
        answers = [await first, await stream.read()]
        _, offset = await controller.asked()
        offset.set_result(0)
        answers.append(await stream.read())

    found = [answer.responses[0] if rpc == "BrokerHeartbeats" else answer for answer in answers]
    assert [(0, True, False)] * 3 == list(map(said, found))


def together(*heartbeats: BrokerHeartbeatRequest) -> KeepAliveRequest:
    return KeepAliveRequest(
        broker_ids=[each.broker_id for each in heartbeats],
        broker_epochs=[each.broker_epoch for each in heartbeats],
        metadata_offsets=[each.current_metadata_offset for each in heartbeats],
    )


async def test_many_sessions_are_extended_in_one_call_which_names_what_it_does_not_answer(
    driver: HeartbeatDriver,
) -> None:
    service = HeartbeatService(driver)
    stale = await service.KeepAlive(together(heartbeat(1, epoch=5), heartbeat(1, offset=0)), None)
    before = set(driver.sessions.contacts)
    unknown = heartbeat(77, epoch=1)
    found = await service.KeepAlive(together(heartbeat(FENCED), heartbeat(1), unknown, heartbeat(OTHER)), None)
    with pytest.raises(ApiError, match="broker_epochs has 2 items, and broker_ids 1; all have as many"):
        await service.KeepAlive(KeepAliveRequest(broker_ids=[1], broker_epochs=[1, 2], metadata_offsets=[3]), None)
    with pytest.raises(ApiError, match="broker_ids: 10001 items"):
        await service.KeepAlive(KeepAliveRequest(broker_ids=[1] * (LIST_MAX + 1)), None)

    assert ([0, 1], set(), [0, 2]) == (stale.unanswered, before, found.unanswered)
    assert {1, OTHER} == driver.sessions.contacts.keys()


async def numbers(read: list[int], until: int) -> AsyncIterator[int]:
    for number in range(until):
        read.append(number)
        yield number
    raise ApiError(ErrorCode.INVALID_REQUEST, "no more")


async def test_no_more_is_read_ahead_than_there_is_room_for() -> None:
    read: list[int] = []
    async with aclosing(read_ahead(numbers(read, 1_000), lambda _: 2, size_max=10)) as ahead:
        first = await anext(ahead)
        for _ in range(1_000):
            await asyncio.sleep(0)

        assert (0, 6) == (first, len(read))
        assert list(range(1, 100)) == [await anext(ahead) for _ in range(99)]
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert 105 == len(read)
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert 105 == len(read)


async def test_an_error_of_the_stream_comes_after_what_was_before_it() -> None:
    async with aclosing(read_ahead(numbers([], 5), lambda _: 1, size_max=100)) as ahead:
        assert list(range(5)) == [await anext(ahead) for _ in range(5)]
        with pytest.raises(ApiError, match="no more"):
            await anext(ahead)


async def test_a_message_of_too_many_heartbeats_is_refused_and_none_of_them_served(driver: HeartbeatDriver) -> None:
    count = LIST_MAX + 1
    request = BrokerHeartbeatsRequest(heartbeats=[heartbeat(1), *[BrokerHeartbeatRequest()] * LIST_MAX])
    async with serving(driver) as stub:
        stream = stub.BrokerHeartbeats(timeout=WITHIN_S)
        await stream.write(request)
        refused = await refusal_of(stream.read())

    assert ErrorCode.POLICY_VIOLATION is refused.code
    assert f"heartbeats: {count} items; at most {LIST_MAX} may be asked for at once" == refused.message
    assert {} == driver.sessions.contacts


async def test_as_many_heartbeats_as_a_message_may_have_leave_the_loop_to_others(driver: HeartbeatDriver) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(others())
    (found,) = await answers(driver, [heartbeat(1)] * LIST_MAX)
    other.cancel()

    assert [(0, True, False)] * LIST_MAX == list(map(said, found))
    assert turns >= LIST_MAX // PER_TURN - 1


async def test_a_heartbeat_that_lists_too_many_directories_is_refused(driver: HeartbeatDriver) -> None:
    asked = heartbeat(1, offset=55)
    asked.offline_log_dirs.extend([bytes(16)] * (LIST_MAX + 1))
    says = f"offline_log_dirs: {LIST_MAX + 1} items; at most {LIST_MAX} may be asked for at once"
    async with serving(driver) as stub:
        refused = await refusal_of(stub.BrokerHeartbeat(asked, timeout=WITHIN_S))

    assert (ErrorCode.POLICY_VIOLATION, says) == (refused.code, refused.message)
    assert {} == driver.sessions.contacts


async def test_sessions_of_too_many_brokers_are_not_told(driver: HeartbeatDriver) -> None:
    says = f"broker_ids: 1000000 items; at most {LIST_MAX} may be asked for at once"
    async with serving(driver) as stub:
        asked = DescribeSessionsRequest(broker_ids=range(1_000_000))
        refused = await refusal_of(stub.DescribeSessions(asked, timeout=WITHIN_S))

    assert (ErrorCode.POLICY_VIOLATION, says) == (refused.code, refused.message)


async def test_while_a_kafkas_controller_is_active_brokers_are_told_to_turn_to_it(
    driver: HeartbeatDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Replica, "is_led_elsewhere", True)
    (found,) = await answers(driver, [heartbeat(1), heartbeat(FENCED)])

    assert [ErrorCode.NOT_CONTROLLER] * 2 == [answer.error_code for answer in found]
    assert {} == driver.sessions.contacts
