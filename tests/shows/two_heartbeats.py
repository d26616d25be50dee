"""The heartbeat service that counts is killed (kill -9) or stopped (SIGSTOP), and the second one counts instead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import grpc

from deploy.local.plan import Process, make_plan
from deploy.local.ports import free_ports
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.errors import ErrorCode
from quorate.liveness import CLAIM_LAPSES_MS
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.statuses import error_from_call
from tests.e2e.calls import eventually
from tests.e2e.cluster import Cluster
from tests.shows.scene import SESSION_S, Scene, under_load
from tests.shows.table import Asked, Row

NAME: Final = "two-heartbeats"
ASK_S: Final = 0.5
LOOK_S: Final = 0.1
HANDED_OVER_S: Final = 4 * CLAIM_LAPSES_MS / 1000
"""Within so long of a process's end the next one counts, or this show says that none does."""


async def show(asked: Asked) -> Row:
    """Nobody is fenced, whichever of the two is gone for however long; how long the next one took is printed."""
    plan = make_plan(asked.directory, session_timeout_ms=round(SESSION_S * 1000), with_gateways=True)
    (port,) = free_ports(1)
    one = plan.heartbeat
    two = replace(one, name="heartbeat-2", port=port)
    two = replace(two, settings={**one.settings, "node.id": "2", "listeners": f"HEARTBEAT://{two.address}"})
    for process in (*plan.controllers, *plan.gateways):
        process.settings["heartbeat.endpoint"] = f"{one.address},{two.address}"
    async with _plane(Cluster(replace(plan, brokers=())), two) as cluster:
        return await under_load(NAME, cluster, asked, lambda scene: _each_is_struck(scene, (one, two)))


@asynccontextmanager
async def _plane(cluster: Cluster, second: Process) -> AsyncIterator[Cluster]:
    """Brokers come to the gateways only: each of these knows both services."""
    try:
        await cluster.start()
        await cluster.running.spawn(second)
        await eventually(lambda: _stands_by(second))
        yield cluster
    finally:
        await cluster.stop()


async def _each_is_struck(scene: Scene, both: tuple[Process, Process]) -> None:
    running = scene.cluster.running
    for seconds in scene.asked.seconds():
        for way in ("is killed, and starts again after", "stands still for"):
            counts = await eventually(lambda: _one_that_counts(both), within_s=HANDED_OVER_S)
            assert counts is not None
            (other,) = (each for each in both if each is not counts)
            async with scene.strike(f"{counts.name}, which counts, {way} {seconds:g} s"):
                if way.startswith("is killed"):
                    await running.kill(counts)
                    await _watch(other, seconds)
                    await running.spawn(counts)
                    await eventually(lambda: _listens(counts))  # noqa: B023  # it is awaited here
                else:
                    async with scene.cluster.stopped(counts):
                        await _watch(other, seconds)


async def _watch(other: Process, seconds: float) -> None:
    """Lets so much time pass, and prints when the other one counted."""
    loop = asyncio.get_running_loop()
    begun_s, taken_s = loop.time(), None
    while (past_s := loop.time() - begun_s) < seconds:
        if taken_s is None and await _counts(other):
            taken_s = loop.time() - begun_s
            print(f"{NAME}: {other.name} counts after {taken_s:.1f} s", flush=True)
        await asyncio.sleep(min(LOOK_S, max(0.0, seconds - past_s)))


async def _one_that_counts(both: tuple[Process, Process]) -> Process | None:
    for each in both:
        if await _counts(each):
            return each
    return None


async def _counts(process: Process) -> bool:
    return await _refusal(process) is ErrorCode.NONE


async def _stands_by(process: Process) -> bool:
    return await _refusal(process) is ErrorCode.NOT_CONTROLLER


async def _listens(process: Process) -> bool:
    return await _refusal(process) in (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER)


async def _refusal(process: Process) -> ErrorCode:
    """Why it does not tell of sessions; NONE if it does."""
    async with open_channel(process.address) as channel:
        try:
            await HeartbeatStub(channel).DescribeSessions(DescribeSessionsRequest(), timeout=ASK_S)
        except grpc.aio.AioRpcError as refused:
            return error_from_call(refused).code
    return ErrorCode.NONE
