"""Brokers of our own beside a control plane of real processes: their plan, their directories, their starts and ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from deploy.local.own import disks_of, format_broker, planned
from deploy.local.plan import HERE, Process, ProcessHost
from deploy.local.ports import HOST, free_ports
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.nouns import NodeId
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, Cluster, control_plane
from tests.network.certificates import Authority

MODULE: Final = "org.apache.kafka.common.security"
PASSWORD: Final = "of brokers"
SUPER: Final = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:broker"}


def secured(issuer: Authority, store: Path, clear: int, secure: int) -> dict[str, str]:
    """A broker's listeners, ours or Kafka's: in the clear for super users, and SASL_SSL for others and among brokers.

    By PLAIN there are the brokers, and alice, who has no rights.
    """
    name = "listener.name.secure"
    plain = f'{MODULE}.plain.PlainLoginModule required username="broker" password="{PASSWORD}"'
    return {
        **SUPER,
        "listeners": f"PLAINTEXT://{HOST}:{clear},SECURE://{HOST}:{secure}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "inter.broker.listener.name": "SECURE",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"{name}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        f"{name}.plain.sasl.jaas.config": f'{plain} user_broker="{PASSWORD}" user_alice="hers";',
        f"{name}.scram-sha-512.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule required;",
        f"{name}.ssl.keystore.type": "PEM",
        f"{name}.ssl.keystore.location": str(store),
        f"{name}.ssl.truststore.type": "PEM",
        f"{name}.ssl.truststore.location": str(issuer.certificate),
    }


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
        place: Callable[[NodeId], ProcessHost] = lambda _: HERE,
    ) -> None:
        self._cluster = cluster
        ports = iter(free_ports(2 * len(ids)))
        self._processes = {
            each: planned(cluster.plan, each, ports, directories=directories, settings=settings, place=place(each))
            for each in ids
        }

    def __getitem__(self, broker_id: NodeId) -> Process:
        return self._processes[broker_id]

    @property
    def ids(self) -> list[NodeId]:
        return [*self._processes]

    def disks(self, broker_id: NodeId) -> list[Path]:
        return disks_of(self[broker_id])

    def log(self, broker_id: NodeId) -> str:
        """What its processes have written so far."""
        return (self._cluster.plan.directory / f"broker-{broker_id}.log").read_text()

    def format(self, broker_id: NodeId) -> None:
        """Formats the directories, as `quorate storage format` does."""
        format_broker(self._cluster.plan, self[broker_id])

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
