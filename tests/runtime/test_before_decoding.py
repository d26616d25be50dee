"""A request is decoded for a caller with a right to the method alone, and only if it will not take too much memory.

What was decoded is seen in this process's memory: 4 MiB of empty items take 80 MiB and more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Never

import grpc
import pytest

from kraft.service.heartbeat_pb2 import BrokerHeartbeatsRequest
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, add_HeartbeatServicer_to_server
from kraft.service.multiplexed_pb2 import CallBatch, ResultBatch
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.statuses import error_from_call
from tests.services.scripted import listening

PLACE: Final = "kraft.service.Placer/Place"
BEATS: Final = "kraft.service.Heartbeat/BrokerHeartbeats"
EMPTY_BROKERS: Final = b"\x0a\x00" * (2 << 20)
"""As many empty brokers, or heartbeats, as a message may have."""
MIB_MAX: Final = 45
"""What client and server hold of the bytes themselves, with room."""
TO_CLEAR_THE_PEAK: Final = "5"
"""What Linux takes at /proc/PID/clear_refs to begin the peak of a process's memory anew."""

Call = Callable[[grpc.aio.Channel], Awaitable[None]]


class Serving(PlacerServicer, HeartbeatServicer):
    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        return PlaceResponse()

    async def BrokerHeartbeats(
        self, request_iterator: AsyncIterator[BrokerHeartbeatsRequest], context: Any
    ) -> AsyncIterator[Any]:
        async for _ in request_iterator:
            return
        yield


class Closed:
    """Lets nobody in."""

    def check(self, method: str, context: Any) -> Never:
        raise _no_right(method, context)


def _no_right(method: str, context: Any) -> Never:
    raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"{method} is not for this caller")


def _clear_the_peak() -> None:
    Path("/proc/self/clear_refs").write_text(TO_CLEAR_THE_PEAK)


def _mib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) >> 10


async def unary(channel: grpc.aio.Channel) -> None:
    await channel.unary_unary(f"/{PLACE}")(EMPTY_BROKERS, timeout=60)


async def stream(channel: grpc.aio.Channel) -> None:
    async for _ in channel.stream_stream(f"/{BEATS}")(iter([EMPTY_BROKERS]), timeout=60):
        break


async def multiplexed(channel: grpc.aio.Channel) -> None:
    request = CallBatch(calls=[CallBatch.Call(id=1, method=PLACE, request=EMPTY_BROKERS[: 4_000 << 10])])
    call = channel.stream_stream("/kraft.service.Multiplexed/Calls")(iter([request.SerializeToString()]), timeout=60)
    async for answer in call:
        (result,) = ResultBatch.FromString(answer).results
        raise ApiError(ErrorCode.NONE, result.details, {"status": str(result.status)})


async def refusal_of(call: Call, server: Server) -> tuple[str, str, int]:
    """Status and reason of the refusal, and how many MiB more this process had while the server dealt with the call."""
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, Serving())
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, Serving())
    server.multiplex()
    async with listening(server) as address, open_channel(address) as channel:
        _clear_the_peak()
        before = _mib("VmRSS")
        try:
            await call(channel)
        except grpc.aio.AioRpcError as error:
            refused = error.code().value[0], error_from_call(error).message
        except ApiError as error:
            refused = int(error.metadata["status"]), error.message
        return _NAMES[refused[0]], refused[1], _mib("VmHWM") - before
    raise AssertionError


_NAMES: Final = {each.value[0]: each.name for each in grpc.StatusCode}

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone has a peak to clear")
CALLS: Final = pytest.mark.parametrize("call", [unary, stream, multiplexed])


@CALLS
async def test_the_request_of_a_caller_without_a_right_is_not_decoded(call: Call) -> None:
    status, why, more_mib = await refusal_of(call, Server(guard=Closed()))

    assert ("PERMISSION_DENIED", True) == (status, why.endswith("is not for this caller"))
    assert more_mib <= MIB_MAX


async def test_a_large_request_is_not_decoded_for_a_caller_without_a_right_to_the_method() -> None:
    status, _, more_mib = await refusal_of(unary, Server(may_send=_no_right))

    assert "PERMISSION_DENIED" == status
    assert more_mib <= MIB_MAX


@CALLS
async def test_a_request_that_would_take_too_much_memory_is_not_decoded(call: Call) -> None:
    status, why, more_mib = await refusal_of(call, Server())

    assert "RESOURCE_EXHAUSTED" == status
    assert "of memory once it is decoded, and may take 16777216 beside its own bytes" in why
    assert more_mib <= MIB_MAX
