"""Callers that have gone before they are answered: no fault of the server's, and not a word in its log."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import pytest

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.logs import start_logs
from quorate.runtime.server import Server

GONE_AFTER_S = 0.1
BUSY_S = 0.4
"""How long the server's loop is held, so that it hears of the end of the call only when it answers."""


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
