"""An observer's reads at their limits: long traces are read part by part, in turns, and long requests are refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest

from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.service.observer_pb2 import GetTraceRequest, GetTraceResponse
from kraft.service.observer_pb2_grpc import ObserverStub, add_ObserverServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.caps import LIST_MAX
from quorate.runtime.requests.statuses import error_from_call
from quorate.runtime.telemetry.tracing import OFF
from quorate.traces import SpanData
from services.observer.servicer import SPANS_PER_TURN, TRACE_BYTES_MAX, ObserverService
from services.observer.spans import PENDING_MAX, TRACE_MAX, SpanStore
from tests.services.scripted import WITHIN_S

TRACE_ID = "a" * 32
UNASKED_BYTES_MAX = 4 << 20
"""The largest message that a gRPC client takes by default."""


@pytest.fixture
async def store() -> AsyncIterator[SpanStore]:
    made = SpanStore()
    yield made
    await made.close()


def observer(store: SpanStore) -> ObserverService:
    return ObserverService(Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF), store)


@asynccontextmanager
async def serving(store: SpanStore) -> AsyncIterator[ObserverStub]:
    server = Server()
    server.add("kraft.service.Observer", add_ObserverServicer_to_server, observer(store))
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}", receive_bytes_max=UNASKED_BYTES_MAX) as channel:
        yield ObserverStub(channel)
    await server.stop(grace_s=0)


async def kept(store: SpanStore, count: int, *, attribute: str = "") -> list[str]:
    """Stores a trace of so many spans, each a ns after the one before; the ids of its spans."""
    ids = [f"{number:016x}" for number in range(count)]
    for start in range(0, count, PENDING_MAX):
        spans = [
            SpanData(
                trace_id=TRACE_ID,
                span_id=ids[number],
                parent_span_id="",
                name="apply",
                service="observer",
                instance="observer-1",
                start_ns=number,
                end_ns=number + 1,
                attributes={"path": attribute},
            )
            for number in range(start, min(count, start + PENDING_MAX))
        ]
        assert len(spans) == store.offer(spans)
        await store.flush()
    return ids


async def pages(stub: ObserverStub) -> list[GetTraceResponse]:
    """The whole trace, read part by part."""
    found = [await stub.GetTrace(GetTraceRequest(trace_id=TRACE_ID), timeout=WITHIN_S)]
    while (read := sum(len(page.spans) for page in found)) < found[-1].span_count:
        found.append(await stub.GetTrace(GetTraceRequest(trace_id=TRACE_ID, skip=read), timeout=WITHIN_S))
        assert found[-1].spans
    return found


def ids_of(found: list[GetTraceResponse]) -> list[str]:
    return [span.span_id for page in found for span in page.spans]


async def test_a_trace_of_many_spans_is_read_part_by_part(store: SpanStore) -> None:
    ids = await kept(store, TRACE_MAX + 1)
    async with serving(store) as stub:
        found = await pages(stub)

    assert ids == ids_of(found)
    assert [TRACE_MAX, 1] == [len(page.spans) for page in found]
    assert {len(ids)} == {page.span_count for page in found}


async def test_an_answer_has_no_more_bytes_than_any_client_takes(store: SpanStore) -> None:
    ids = await kept(store, 10, attribute="x" * (TRACE_BYTES_MAX // 4))
    async with serving(store) as stub:
        found = await pages(stub)

    assert ids == ids_of(found)
    assert [3, 3, 3, 1] == [len(page.spans) for page in found]


async def test_a_span_that_fills_an_answer_has_one_of_its_own(store: SpanStore) -> None:
    ids = await kept(store, 3, attribute="x" * TRACE_BYTES_MAX)
    async with serving(store) as stub:
        found = await pages(stub)

    assert [[each] for each in ids] == [ids_of([page]) for page in found]


async def longest_hold(store: SpanStore) -> float:
    """The longest time, in s of this thread's CPU, that reading a trace held the loop; the least of a few tries."""
    longest = 0.0

    async def others() -> None:
        nonlocal longest
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    holds = []
    for _ in range(3):
        longest, other = 0.0, asyncio.create_task(others())
        await observer(store).GetTrace(GetTraceRequest(trace_id=TRACE_ID), None)
        await asyncio.sleep(0)
        other.cancel()
        holds.append(longest)
    return min(holds)


async def test_a_long_trace_leaves_the_loop_to_others(store: SpanStore) -> None:
    short = SpanStore()
    await kept(short, SPANS_PER_TURN)
    of_one_turn = await longest_hold(short)
    await short.close()
    await kept(store, TRACE_MAX)

    # In one turn it would be twenty times as long.
    assert 20 == TRACE_MAX // SPANS_PER_TURN
    assert await longest_hold(store) < 7 * of_one_turn


async def test_to_skip_fewer_than_none_is_refused(store: SpanStore) -> None:
    async with serving(store) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetTrace(GetTraceRequest(trace_id=TRACE_ID, skip=-1), timeout=WITHIN_S)
    refused: ApiError = error_from_call(caught.value)

    assert ErrorCode.INVALID_REQUEST is refused.code
    assert "skip -1 is negative; it is the number of spans to leave out" == refused.message


@pytest.mark.parametrize("count", [LIST_MAX + 1, 200_000])
async def test_more_topics_than_one_answer_may_have_are_not_described(store: SpanStore, count: int) -> None:
    topics = [DescribeTopicPartitionsRequest.TopicRequest(name="a")] * count
    async with serving(store) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.DescribeTopicPartitions(DescribeTopicPartitionsRequest(topics=topics), timeout=WITHIN_S)
    refused: ApiError = error_from_call(caught.value)

    assert ErrorCode.POLICY_VIOLATION is refused.code
    assert f"topics: {count} items; at most {LIST_MAX} may be asked for at once" == refused.message
