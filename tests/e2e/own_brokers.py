"""Brokers of our own beside a control plane of real processes: their plan, their directories, their starts and ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deploy.local.plan import STOP_MS, Process
from deploy.local.ports import HOST, free_ports
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from quorate.cli import formatting
from quorate.cli.node_config import read_node_config
from quorate.nouns import NodeId
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster, control_plane


@asynccontextmanager
async def plane_without_brokers(directory: Path) -> AsyncIterator[Cluster]:
    """A control plane that waits for brokers of our own; their sessions last 3 s."""
    async with control_plane(
        directory, session_timeout_ms=3_000, quorum_settings=PATIENT, with_stand_ins=False
    ) as running:
        yield running


class OwnBrokers:
    """Brokers of one cluster. Each has a directory, or several, below the cluster's."""

    def __init__(
        self,
        cluster: Cluster,
        ids: Sequence[NodeId] = (101, 102, 103),
        *,
        directories: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster = cluster
        plan = cluster.plan
        ports = iter(free_ports(2 * len(ids)))
        self._processes = {}
        for broker_id in ids:
            home = plan.directory / f"broker-{broker_id}"
            health = next(ports)
            own = {
                "process.roles": "broker",
                "node.id": str(broker_id),
                "log.dirs": ",".join(str(home / f"disk-{number}") for number in range(1, directories + 1)),
                "listeners": f"PLAINTEXT://{HOST}:{next(ports)}",
                "health.listeners": f"HEALTH://{HOST}:{health}",
                "controller.quorum.bootstrap.servers": ",".join(each.address for each in plan.quorum),
                "controller.endpoints": ",".join(each.address for each in plan.controllers),
                "heartbeat.endpoint": plan.heartbeat.address,
                "broker.heartbeat.interval.ms": "500",
                "shutdown.graceful.timeout.ms": STOP_MS,
                "grpc.security.protocol": "PLAINTEXT",
                **(settings or {}),
            }
            self._processes[broker_id] = Process(
                service="broker", name=f"broker-{broker_id}", port=health, settings=own
            )

    def __getitem__(self, broker_id: NodeId) -> Process:
        return self._processes[broker_id]

    @property
    def ids(self) -> list[NodeId]:
        return [*self._processes]

    def disks(self, broker_id: NodeId) -> list[Path]:
        return [Path(each) for each in self[broker_id].settings["log.dirs"].split(",")]

    def log(self, broker_id: NodeId) -> str:
        """What its processes have written so far."""
        return (self._cluster.plan.directory / f"broker-{broker_id}.log").read_text()

    def format(self, broker_id: NodeId) -> None:
        """Formats the directories, as `quorate storage format` does."""
        for disk in self.disks(broker_id):
            disk.mkdir(parents=True, exist_ok=True)
        config = self._cluster.plan.directory / f"broker-{broker_id}.format.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self[broker_id].settings.items()))
        asked = formatting.FormatOptions(cluster_id=self._cluster.plan.cluster_id, ignore_formatted=True)
        formatting.write(formatting.plan(asked, read_node_config(config)), timestamp_ms=0)

    async def start(self, *ids: NodeId) -> None:
        """Starts these, or all; each is unfenced at the end."""
        chosen = ids or tuple(self.ids)
        for broker_id in chosen:
            if not (self.disks(broker_id)[0] / "meta.properties").exists():
                self.format(broker_id)
            await self._cluster.running.spawn(self[broker_id])
        await self._cluster.running.ready([self[each] for each in chosen])

    async def stop(self, *ids: NodeId) -> None:
        """Ends these, or all, in order, at the same time."""
        ended = await asyncio.gather(*(self.kill(each, signal.SIGTERM) for each in ids or self.ids))

        assert [0] * len(ended) == ended

    async def kill(self, broker_id: NodeId, number: signal.Signals = signal.SIGKILL) -> int:
        return await self._cluster.running.kill(self[broker_id], number)

    async def registered(self) -> dict[NodeId, Any]:
        """The brokers that the controllers know and do not fence, by id."""
        request = DescribeClusterRequest(endpoint_type=1)
        answer = await call_with_retries(self._cluster.controller_stub(1).DescribeCluster, request)
        return {each.broker_id: each for each in answer.response.brokers}

    async def unfenced(self, *ids: NodeId) -> None:
        """Waits until these and no others are unfenced."""
        await eventually(self.registered, lambda seen: set(seen) == set(ids))
