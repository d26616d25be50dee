"""A client against real servers that refuse, move, die and come back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client, call, open_channel
from quorate.runtime.requests.statuses import error_from_call, is_refused_stream, rich_status, status_code
from tests.runtime.refusing import refusing_streams
from tests.services.scripted import failed

PLACER = "kraft.service.Placer"
Place = Callable[[PlaceRequest], Awaitable[Any]]

DEADLINE_MS = 1_000
WITHIN_S = 30.0
"""So much later a client that has a deadline may give up on a busy machine; one that has none goes on for ever."""
ROUNDS = 5
"""The deadline may cut off a last attempt, but hardly each time."""
ASKED_MAX = 100
"""Without pauses it would be a thousand in this time."""


class Placer(PlacerServicer):
    def __init__(self, place: Place) -> None:
        self._place = place

    async def Place(self, request: PlaceRequest, context: Any) -> Any:
        return await self._place(request)


async def start(place: Place, address: str = "127.0.0.1:0") -> tuple[Server, str]:
    server = Server()
    server.add(PLACER, add_PlacerServicer_to_server, Placer(place))
    port = server.listen(address)
    await server.start()
    return server, f"127.0.0.1:{port}"


@asynccontextmanager
async def running(*places: Place) -> AsyncIterator[list[str]]:
    started = [await start(place) for place in places]
    try:
        yield [address for _, address in started]
    finally:
        for server, _ in started:
            await server.stop(grace_s=0)


@asynccontextmanager
async def client_of(*addresses: str) -> AsyncIterator[Client[PlacerStub]]:
    client = Client(addresses, PlacerStub)
    try:
        yield client
    finally:
        await client.close()


async def place(client: Client[PlacerStub], deadline_ms: int = 60_000, **options: Any) -> PlaceResponse:
    return await client.call(lambda stub: stub.Place, PlaceRequest(), deadline_ms=deadline_ms, **options)


async def refusal(client: Client[PlacerStub], deadline_ms: int) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        await place(client, deadline_ms=deadline_ms)
    return caught.value.code


def script(*outcomes: ApiError | None) -> tuple[Place, list[PlaceRequest]]:
    """A placer that answers with these outcomes in turn, the last one for ever; and the requests that it got."""
    asked: list[PlaceRequest] = []

    async def answer(request: PlaceRequest) -> PlaceResponse:
        asked.append(request)
        outcome = outcomes[min(len(asked), len(outcomes)) - 1]
        if outcome is not None:
            raise outcome
        return PlaceResponse(topics=[PlaceResponse.Topic(error_message="placed")])

    return answer, asked


PLACED = PlaceResponse(topics=[PlaceResponse.Topic(error_message="placed")])


async def test_an_error_arrives_as_it_was_raised() -> None:
    sent = ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, "cluster a is not b", {"cluster_id": "a", "expected": "b"})
    answer, asked = script(sent)

    async with running(answer) as addresses, client_of(*addresses) as client:
        with pytest.raises(ApiError) as caught:
            await place(client)

    assert (sent.code, sent.message) == (caught.value.code, caught.value.message)
    assert {**sent.metadata, "grpc_status": "FAILED_PRECONDITION"} == caught.value.metadata
    assert 1 == len(asked)


async def test_a_retriable_error_is_tried_again_until_it_passes() -> None:
    answer, asked = script(*[ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "not yet")] * 3, None)

    async with running(answer) as addresses, client_of(*addresses) as client:
        response = await place(client)

    assert PLACED == response
    assert 4 == len(asked)


async def test_a_caller_may_forbid_to_try_again() -> None:
    answer, asked = script(ApiError(ErrorCode.REQUEST_TIMED_OUT, "who knows"), None)

    async with running(answer) as addresses, client_of(*addresses) as client:
        with pytest.raises(ApiError) as caught:
            await place(client, retry=lambda error: False)

    assert ErrorCode.REQUEST_TIMED_OUT is caught.value.code
    assert 1 == len(asked)


async def test_it_gives_up_at_the_deadline_with_the_last_error() -> None:
    answer, asked = script(ApiError(ErrorCode.NOT_CONTROLLER, "nobody leads"))

    async with running(answer) as addresses, client_of(*addresses) as client:
        began = time.monotonic()
        codes = {await refusal(client, DEADLINE_MS) for _ in range(ROUNDS)}
        took_s = time.monotonic() - began

    assert ErrorCode.NOT_CONTROLLER in codes <= {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
    assert ROUNDS < len(asked)
    assert took_s < ROUNDS * DEADLINE_MS / 1000 + WITHIN_S


async def test_it_follows_the_hint_to_the_leader_and_stays_there() -> None:
    leading, asked_leader = script(None)
    async with running(leading) as (leader,):
        standby, asked_standby = script(ApiError(ErrorCode.NOT_CONTROLLER, "no", {"leader_endpoint": leader}))
        async with running(standby) as (other,), client_of(other) as client:
            responses = [await place(client) for _ in range(3)]

            assert leader == client.address

    assert [PLACED] * 3 == responses
    assert (1, 3) == (len(asked_standby), len(asked_leader))


async def test_without_a_hint_it_asks_the_next_address() -> None:
    standby, _ = script(ApiError(ErrorCode.NOT_CONTROLLER, "no"))
    leading, _ = script(None)

    async with running(standby, leading) as addresses, client_of(*addresses) as client:
        response = await place(client)

    assert PLACED == response


async def test_two_that_name_each_other_are_not_asked_in_a_circle_without_pause() -> None:
    asked: list[str] = []
    addresses: list[str] = []

    def naming(other: int) -> Place:
        async def answer(request: PlaceRequest) -> PlaceResponse:
            asked.append(addresses[other])
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no", {"leader_endpoint": addresses[other]})

        return answer

    async with running(naming(1), naming(0)) as started, client_of(*started) as client:
        addresses += started
        with pytest.raises(ApiError):
            await place(client, deadline_ms=DEADLINE_MS)

    assert 2 <= len(asked) < ASKED_MAX


async def test_a_dead_node_is_passed_over() -> None:
    leading, _ = script(None)
    gone, dead = await start(script(None)[0])
    await gone.stop(grace_s=0)

    async with running(leading) as (alive,), client_of(dead, alive) as client:
        response = await place(client)

    assert PLACED == response


async def test_a_node_that_does_not_answer_is_left_for_the_next_and_by_many_callers_once() -> None:
    async def never(request: PlaceRequest) -> PlaceResponse:
        await asyncio.Event().wait()
        return PlaceResponse()

    async with running(never, script(None)[0]) as addresses, client_of(*addresses) as client:
        late = await asyncio.gather(refusal(client, 50), refusal(client, 50))

        assert [ErrorCode.REQUEST_TIMED_OUT] * 2 == late
        assert addresses[1] == client.address
        assert PLACED == await place(client)


async def test_a_node_that_restarts_is_found_again_by_the_same_channel() -> None:
    first, address = await start(script(None)[0])
    async with client_of(address) as client:
        await place(client)
        await first.stop(grace_s=0)
        with pytest.raises(ApiError) as caught:
            await place(client, retry=lambda error: False)
        second, _ = await start(script(None)[0], address)
        response = await place(client)
        await second.stop(grace_s=0)

    assert ErrorCode.NETWORK_EXCEPTION is caught.value.code
    assert PLACED == response


async def test_a_call_whose_stream_is_refused_is_made_again_though_it_may_not_be_done_twice() -> None:
    """REFUSED_STREAM says that nothing was begun (RFC 9113, 8.7), so that a write does not fail for it."""
    async with refusing_streams(first=3, body=PLACED) as server, client_of(server.address) as client:
        response = await place(client, retry=lambda error: False)

    assert PLACED == response
    assert (3, 1) == (server.refused, server.answered)


async def test_a_call_that_is_refused_for_ever_ends_by_its_deadline() -> None:
    async with refusing_streams(first=None, body=PLACED) as server, open_channel(server.address) as channel:
        with pytest.raises(ApiError, match="RST_STREAM") as caught:
            await call(PlacerStub(channel).Place, PlaceRequest(), deadline_ms=500)

    assert ErrorCode.NETWORK_EXCEPTION is caught.value.code
    assert 1 < server.refused < ASKED_MAX


async def test_what_is_said_of_a_hop_is_not_taken_for_the_call_itself() -> None:
    """A server whose own call was refused has begun something: its caller must not think that nothing was."""
    refused = failed(grpc.StatusCode.UNAVAILABLE, details="Stream removed (Received RST_STREAM with error code 7)")
    hop = error_from_call(refused)
    answer, asked = script(ApiError(hop.code, hop.message, {"thing": "value", **hop.metadata}))

    async with running(answer) as (address,), open_channel(address) as channel:
        with pytest.raises(ApiError) as caught:
            await call(PlacerStub(channel).Place, PlaceRequest(), deadline_ms=60_000)

    assert is_refused_stream(hop)
    assert {"thing": "value", "grpc_status": "UNAVAILABLE"} == caught.value.metadata
    assert 1 == len(asked)


async def test_past_the_deadline_it_is_a_time_out() -> None:
    async def never(request: PlaceRequest) -> PlaceResponse:
        await asyncio.Event().wait()
        return PlaceResponse()

    async with running(never) as (address,), open_channel(address) as channel:
        with pytest.raises(ApiError) as caught:
            await call(PlacerStub(channel).Place, PlaceRequest(), deadline_ms=50)

    assert ErrorCode.REQUEST_TIMED_OUT is caught.value.code
    assert "DEADLINE_EXCEEDED" == caught.value.metadata["grpc_status"]


async def test_a_response_that_does_not_parse_is_an_error_of_the_server() -> None:
    async def nonsense(request: PlaceRequest) -> bytes:
        return b"\xff"

    async with running(nonsense) as (address,), client_of(address) as client:
        with pytest.raises(ApiError, match="the answer does not parse as its message") as caught:
            await place(client)

    assert ErrorCode.UNKNOWN_SERVER_ERROR is caught.value.code


async def test_a_service_that_is_not_there_is_an_unsupported_version() -> None:
    server = Server()
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with client_of(f"127.0.0.1:{port}") as client:
        with pytest.raises(ApiError) as caught:
            await place(client)
    await server.stop()

    assert ErrorCode.UNSUPPORTED_VERSION is caught.value.code


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE], ids=lambda code: code.name)
def test_every_error_has_a_status_and_comes_back_the_same(code: ErrorCode) -> None:
    sent = ApiError(code, "why", {"thing": "value"})
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", rich_status(sent).SerializeToString()))
    failed = grpc.aio.AioRpcError(status_code(code), grpc.aio.Metadata(), trailing, details="why")

    back = error_from_call(failed)

    assert status_code(code) is not grpc.StatusCode.OK
    assert (code, "why", "value") == (back.code, back.message, back.metadata["thing"])


@pytest.mark.parametrize("details", [b"", b"\xff\xff", b"\x1a\x02\x0a\x00"], ids=["empty", "garbage", "no type"])
def test_details_that_are_not_ours_leave_the_status(details: bytes) -> None:
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", details))
    failed = grpc.aio.AioRpcError(grpc.StatusCode.NOT_FOUND, grpc.aio.Metadata(), trailing, details="no such thing")

    back = error_from_call(failed)

    assert (ErrorCode.RESOURCE_NOT_FOUND, "NOT_FOUND: no such thing") == (back.code, back.message)
