"""An observer that is asked to stop: calls under way are served as before, by a replica that goes on, and traced."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import add_TraceServiceServicer_to_server

from deploy.local.ports import free_ports
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from quorate.nouns import Offset
from quorate.runtime.calls.health import READINESS
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.loop import ExitCode
from quorate.runtime.settings.stop_settings import STOP_TIMEOUT
from services.observer.otlp import TRACE_SERVICE, TraceServicer
from services.observer.spans import SpanStore
from tests.runtime.test_log_reader import node
from tests.services.nodes import write
from tests.services.scripted import LOOPBACK, WITHIN_S, listening

METHOD = "kraft.service.Observer/DescribeTopicPartitions"
READS = 20
"""How many are under way when it is asked to stop."""
POLL_S = 0.05
"""The pause between them: together they take less than the time that calls under way are given, which is 5 s."""
ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


class Read:
    """A read that has begun, and whose request is not sent yet."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call: Any = channel.stream_unary(
            f"/{METHOD}",
            request_serializer=DescribeTopicPartitionsRequest.SerializeToString,
            response_deserializer=DescribeTopicPartitionsResponse.FromString,
        )()

    async def end(self) -> Offset:
        """Sends the request; the answer is the offset of the state that was read."""
        await self._call.write(DescribeTopicPartitionsRequest())
        await self._call.done_writing()
        await self._call
        metadata = dict(await self._call.trailing_metadata())
        return Offset(metadata["kraft-offset"])

    def cancel(self) -> None:
        self._call.cancel()


@asynccontextmanager
async def observing(
    log: str, port: int, traces: str, *, database: str = "sqlite://", **more: str
) -> AsyncIterator[Process]:
    """An observer's process, which ends within the block; `more` are settings."""
    settings = {
        "node.id": "201",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.bootstrap.servers": log,
        "observer.fetch.from.any": "false",
        "observer.database.url": database,
        **more,
    }
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("QUORATE_", "OTEL_"))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.observer"),
        *(f"--set={key}={value}" for key, value in settings.items()),
        env={**environ, ENDPOINT: f"http://{traces}"},
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Readiness:
    """The observer's readiness, as it says by itself."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._watching: Any = HealthStub(channel).Watch(HealthCheckRequest(service=READINESS), wait_for_ready=True)

    async def becomes(self, status: HealthCheckResponse.ServingStatus) -> None:
        async for each in self._watching:
            if each.status == status:
                return

    def cancel(self) -> None:
        self._watching.cancel()


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[SpanStore, str]]:
    """What spans are sent to, and its address."""
    store, server = SpanStore(), Server()
    server.add(TRACE_SERVICE, add_TraceServiceServicer_to_server, TraceServicer(store))
    async with listening(server) as address:
        yield store, address
    await store.close()


async def test_a_read_while_it_stops_is_answered_by_a_replica_that_goes_on_and_is_traced(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with (
        node(tmp_path) as (driver, log),
        collector() as (store, traces),
        observing(log, port, traces) as process,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        ready = Readiness(channel)
        await ready.becomes(HealthCheckResponse.SERVING)
        reads = [Read(channel) for _ in range(READS)]
        offsets = [await Read(channel).end()]  # the others, before it on the same connection, are under way by now
        process.terminate()
        await ready.becomes(HealthCheckResponse.NOT_SERVING)
        ready.cancel()
        end = await write(driver)
        while reads and offsets[-1] < end:
            await asyncio.sleep(POLL_S)
            offsets.append(await reads.pop().end())
        for read in reads:
            read.cancel()
        code = await process.wait()
        await store.flush()
        traced = await store.traces(METHOD, READS + 1)

    assert (ExitCode.STOPPED, end) == (code, offsets[-1])
    assert len(offsets) == len(traced)


async def test_an_observer_that_keeps_its_own_spans_has_those_of_before_its_stop(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"sqlite:///{tmp_path / 'spans.db'}"
    async with (
        node(tmp_path) as (_, log),
        observing(log, port, f"127.0.0.1:{port}", database=url) as process,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        ready = Readiness(channel)
        await ready.becomes(HealthCheckResponse.SERVING)
        ready.cancel()
        await Read(channel).end()
        process.terminate()
        _, told = await process.communicate()
        store = SpanStore(url)
        traced = await store.traces(METHOD)
        await store.close()

    assert (ExitCode.STOPPED, 1) == (process.returncode, len(traced))
    assert b"could not be sent" not in told


async def test_spans_that_nobody_takes_have_no_more_than_the_time_of_its_stop(tmp_path: Path) -> None:
    """Their server takes connections, and answers nothing."""
    (port,) = free_ports(1)
    silent = await asyncio.start_server(lambda *_: None, LOOPBACK, 0)
    traces = f"{LOOPBACK}:{silent.sockets[0].getsockname()[1]}"
    async with (
        node(tmp_path) as (_, log),
        observing(log, port, traces, **{STOP_TIMEOUT: "200"}) as process,
        open_channel(f"127.0.0.1:{port}") as channel,
    ):
        ready = Readiness(channel)
        await ready.becomes(HealthCheckResponse.SERVING)
        ready.cancel()
        await Read(channel).end()
        process.terminate()
        _, told = await process.communicate()
    silent.close()
    lost = [line for line in told.decode().splitlines() if "the last spans could not be sent" in line]

    assert (ExitCode.STOPPED, 1) == (process.returncode, len(lost))
    assert lost[0].endswith("timeout_s=0.2")
