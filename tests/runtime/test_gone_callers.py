"""Callers that have gone before they are answered: no fault of the server's, and not a word in its log."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from kraft.service.quorum_pb2 import ListenRequest, ListenResponse
from kraft.service.quorum_pb2_grpc import RaftClientServicer, RaftClientStub, add_RaftClientServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.logging.logs import start_logs
from tests.e2e.calls import eventually

GONE_AFTER_S = 0.1
BUSY_S = 0.4
"""How long the server's loop is held, so that it hears of the end of the call only when it answers."""
CLIENTS, STREAMS = 4, 20


class Busy(PlacerServicer):
    """Answers when the caller has gone."""

    def __init__(self, how: str) -> None:
        self._how = how

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        time.sleep(BUSY_S)  # noqa: ASYNC251  # holds the loop, as a long decision does
        if self._how == "refused":
            raise ApiError(ErrorCode.INVALID_REQUEST, "no")
        if self._how == "aborted":
            await context.abort(grpc.StatusCode.NOT_FOUND)
        return PlaceResponse()


class Events(RaftClientServicer):
    """Streams large events for ever, and holds the loop for a while now and then."""

    def __init__(self) -> None:
        self._ended = 0

    async def Listen(self, request: ListenRequest, context: Any) -> AsyncIterator[ListenResponse]:
        event = ListenResponse(batches=ListenResponse.Batches(records=bytes(100_000)))
        try:
            for number in itertools.count():
                if not number % 20:
                    time.sleep(0.02)  # noqa: ASYNC251  # as above
                yield event
        finally:
            self._ended += 1

    async def are_over(self) -> bool:
        """Whether each stream that a client has begun is closed here, too."""
        return self._ended == CLIENTS * STREAMS


def listen_and_go(port: int) -> None:
    """Twenty streams on a channel, cancelled while the server writes to them."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls = [RaftClientStub(channel).Listen(ListenRequest()) for _ in range(STREAMS)]
        for call in calls:
            next(call)
        time.sleep(GONE_AFTER_S)
        for call in calls:
            call.cancel()


def ask_and_go(port: int) -> None:
    """One call, cancelled while the server is busy with it; from a thread with a loop of its own."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = PlacerStub(channel).Place.future(PlaceRequest())
        time.sleep(GONE_AFTER_S)
        call.cancel()
        time.sleep(BUSY_S)


@pytest.mark.parametrize("how", ["refused", "aborted", "answered"])
async def test_who_has_gone_leaves_no_traceback(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    start_logs({})
    server = Server()
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, Busy(how))
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with asyncio.TaskGroup() as callers:
        for _ in range(8):
            callers.create_task(asyncio.to_thread(ask_and_go, port))
    await server.stop(grace_s=1)
    written = capsys.readouterr()

    assert "Traceback" not in written.out + written.err
    assert "error" not in written.out + written.err


async def test_who_leaves_a_stream_while_it_is_written_leaves_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """Often enough, among eighty streams, gRPC sees a write fail before it hears that the caller has gone."""
    start_logs({})
    server, events = Server(), Events()
    server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, events)
    port = server.listen("127.0.0.1:0")
    await server.start()
    for _ in range(CLIENTS):
        await asyncio.to_thread(listen_and_go, port)
    await eventually(events.are_over)
    await server.stop(grace_s=1)
    written = capsys.readouterr()

    assert "Traceback" not in written.out + written.err
    assert "error" not in written.out + written.err
