"""Calls in the messages of one stream end as calls by themselves do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from kraft.service.multiplexed_pb2 import CallBatch, ResultBatch
from kraft.service.multiplexed_pb2_grpc import (
    MultiplexedServicer,
    MultiplexedStub,
    add_MultiplexedServicer_to_server,
)
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls import multiplexed_calls
from quorate.runtime.calls.admission import CallLimits
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients import multiplexed_channel
from quorate.runtime.clients.client import call, open_channel
from quorate.runtime.clients.multiplexed_channel import MultiplexedChannel

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


class Watching(MultiplexedServicer):
    """Answers each call, and keeps the messages in which they came."""

    def __init__(self) -> None:
        self.batches: list[CallBatch] = []

    async def Calls(self, batches: AsyncIterator[CallBatch], context: Any) -> AsyncIterator[ResultBatch]:
        async for batch in batches:
            self.batches.append(batch)
            yield ResultBatch(
                results=[
                    ResultBatch.Result(
                        id=called.id, response=answer_of(PlaceRequest.FromString(called.request)).SerializeToString()
                    )
                    for called in batch.calls
                ]
            )


@asynccontextmanager
async def watching() -> AsyncIterator[tuple[Watching, str]]:
    server, watcher = Server(), Watching()
    server.add("kraft.service.Multiplexed", add_MultiplexedServicer_to_server, watcher)
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        yield watcher, f"127.0.0.1:{port}"
    finally:
        await server.stop(grace_s=0)


async def test_calls_that_are_made_together_share_a_message() -> None:
    async with watching() as (watcher, address), asking(address) as ask:
        await ask()
        await asyncio.gather(*(ask(seed) for seed in range(50)))

    assert [1, 50] == [len(batch.calls) for batch in watcher.batches]


async def test_results_that_are_ready_together_share_a_message() -> None:
    async with served() as (_, address), open_channel(address) as channel:
        stream = MultiplexedStub(channel).Calls()
        calls = [CallBatch.Call(id=number, method=PLACE) for number in range(50)]
        await stream.write(CallBatch(calls=calls))
        batches: list[list[int]] = []
        while sum(map(len, batches)) < len(calls):
            batch = await stream.read()
            assert isinstance(batch, ResultBatch)
            batches.append([result.id for result in batch.results])

    assert list(range(50)) == sorted(number for batch in batches for number in batch)
    assert len(batches) < len(calls)


async def test_messages_stay_below_what_servers_take() -> None:
    long = "n" * 4_000
    async with served() as (_, address), asking(address) as ask:
        answers = await asyncio.gather(*(ask(seed, metadata=(("client-id", long),)) for seed in range(1_500)))

    assert 1_500 == len(answers)  # 6 MB in all, and 4 MiB are taken at once


async def test_what_is_given_up_before_it_is_written_is_never_sent() -> None:
    async with watching() as (watcher, address), asking(address) as ask:
        await ask(1)
        given_up = [asyncio.create_task(ask(seed)) for seed in (2, 3)]
        late = asyncio.create_task(ask(4, deadline_ms=1))
        await asyncio.sleep(0)  # they have begun
        for task in given_up:
            task.cancel()
        kept = await ask(5)
        await asyncio.wait([late])  # it may have been in time

    sent = [PlaceRequest.FromString(called.request).seed for batch in watcher.batches for called in batch.calls]
    assert {1, 5} <= set(sent) <= {1, 4, 5}
    assert [] == [number for batch in watcher.batches for number in batch.cancelled if number in (2, 3)]
    assert answer_of(PlaceRequest(seed=5)) == kept


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


class BreakingStream:
    """A stream whose connection breaks in its second write, as gRPC tells it then; it has `results` before that."""

    def __init__(self, results: list[ResultBatch]) -> None:
        self._results = results
        self.has_written = asyncio.Event()
        self._has_broken = asyncio.Event()

    async def write(self, batch: CallBatch) -> None:
        if self.has_written.is_set():
            self._has_broken.set()
            self._fail()
        self.has_written.set()

    async def __aiter__(self) -> AsyncIterator[ResultBatch]:
        for batch in self._results:
            yield batch
        await self._has_broken.wait()
        self._fail()

    def cancel(self) -> None: ...

    def _fail(self) -> None:
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, details="Internal error from Core")


@pytest.mark.parametrize("results", [[], [ResultBatch()]], ids=["before-a-result", "after-one"])
async def test_calls_of_a_connection_that_breaks_in_a_later_write_fail_as_those_of_a_lost_one(
    results: list[ResultBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = BreakingStream(results)

    class Stub:
        def __init__(self, channel: Any) -> None: ...

        def Calls(self) -> BreakingStream:
            return stream

    async with served() as (_, address):
        monkeypatch.setattr(multiplexed_channel, "MultiplexedStub", Stub)
        async with asking(address) as ask:
            written = asyncio.create_task(ask(1))
            await stream.has_written.wait()
            ends = await asyncio.gather(written, ask(2), return_exceptions=True)

    assert all(isinstance(end, ApiError) for end in ends), ends
    assert [(ErrorCode.NETWORK_EXCEPTION, "UNAVAILABLE")] * 2 == [
        (end.code, end.metadata["grpc_status"]) for end in ends if isinstance(end, ApiError)
    ]


async def test_a_server_that_stops_answers_the_calls_that_it_has_and_refuses_new_ones() -> None:
    begun, may_answer = asyncio.Event(), asyncio.Event()

    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        begun.set()
        await may_answer.wait()
        return answer_of(request)

    async with served(place) as (server, address), asking(address) as ask:
        task = asyncio.create_task(ask(3))
        await begun.wait()
        stopping = asyncio.create_task(server.stop(grace_s=60))
        codes = set()
        while codes != {ErrorCode.NETWORK_EXCEPTION}:
            with pytest.raises(ApiError) as caught:
                await ask(4, deadline_ms=100)  # until it stops, it waits for `may_answer`, too
            codes = {caught.value.code}
        may_answer.set()
        answer = await task
        await asyncio.wait_for(stopping, 30)  # not for the grace: the stream does not stay open

    assert answer_of(PlaceRequest(seed=3)) == answer


async def test_a_channel_that_is_closed_says_so() -> None:
    async with served() as (_, address):
        channel = MultiplexedChannel(open_channel(address))
        place = PlacerStub(channel).Place
        await call(place, PlaceRequest(), deadline_ms=DEADLINE_MS)
        await channel.close()
        with pytest.raises(grpc.aio.UsageError):
            await place(PlaceRequest(), timeout=60)


async def test_while_a_server_has_no_room_for_a_stream_calls_are_made_one_by_one() -> None:
    limits = ServerLimits(calls=CallLimits(streams_per_ip=1))
    async with served(limits=limits) as (_, address), open_channel(address) as other, asking(address) as ask:
        holding = MultiplexedStub(other).Calls()
        await holding.write(CallBatch(calls=[CallBatch.Call(id=1, method=PLACE)]))
        await holding.read()
        answer = await ask(3)

    assert answer_of(PlaceRequest(seed=3)) == answer


async def test_nothing_is_executed_for_a_client_that_never_reads() -> None:
    executed = 0

    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        nonlocal executed
        executed += 1
        return PlaceResponse(topics=[PlaceResponse.Topic(error_message="." * 100_000)])

    async with served(place) as (_, address), open_channel(address) as channel, asking(address) as ask:
        stream = MultiplexedStub(channel).Calls()
        for start in range(0, 10_000, 100):
            calls = [CallBatch.Call(id=start + number, method=PLACE) for number in range(100)]
            writing = asyncio.ensure_future(stream.write(CallBatch(calls=calls)))
            await asyncio.wait([writing], timeout=0.05)
            await ask()
        stream.cancel()

    assert executed < 2_500  # of 10,000, with one for each message from who reads


async def test_a_stream_without_calls_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexed_calls, "IDLE_S", 0.05)
    async with served() as (_, address), open_channel(address) as channel:
        stream = MultiplexedStub(channel).Calls()
        end = await asyncio.wait_for(stream.read(), 60)

    assert grpc.aio.EOF is end


async def test_a_fault_beside_the_handler_ends_one_call_alone() -> None:
    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        if request.seed == 1:
            context.set_trailing_metadata((("kraft-offset", "\u00e9"),))
        return answer_of(request)

    async with served(place) as (_, address), asking(address) as ask:
        bad, good = await asyncio.gather(ask(1), ask(2), return_exceptions=True)

    assert isinstance(bad, ApiError)
    assert ErrorCode.UNKNOWN_SERVER_ERROR is bad.code
    assert answer_of(PlaceRequest(seed=2)) == good


async def test_an_id_that_is_taken_is_refused() -> None:
    held = Held()
    async with served(held) as (_, address), open_channel(address) as channel:
        stream = MultiplexedStub(channel).Calls()
        await stream.write(CallBatch(calls=[CallBatch.Call(id=1, method=PLACE)]))
        await held.begun.wait()
        await stream.write(CallBatch(calls=[CallBatch.Call(id=1, method=PLACE)]))
        refused = (await stream.read()).results[0]
        await stream.write(CallBatch(cancelled=[1]))
        await asyncio.wait_for(held.cancelled.wait(), 60)

    assert (1, grpc.StatusCode.INVALID_ARGUMENT.value[0]) == (refused.id, refused.status)


@pytest.mark.parametrize(
    "batch",
    [
        CallBatch(calls=[CallBatch.Call(id=number) for number in range(2_001)]),
        CallBatch(cancelled=range(2_001)),
    ],
    ids=["calls", "cancelled"],
)
async def test_a_message_with_too_many_entries_ends_its_stream(batch: CallBatch) -> None:
    async with served() as (_, address), open_channel(address) as channel:
        stream = MultiplexedStub(channel).Calls()
        await stream.write(batch)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()

    assert grpc.StatusCode.INVALID_ARGUMENT is caught.value.code()


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


async def test_a_stream_that_takes_no_calls_any_more_answers_those_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(multiplexed_channel, "STREAM_AGE_S", 0.05)
    may_answer = asyncio.Event()

    async def place(request: PlaceRequest, context: Any) -> PlaceResponse:
        if request.seed == 1:
            await may_answer.wait()
        return answer_of(request)

    async with served(place) as (_, address), MultiplexedChannel(open_channel(address)) as channel:
        stub = PlacerStub(channel)
        first = channel.stream()
        held = asyncio.create_task(call(stub.Place, PlaceRequest(seed=1), deadline_ms=DEADLINE_MS))
        while (second := channel.stream()) is first:
            await call(stub.Place, PlaceRequest(seed=2), deadline_ms=DEADLINE_MS)
        may_answer.set()
        answer = await held

    assert second is not first
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
        (CallBatch.Call(method=PLACE, metadata=[{}] * 1_000), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (CallBatch.Call(method=PLACE, metadata=[{"key": "k", "value": b"\xff"}]), grpc.StatusCode.INVALID_ARGUMENT),
        (CallBatch.Call(method=PLACE, metadata=[{"key": "k", "value": b"\n"}]), grpc.StatusCode.INVALID_ARGUMENT),
        (CallBatch.Call(method=PLACE, metadata=[{"key": "k", "value": b"\x7f"}]), grpc.StatusCode.INVALID_ARGUMENT),
        (CallBatch.Call(method=PLACE, metadata=[{"key": "k", "value": b" ~"}]), grpc.StatusCode.OK),
        (CallBatch.Call(method=PLACE, metadata=[{"key": "K k", "value": b"v"}]), grpc.StatusCode.INVALID_ARGUMENT),
        (CallBatch.Call(method=PLACE, timeout_ms=-1), grpc.StatusCode.OK),
    ],
    ids=[
        *("no-message", "unknown", "a-stream", "itself", "empty", "much-metadata", "many-pairs", "not-ascii"),
        *("not-printable", "delete", "printable", "no-key", "no-deadline"),
    ],
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
