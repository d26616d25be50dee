"""What a refused call leaves in memory: nothing, without the help of the garbage collector.

An idle process never runs a full collection, so an exception that is kept in a frame of its own traceback would keep
the request as well. Real servers on loopback; the callers send bytes, so every message of a type is the server's.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Never

import grpc
import pytest

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, add_HeartbeatServicer_to_server
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel

PLACER: Final = "kraft.service.Placer"
HEARTBEAT: Final = "kraft.service.Heartbeat"
CALLS: Final = 20
KEPT: Final = (PlaceRequest, BrokerHeartbeatRequest, ApiError, grpc.aio.AbortError)
PLACE: Final = PlaceRequest(topics=[PlaceRequest.Topic(partition_count=1)]).SerializeToString()
BEAT: Final = BrokerHeartbeatRequest(broker_id=7).SerializeToString()


class Refusing(PlacerServicer, HeartbeatServicer):
    """Ends each call as the test says, after it has read its request."""

    def __init__(self, end: Callable[[Any], Any]) -> None:
        self._end = end

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        await self._end(context)
        return PlaceResponse()

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterator[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[Any]:
        async for request in request_iterator:
            await self._end(context)
            yield request


class Closed:
    """A guard that lets nobody in."""

    def check(self, method: str, context: Any) -> Never:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{method} is not for this caller")


async def refuse(context: Any) -> None:
    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "this caller has no right")


async def fail(context: Any) -> None:
    raise KeyError("a fault of ours")


async def abort(context: Any) -> None:
    await context.abort(grpc.StatusCode.NOT_FOUND, "as gRPC's own servicers do it")


async def let_in(context: Any) -> None:
    """Refuses nothing."""


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def kept() -> dict[str, int]:
    """How many objects there are that a call brings with it, by type."""
    found = [type(each) for each in gc.get_objects()]
    return {kind.__name__: found.count(kind) for kind in KEPT if kind in found}


async def unary(channel: grpc.aio.Channel) -> None:
    await channel.unary_unary(f"/{PLACER}/Place")(PLACE, timeout=60)


async def stream(channel: grpc.aio.Channel) -> None:
    call = channel.stream_stream(f"/{HEARTBEAT}/BrokerHeartbeatStream")(iter([BEAT]), timeout=60)
    async for _ in call:
        break


async def calls_until_refused(channel: grpc.aio.Channel, call: Callable[[grpc.aio.Channel], Any]) -> int:
    refusals = 0
    for _ in range(CALLS):
        try:
            await call(channel)
        except grpc.aio.AioRpcError:
            refusals += 1
    return refusals


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("call", [unary, stream])
@pytest.mark.parametrize(
    ("end", "guard"),
    [(refuse, None), (fail, None), (abort, None), (let_in, Closed())],
    ids=["refused", "failed", "aborted", "guarded"],
)
async def test_a_refused_call_leaves_neither_its_request_nor_its_error(
    caplog: pytest.LogCaptureFixture, call: Callable[[grpc.aio.Channel], Any], end: Callable[[Any], Any], guard: Any
) -> None:
    server = Server(guard=guard)
    server.add(PLACER, add_PlacerServicer_to_server, Refusing(end))
    server.add(HEARTBEAT, add_HeartbeatServicer_to_server, Refusing(end))
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        caplog.set_level(logging.CRITICAL)  # pytest keeps records, and with them exceptions
        before = kept()
        refusals = await calls_until_refused(channel, call)
    await server.stop(grace_s=0)
    after = kept()

    assert CALLS == refusals
    assert before == after
