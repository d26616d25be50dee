"""Large requests take their turns at the memory that there is for all of them; small ones never wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc
import pytest

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, add_PlacerServicer_to_server
from quorate.errors import ErrorCode
from quorate.runtime.calls.admission import CallLimits
from quorate.runtime.calls.door import DEADLINE_CAP_MS
from quorate.runtime.calls.server import Server
from quorate.runtime.calls.stream_requests import StreamRequests
from quorate.runtime.calls.wrapped_server import ServerLimits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.room import LARGE_BYTES, Room
from quorate.runtime.requests.statuses import error_from_call
from tests.services.scripted import listening

PLACE: Final = "/kraft.service.Placer/Place"
SMALL: Final = PlaceRequest().SerializeToString()
LARGE: Final = b"\xfa\x07" + b"\xfc\xff\x3f" + bytes((1 << 20) - 4)
"""A field of a megabyte that no placer knows, which protobuf keeps as it is."""
TWO_OF_THEM: Final = 40 << 20


class Counting(PlacerServicer):
    """Answers small requests; large ones, on command."""

    def __init__(self) -> None:
        self.under_way = self.most = 0
        self.is_full, self.has_third, self.released = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def PlaceStream(self, request_iterator: AsyncIterator[PlaceRequest], context: Any) -> AsyncIterator[Any]:
        """Begins each request when it has come, as streams with many requests in a message do."""

        async def answer(request: PlaceRequest) -> PlaceResponse.Topic:
            await self.Place(request, context)
            return PlaceResponse.Topic()

        async def each() -> AsyncIterator[list[PlaceRequest]]:
            async for request in request_iterator:
                yield [request]
                del request

        requests = StreamRequests[PlaceRequest](answer, batch=PlaceResponse, under_way_max=100)
        requests.begin(each())
        while (ready := await requests.ready()) is not None:
            yield ready

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        if request.ByteSize() > LARGE_BYTES:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            if self.under_way == 2:
                self.is_full.set()
            elif self.under_way == 3:
                self.has_third.set()
            await self.released.wait()
            self.under_way -= 1
        return PlaceResponse()


def server_of(placer: Counting, *, deadline_cap_ms: int = DEADLINE_CAP_MS, **limits: Any) -> Server:
    server = Server(limits=ServerLimits(calls=CallLimits(**limits), deadline_cap_ms=deadline_cap_ms))
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, placer)
    return server


async def test_many_large_requests_at_once_are_served_a_few_at_a_time_and_small_ones_at_once() -> None:
    placer = Counting()
    async with listening(server_of(placer, large_bytes=TWO_OF_THEM)) as address, open_channel(address) as channel:
        place = channel.unary_unary(PLACE)
        many = [asyncio.ensure_future(place(LARGE, timeout=60)) for _ in range(20)]
        await placer.is_full.wait()
        await place(SMALL, timeout=60)
        many.pop().cancel()
        placer.released.set()
        await asyncio.gather(*many)

    assert 2 == placer.most


@pytest.mark.parametrize(("stream_count", "each"), [(10, 1), (1, 10)])
async def test_messages_of_streams_take_room_until_they_are_served(stream_count: int, each: int) -> None:
    """Of many streams or of one; a large unary request and small messages do not wait for them."""
    placer = Counting()
    async with listening(server_of(placer, large_bytes=TWO_OF_THEM)) as address, open_channel(address) as channel:
        stream, place = channel.stream_stream(f"{PLACE}Stream"), channel.unary_unary(PLACE)

        async def all_of(message: bytes, count: int) -> None:
            async for _ in stream(iter([message] * count), timeout=60):
                pass

        many = [asyncio.ensure_future(all_of(LARGE, each)) for _ in range(stream_count)]
        await placer.is_full.wait()
        await all_of(SMALL, 3)
        most = placer.most
        unary = asyncio.ensure_future(place(LARGE, timeout=60))
        await placer.has_third.wait()
        placer.released.set()
        await asyncio.gather(unary, *many)
        await asyncio.gather(all_of(LARGE, 2), all_of(LARGE, 2))  # all has been given back

    assert 2 == most
    assert 3 == placer.most


async def test_a_message_holds_its_room_no_longer_than_a_call_may_take() -> None:
    """Whether its handler stands still or its answers are not taken: the stream ends, and another has the room."""
    placer = Counting()
    server = server_of(placer, deadline_cap_ms=300, large_bytes=TWO_OF_THEM)
    async with listening(server) as address, open_channel(address) as channel:
        stream = channel.stream_stream(f"{PLACE}Stream")
        stands, others = stream(timeout=10), stream(timeout=10)
        for _ in range(3):
            await stands.write(LARGE)
        await placer.is_full.wait()
        await others.write(LARGE)
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stands.read()
        await asyncio.wait_for(placer.has_third.wait(), 10)
        placer.released.set()
        await others.read()
        await others.done_writing()

    refusal = error_from_call(ended.value)
    assert (ErrorCode.REQUEST_TIMED_OUT, "300") == (refusal.code, refusal.metadata["held_ms"])


async def test_who_has_waited_too_long_hears_the_limit() -> None:
    placer = Counting()
    server = server_of(placer, large_bytes=TWO_OF_THEM, large_wait_s=0.01)
    async with listening(server) as address, open_channel(address) as channel:
        place = channel.unary_unary(PLACE)
        first = [asyncio.ensure_future(place(LARGE, timeout=60)) for _ in range(2)]
        await placer.is_full.wait()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await place(LARGE, timeout=60)
        placer.released.set()
        await asyncio.gather(*first)
        await place(LARGE, timeout=60)  # the one that was refused takes no room

    refusal = error_from_call(refused.value)
    assert ErrorCode.THROTTLING_QUOTA_EXCEEDED is refusal.code
    assert "requests of more than 65536 bytes may take 41943040 together" in refusal.message


async def test_turns_go_by_address_and_all_room_is_given_back() -> None:
    """With callers that leave in between, also at the moment at which the turn is given."""
    room, order = Room("requests", 3, 60), list[str]()

    async def work(host: str, size: int) -> None:
        async with room.held(host, size):
            order.append(f"{host}{size}")
            await asyncio.sleep(0)

    async with room.held("x", 100):  # more than there is: it takes all
        waiting = [asyncio.create_task(work(*each)) for each in (("a", 1), ("a", 2), ("a", 1), ("b", 3), ("a", 3))]
        await asyncio.sleep(0)
        waiting[2].cancel()
    waiting[0].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)

    assert ["b3", "a2", "a3"] == order
    assert [True, False, True, False, False] == [isinstance(each, asyncio.CancelledError) for each in results]
    assert 0 == room.taken


async def test_a_large_one_is_not_passed_over() -> None:
    room, order = Room("requests", 3, 60), list[int]()

    async def work(size: int) -> None:
        async with room.held("a", size):
            order.append(size)

    async with room.held("x", 1):
        waiting = [asyncio.create_task(work(size)) for size in (3, 1)]
        await asyncio.sleep(0)
        assert [] == order
    await asyncio.gather(*waiting)

    assert [3, 1] == order
