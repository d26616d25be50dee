"""Calls in the messages of one stream end as calls by themselves do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from kraft.service.multiplexed_pb2 import CallBatch, ResultBatch
from kraft.service.multiplexed_pb2_grpc import MultiplexedStub
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime import multiplexed_channel
from quorate.runtime.admission import CallLimits
from quorate.runtime.client import call, open_channel
from quorate.runtime.multiplexed_channel import MultiplexedChannel
from quorate.runtime.server import Server, ServerLimits

PLACER = "kraft.service.Placer"
PLACE = f"{PLACER}/Place"
DEADLINE_MS = 60_000
Place = Callable[[PlaceRequest, Any], Awaitable[PlaceResponse]]


class Placer(PlacerServicer):
    def __init__(self, place: Place) -> None:
        self._place = place

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        return await self._place(request, context)


def answer_of(request: PlaceRequest) -> PlaceResponse:
    """An answer that tells its request from others."""
    return PlaceResponse(topics=[PlaceResponse.Topic(error_message=str(request.seed))])


async def told(request: PlaceRequest, context: Any) -> PlaceResponse:
    return answer_of(request)


@asynccontextmanager
async def served(place: Place = told, *, multiplexes: bool = True, **options: Any) -> AsyncIterator[tuple[Server, str]]:
    server = Server(**options)
    server.add(PLACER, add_PlacerServicer_to_server, Placer(place))
    if multiplexes:
        server.multiplex()
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        yield server, f"127.0.0.1:{port}"
    finally:
        await server.stop(grace_s=0)


@asynccontextmanager
async def asking(address: str) -> AsyncIterator[Callable[..., Awaitable[PlaceResponse]]]:
    async with MultiplexedChannel(open_channel(address)) as channel:
        stub = PlacerStub(channel)

        async def ask(seed: int = 0, deadline_ms: int = DEADLINE_MS, **options: Any) -> PlaceResponse:
            return await call(stub.Place, PlaceRequest(seed=seed), deadline_ms=deadline_ms, **options)

        yield ask


async def test_each_of_many_calls_gets_its_own_answer() -> None:
    all_are_under_way = asyncio.Barrier(100)

    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        await all_are_under_way.wait()
        return answer_of(request)

    async with served(place) as (_, address), asking(address) as ask:
        answers = await asyncio.gather(*(ask(seed) for seed in range(100)))

    assert [str(seed) for seed in range(100)] == [answer.topics[0].error_message for answer in answers]


async def test_calls_that_are_made_together_share_a_message() -> None:
    batches: list[int] = []

    async with served() as (_, address), open_channel(address) as channel:
        stream = MultiplexedStub(channel).Calls()
        calls = [CallBatch.Call(id=number, method=PLACE) for number in range(50)]
        await stream.write(CallBatch(calls=calls))
        ids: list[int] = []
        while len(ids) < len(calls):
            batch = await stream.read()
            assert isinstance(batch, ResultBatch)
            batches.append(len(batch.results))
            ids += [result.id for result in batch.results]

    assert list(range(50)) == sorted(ids)
    assert len(batches) < len(calls)


async def test_metadata_and_deadline_are_the_calls_own() -> None:
    seen: list[tuple[Any, float]] = []

    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        seen.append((context.invocation_metadata(), context.time_remaining()))
        context.set_trailing_metadata((("kraft-offset", "7"), ("some-bin", b"\xff")))
        return answer_of(request)

    trailing: list[Any] = []
    async with served(place) as (_, address), asking(address) as ask:
        await ask(1, deadline_ms=5_000, metadata=(("client-id", "a"), ("x-bin", b"\xfe")), trailing=trailing.append)
        await ask(2, deadline_ms=50_000, metadata=(("client-id", "b"),))

    assert [(("client-id", "a"), ("x-bin", b"\xfe")), (("client-id", "b"),)] == [metadata for metadata, _ in seen]
    assert 0 < seen[0][1] <= 5 < seen[1][1] <= 50
    assert [(("kraft-offset", "7"), ("some-bin", b"\xff"))] == trailing


async def test_a_refusal_has_its_code_and_metadata() -> None:
    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "too many", {"field": "replication_factor"})

    async with served(place) as (_, address), asking(address) as ask:
        with pytest.raises(ApiError) as caught:
            await ask()

    refusal = caught.value
    assert (ErrorCode.INVALID_REPLICATION_FACTOR, "too many") == (refusal.code, refusal.message)
    assert {"grpc_status": "INVALID_ARGUMENT", "field": "replication_factor"} == refusal.metadata


async def test_a_fault_of_a_handler_ends_one_call_alone() -> None:
    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        if request.seed == 1:
            raise ZeroDivisionError
        return answer_of(request)

    async with served(place) as (_, address), asking(address) as ask:
        bad, good = await asyncio.gather(ask(1), ask(2), return_exceptions=True)

    assert isinstance(bad, ApiError)
    assert ErrorCode.UNKNOWN_SERVER_ERROR is bad.code
    assert answer_of(PlaceRequest(seed=2)) == good


class Held:
    """A handler that never answers, and what became of its calls."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        if request.seed:
            return answer_of(request)
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError("nobody sets it")


async def test_a_call_ends_at_its_deadline_on_both_sides() -> None:
    held = Held()
    async with served(held) as (_, address), asking(address) as ask:
        with pytest.raises(ApiError) as caught:
            await ask(deadline_ms=50)
        await asyncio.wait_for(held.cancelled.wait(), 60)
        after = await ask(1)

    assert ErrorCode.REQUEST_TIMED_OUT is caught.value.code
    assert answer_of(PlaceRequest(seed=1)) == after


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server() -> None:
    held = Held()
    async with served(held) as (_, address), asking(address) as ask:
        task = asyncio.create_task(ask())
        await held.begun.wait()
        task.cancel()
        await asyncio.wait_for(held.cancelled.wait(), 60)
        after = await ask(1)

    assert task.cancelled()
    assert answer_of(PlaceRequest(seed=1)) == after


async def test_calls_of_a_server_that_goes_fail_as_those_of_a_lost_connection() -> None:
    held = Held()
    async with served(held) as (server, address), asking(address) as ask:
        task = asyncio.create_task(ask())
        await held.begun.wait()
        await server.abort()
        with pytest.raises(ApiError) as under_way:
            await task
        with pytest.raises(ApiError) as later:
            await ask(1)

    assert (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION) == (under_way.value.code, later.value.code)


async def test_a_server_that_stops_answers_the_calls_that_it_has() -> None:
    begun, may_answer = asyncio.Event(), asyncio.Event()

    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        begun.set()
        await may_answer.wait()
        return answer_of(request)

    async with served(place) as (server, address), asking(address) as ask:
        task = asyncio.create_task(ask(3))
        await begun.wait()
        stopping = asyncio.create_task(server.stop(grace_s=60))
        await asyncio.sleep(0)
        may_answer.set()
        answer = await task
        await asyncio.wait_for(stopping, 30)  # not for the grace: the stream does not stay open

    assert answer_of(PlaceRequest(seed=3)) == answer


async def test_a_client_comes_back_to_a_server_that_has_been_away() -> None:
    async with served() as (server, address), asking(address) as ask:
        await ask(1)
        await server.abort()
        again = Server()
        again.add(PLACER, add_PlacerServicer_to_server, Placer(told))
        again.multiplex()
        again.listen(address)
        await again.start()
        try:
            answer = None
            while answer is None:
                try:
                    answer = await ask(2)
                except ApiError as refusal:
                    assert refusal.code is ErrorCode.NETWORK_EXCEPTION
        finally:
            await again.stop(grace_s=0)

    assert answer_of(PlaceRequest(seed=2)) == answer


async def test_a_server_of_an_earlier_release_is_called_one_by_one() -> None:
    async with served(multiplexes=False) as (_, address), asking(address) as ask:
        answers = [await ask(seed) for seed in range(3)]

    assert ["0", "1", "2"] == [answer.topics[0].error_message for answer in answers]


async def test_a_large_request_is_a_call_by_itself() -> None:
    contexts: list[type] = []

    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        contexts.append(type(context))
        return answer_of(request)

    async with served(place) as (_, address), MultiplexedChannel(open_channel(address)) as channel:
        stub = PlacerStub(channel)
        rack = "r" * multiplexed_channel.CARRIED_BYTES_MAX
        await call(stub.Place, PlaceRequest(brokers=[PlaceRequest.Broker(rack=rack)]), deadline_ms=DEADLINE_MS)
        await call(stub.Place, PlaceRequest(), deadline_ms=DEADLINE_MS)

    assert contexts[0] is not contexts[1]


async def test_a_response_that_is_too_large_ends_one_call_alone() -> None:
    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        return PlaceResponse(topics=[PlaceResponse.Topic(error_message="." * request.seed)])

    limits = ServerLimits(send_bytes_max=1 << 20)
    async with served(place, limits=limits) as (_, address), asking(address) as ask:
        large, small = await asyncio.gather(ask(1 << 20), ask(1), return_exceptions=True)

    assert isinstance(large, ApiError)
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED is large.code
    assert isinstance(small, PlaceResponse)


async def test_a_stream_takes_calls_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexed_channel, "STREAM_AGE_S", 0.0)
    async with served() as (_, address), MultiplexedChannel(open_channel(address)) as channel:
        first, second = channel.stream(), channel.stream()
        answer = await call(PlacerStub(channel).Place, PlaceRequest(seed=1), deadline_ms=DEADLINE_MS)

    assert first is not second
    assert answer_of(PlaceRequest(seed=1)) == answer


async def test_limits_count_each_call_of_a_stream() -> None:
    held = Held()
    limits = ServerLimits(calls=CallLimits(calls=2, calls_per_ip=1, streams=1, streams_per_ip=1))
    async with served(held, limits=limits) as (_, address), asking(address) as ask:
        task = asyncio.create_task(ask())
        await held.begun.wait()
        with pytest.raises(ApiError) as caught:
            await ask(1)
        task.cancel()

    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED is caught.value.code
    assert "max.calls.per.ip" == caught.value.metadata["limit"]


@pytest.mark.parametrize(
    ("called", "status"),
    [
        (CallBatch.Call(method=PLACE, request=b"\xff"), grpc.StatusCode.INVALID_ARGUMENT),
        (CallBatch.Call(method=f"{PLACER}/Unknown"), grpc.StatusCode.UNIMPLEMENTED),
        (CallBatch.Call(method=f"{PLACER}/PlaceStream"), grpc.StatusCode.UNIMPLEMENTED),
        (CallBatch.Call(method="kraft.service.Multiplexed/Calls"), grpc.StatusCode.UNIMPLEMENTED),
        (CallBatch.Call(), grpc.StatusCode.UNIMPLEMENTED),
        (
            CallBatch.Call(method=PLACE, metadata=[{"key": "k", "value": b"v" * 9_000}]),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
        ),
        (CallBatch.Call(method=PLACE, metadata=[{"key": "k", "value": b"\xff"}]), grpc.StatusCode.INVALID_ARGUMENT),
        (CallBatch.Call(method=PLACE, timeout_ms=-1), grpc.StatusCode.OK),
    ],
    ids=["no-message", "unknown", "a-stream", "itself", "empty", "much-metadata", "not-ascii", "no-deadline"],
)
async def test_a_malformed_call_is_refused_and_the_next_is_answered(
    called: CallBatch.Call, status: grpc.StatusCode
) -> None:
    async with served() as (_, address), open_channel(address) as channel:
        stream = MultiplexedStub(channel).Calls()
        called.id = 1
        await stream.write(CallBatch(calls=[called], cancelled=[17]))
        first = (await stream.read()).results[0]
        await stream.write(CallBatch(calls=[CallBatch.Call(id=2, method=PLACE)]))
        second = (await stream.read()).results[0]

    assert (1, status.value[0]) == (first.id, first.status), first.details
    assert (2, 0) == (second.id, second.status), second.details
