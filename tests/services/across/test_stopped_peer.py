"""A service whose process stands still (SIGSTOP): calls wait for it, and go elsewhere once its connection is dead."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from deploy.local.ports import free_ports
from deploy.local.processes import ROOT
from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import Client, call, open_channel
from services.placer.servicer import PlacerService
from tests.services.scripted import WITHIN_S, listening

pytestmark = pytest.mark.asyncio

BURST: Final = 3 * ServerLimits().streams_per_connection_max
SHORT_MS: Final = 500
ELSEWHERE_MS: Final = 45_000
"""A dead connection is found after 15 s, by timers of gRPC's; without the timeout of a PING after 60 s and more."""


class Standing:
    """A placer's process that can be stopped and continued."""

    def __init__(self, child: asyncio.subprocess.Process, address: str) -> None:
        self.address = address
        self._child = child

    def stop(self) -> None:
        self._child.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._child.send_signal(signal.SIGCONT)


@pytest_asyncio.fixture
async def placer() -> AsyncIterator[Standing]:
    (port,) = free_ports(1)
    settings = ("node.id=7", f"listeners=PLAINTEXT://127.0.0.1:{port}")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.placer", *(f"--set={each}" for each in settings)),
        cwd=ROOT,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Standing(child, f"127.0.0.1:{port}")
    finally:
        child.kill()
        await child.wait()


async def test_what_was_called_meanwhile_is_answered_when_it_goes_on_and_a_dead_one_is_left(placer: Standing) -> None:
    async def place(**options: Any) -> PlaceResponse:
        return await call(PlacerStub(channel).Place, PlaceRequest(), **options)

    second = Server()
    second.add("kraft.service.Placer", add_PlacerServicer_to_server, PlacerService())
    async with (
        asyncio.timeout(WITHIN_S),
        listening(second) as other,
        open_channel(placer.address) as channel,
    ):
        await PlacerStub(channel).Place(PlaceRequest(), wait_for_ready=True)
        placer.stop()
        burst = [asyncio.ensure_future(place(deadline_ms=WITHIN_S * 1000)) for _ in range(BURST)]
        with pytest.raises(ApiError) as late:
            await place(deadline_ms=SHORT_MS)
        placer.go_on()
        answers = await asyncio.gather(*burst)

        clients = Client((placer.address, other), PlacerStub)
        await clients.call(lambda stub: stub.Place, PlaceRequest(), deadline_ms=WITHIN_S * 1000)
        first = clients.address
        placer.stop()
        answer = await clients.call(lambda stub: stub.Place, PlaceRequest(), deadline_ms=ELSEWHERE_MS)
        found = clients.address
        await clients.close()

    assert ErrorCode.REQUEST_TIMED_OUT is late.value.code
    assert [PlaceResponse()] * BURST == answers
    assert (placer.address, other, PlaceResponse()) == (first, found, answer)
