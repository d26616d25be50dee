"""One caller that opens streams and leaves them idle takes no service from the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest

from deploy.local.plan import Process
from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster

STREAMS = 500
"""As many as all callers of a server together once had."""
HELD = 250
"""`max.streams.per.ip`."""
STRANGER = "127.0.0.66"
CONNECTIONS = 80
"""Each carries 32 streams (`grpc.max_concurrent_streams`)."""

IDLE = {
    "quorum": ["/kraft.service.Quorum/FetchStream", "/kraft.service.RaftClient/Append"],
    "controller": ["/kraft.service.Controller/AdminStream"],
    "heartbeat": ["/kraft.service.Heartbeat/BrokerHeartbeatStream"],
    "placer": [],
    "observer": [],
}
"""A stream of each purpose that a program serves, besides those of health and reflection."""
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass  # the other end is gone
    finally:
        sink.close()


@asynccontextmanager
async def from_elsewhere(process: Process) -> AsyncIterator[str]:
    """An address by which a process is reached as from another machine's."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(process.place.host, process.port, local_addr=(STRANGER, 0))
        await asyncio.gather(_pipe(reader, there[1]), _pipe(there[0], writer))

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


class Stranger:
    """Opens streams, and says nothing on them."""

    def __init__(self, channels: list[grpc.aio.Channel]) -> None:
        self._channels = channels
        self._calls: list[tuple[str, grpc.aio.Call]] = []

    def open(self, path: str) -> None:
        for place in range(STREAMS):
            channel = self._channels[place % len(self._channels)]
            is_watch = path == WATCH
            call = channel.unary_stream(path)(b"") if is_watch else channel.stream_stream(path)()
            self._calls.append((path, call))

    def held(self) -> Counter[str]:
        return Counter(path for path, call in self._calls if not call.done())

    async def refused(self) -> set[grpc.StatusCode]:
        return {await call.code() for _, call in self._calls if call.done()}

    def close(self) -> None:
        for _, call in self._calls:
            call.cancel()


@asynccontextmanager
async def idle_at(process: Process, paths: list[str]) -> AsyncIterator[Stranger]:
    """A stranger that has as many streams on each path as it is given."""
    async with AsyncExitStack() as open_:
        address = await open_.enter_async_context(from_elsewhere(process))
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [
            await open_.enter_async_context(grpc.aio.insecure_channel(address, options=options))
            for _ in range(CONNECTIONS)
        ]
        stranger = Stranger(channels)
        try:
            for path in paths:
                stranger.open(path)
            yield stranger
        finally:
            stranger.close()


async def test_idle_streams_of_one_caller_leave_the_service_to_the_others(cluster: Cluster) -> None:
    processes = [cluster.quorum(1), cluster.controller(1), cluster.plan.heartbeat, cluster.plan.placer]
    active = await cluster.active()
    processes += [cluster.quorum(active), cluster.controller(active), cluster.plan.observer]
    for process in {each.name: each for each in processes}.values():
        paths = [WATCH, REFLECTION, *IDLE[process.service]]
        async with idle_at(process, paths) as stranger:
            await eventually(lambda: _held(stranger), dict.fromkeys(paths, HELD).__eq__)

            await eventually(lambda process=process: cluster.health(process))
            assert {grpc.StatusCode.RESOURCE_EXHAUSTED} == await stranger.refused(), process.name
            assert 1 == len((await cluster.create(f"during-{process.name}", at=active)).topics)
            for broker in cluster.brokers.values():
                request = BrokerHeartbeatRequest(broker_id=broker.id, broker_epoch=broker.epoch)
                answer = await call_with_retries(cluster.heartbeat_stub.BrokerHeartbeat, request)
                assert not answer.response.is_fenced, (process.name, broker.id)
    for node_id in VOTERS:
        assert (await cluster.find(node_id)).leader_id == active


async def _held(stranger: Stranger) -> dict[str, int]:
    return dict(stranger.held())
