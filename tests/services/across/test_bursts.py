"""More calls at once on one connection than it may have streams: the others wait at the client, and none is refused."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.settings.setting_types import Endpoint, ListenerAddress
from services.quorum.__main__ import RECEIVE_BYTES_MAX
from tests.services.scripted import WITHIN_S, listening

LIMITS: Final = {
    "controller, gateway, heartbeat, placer": ServerLimits(),
    "quorum": ServerLimits(receive_bytes_max=RECEIVE_BYTES_MAX),
    "observer": ServerLimits(connection_age_max_ms=600_000),
}
"""Those that the services give their servers."""
STREAMS: Final = ServerLimits().streams_per_connection_max
CALLS: Final = 6 * STREAMS


class Waiting(PlacerServicer):
    """Answers as many calls as a connection may have together, once all of them are here."""

    def __init__(self) -> None:
        self._together = asyncio.Barrier(STREAMS)

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        await self._together.wait()
        return PlaceResponse()


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
async def test_as_many_calls_as_the_limit_allows_run_at_once_and_none_is_refused(limits: ServerLimits) -> None:
    server = Server(limits=limits)
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, Waiting())
    server.listen_for_probes(ListenerAddress("HEALTH", Endpoint("127.0.0.1", 0)))
    async with (
        asyncio.timeout(WITHIN_S),
        listening(server) as address,
        open_channel(address) as channel,
        open_channel(f"127.0.0.1:{server.probe_port}") as probing,
    ):
        placer, health = PlacerStub(channel), HealthStub(probing)
        placed = await asyncio.gather(*(placer.Place(PlaceRequest()) for _ in range(CALLS)))
        checks = (health.Check(HealthCheckRequest(service="liveness")) for _ in range(CALLS))
        alive = await asyncio.gather(*checks)

    assert [PlaceResponse()] * CALLS == placed
    assert {HealthCheckResponse.SERVING} == {each.status for each in alive}
