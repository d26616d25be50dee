"""Readiness of a gateway: it is that of the controller beside it, which answers nearly all that is asked here."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from quorate.runtime.calls.health import READINESS
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.connections.transport import Transport

LOOK_AGAIN_S: Final = 0.5
DEADLINE_S: Final = 1.0


async def follow(controller: str, transport: Transport, server: Server) -> None:
    """Sets the server's readiness to that of the controller at this address (`host:port`), until cancelled.

    It asks the controller's health service each `LOOK_AGAIN_S`; without an answer the server is not ready.
    """
    async with open_channel(controller, transport) as channel:
        stub = HealthStub(channel)
        while True:
            await server.set_ready(await _is_ready(stub))
            await asyncio.sleep(LOOK_AGAIN_S)


async def _is_ready(controller: HealthStub) -> bool:
    try:
        answer = await controller.Check(HealthCheckRequest(service=READINESS), timeout=DEADLINE_S)
    except grpc.aio.AioRpcError:
        return False
    return bool(answer.status == HealthCheckResponse.SERVING)
