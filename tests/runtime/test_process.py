"""The order in which a service's process stops: calls end before the work that they need, and it before the rest."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from quorate.errors import Corrupt
from quorate.runtime.calls.health import READINESS
from quorate.runtime.calls.server import Server
from quorate.runtime.calls.transport_settings import TransportSettings, transport_of
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.loop import ServiceLife
from quorate.runtime.process import ServiceProcess
from quorate.runtime.settings.config import load, setting
from quorate.runtime.settings.setting_types import integer

WITHIN_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(TransportSettings):
    node_id: int = setting("node.id", integer(0), "Which one it is.")


def begun() -> tuple[ServiceLife, ServiceProcess, Server]:
    """A process whose server listens on a free port, in the clear."""
    config = load(Config, ["--set=node.id=7", "--set=listeners=PLAINTEXT://127.0.0.1:0"], {})
    life = ServiceLife()
    process = ServiceProcess(life, "placer", config, transport_of(config))
    return life, process, process.server(config)


async def test_calls_end_before_the_work_is_cancelled_and_it_before_what_it_uses_is_closed() -> None:
    life, process, server = begun()
    told = []

    async def tell(what: str) -> None:
        told.append(what)

    async def work() -> None:
        life.stop("its work has begun")
        try:
            await asyncio.Event().wait()
        finally:
            await tell("work ends")

    async def stop() -> None:
        await server.stop(grace_s=0)
        await asyncio.sleep(0)
        await tell("calls have ended")

    async with asyncio.timeout(WITHIN_S):
        await process.serve(server, work, stop=stop, closing=(partial(tell, "first"), partial(tell, "second")))

    assert ["calls have ended", "work ends", "first", "second"] == told


async def test_it_is_ready_once_its_work_says_so_and_takes_no_call_after_the_stop() -> None:
    life, process, server = begun()
    caught_up = asyncio.Event()
    serving = asyncio.create_task(process.serve(server, partial(_ready_after, server, caught_up)))
    async with asyncio.timeout(WITHIN_S), open_channel(f"127.0.0.1:{server.ports[0]}") as channel:
        watching = HealthStub(channel).Watch(HealthCheckRequest(service=READINESS), wait_for_ready=True)
        said = [(await watching.read()).status]
        caught_up.set()
        said.append((await watching.read()).status)
        watching.cancel()
        life.stop("the test asks it to")
        await serving
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await HealthStub(channel).Check(HealthCheckRequest())

    assert [HealthCheckResponse.NOT_SERVING, HealthCheckResponse.SERVING] == said
    assert grpc.StatusCode.UNAVAILABLE == refused.value.code()


@pytest.mark.parametrize("is_told", [False, True])
async def test_what_fails_in_its_work_ends_it_and_so_does_what_is_told_of(is_told: bool) -> None:
    life, process, server = begun()
    damage = Corrupt("the log ends within a batch")

    async def work() -> None:
        if not is_told:
            raise damage
        life.fail(damage)

    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(ExceptionGroup) as ended:
            await process.serve(server, work)
        await life.close()

    assert (damage,) == ended.value.exceptions


async def _ready_after(server: Server, begun: asyncio.Event) -> None:
    await begun.wait()
    await server.set_ready(True)
