"""An observer's process on Kafka controllers, and what it answers to reads."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from deploy.local.ports import HOST, free_ports
from deploy.local.processes import ROOT, STOP_TIMEOUT_S
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest, DescribeClusterResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.observer_pb2_grpc import ObserverStub
from quorate.nouns import Offset
from quorate.runtime.calls.health import READINESS
from tests.e2e.calls import WITHIN_S, call_with_retries, eventually

LOADED = re.compile(r'event="loaded a snapshot" end_offset=(\d+)')


class Observing:
    """The process, its log and its RPCs."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, channel: grpc.aio.Channel) -> None:
        self._process = process
        self._log = log
        self._health = HealthStub(channel)
        self._reads = ObserverStub(channel)

    def says(self, level: str) -> list[str]:
        """The lines of its log at a level that tell of reading the Kafka controllers' log."""
        lines = self._log.read_text().splitlines()
        return [line for line in lines if f"level={level} logger=quorate.kafka_quorum.log" in line]

    def loaded(self) -> list[Offset]:
        """The end offsets of the checkpoints that it has loaded."""
        return [int(each) for each in LOADED.findall(self._log.read_text())]

    def send(self, number: Signals) -> None:
        """Sends a signal after which it lives on."""
        self._process.send_signal(number)

    async def is_ready(self) -> bool:
        """Whether it says so to a probe."""
        check = HealthCheckRequest(service=READINESS)
        found = await self._health.Check(check, timeout=WITHIN_S, wait_for_ready=True)
        return bool(found.status == HealthCheckResponse.SERVING)

    async def ready(self) -> None:
        """Waits until it has applied what is committed. Raises AssertionError with its log if it ends."""

        async def is_ready() -> bool:
            assert self._process.returncode is None, self._log.read_text()
            return await self.is_ready()

        await eventually(is_ready)

    async def cluster(self) -> DescribeClusterResponse:
        """The cluster, as far as it has applied the log."""
        found = await call_with_retries(self._reads.DescribeCluster, DescribeClusterRequest())
        response: DescribeClusterResponse = found.response
        return response

    async def topics(self, *names: str) -> tuple[DescribeTopicPartitionsResponse, int]:
        """Topics, all without names, and the offset that the answer tells of."""
        wanted = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
        found = await call_with_retries(
            self._reads.DescribeTopicPartitions, DescribeTopicPartitionsRequest(topics=wanted)
        )
        return found.response, int(found.trailing["kraft-offset"])


@asynccontextmanager
async def observing(
    directory: Path, controllers: Sequence[str], settings: Mapping[str, str] | None = None
) -> AsyncIterator[Observing]:
    """Starts an observer on these controllers; it listens, and may not be ready yet."""
    (port,) = free_ports(1)
    given = {
        "node.id": "201",
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "bootstrap.controllers": ",".join(controllers),
        **(settings or {}),
    }
    config, log = directory / "observer.properties", directory / "observer.log"
    config.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.observer", "--config", str(config)),
            cwd=ROOT,
            env={**os.environ, "GRPC_VERBOSITY": "ERROR"},
            stdout=output,
            stderr=output,
        )
    try:
        async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
            yield Observing(process, log, channel)
    finally:
        if process.returncode is None:
            process.send_signal(Signals.SIGCONT)
            process.terminate()
        await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
