"""One Kafka controller, or one node of ours with its gateway: alike but for the implementation, to be compared."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from deploy.kafka.node import Node
from deploy.kafka.release import POM
from deploy.local.plan import RELEASE
from deploy.local.ports import HOST, free_ports
from kraft import Uuid
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from quorate.metadata.features import supported_features
from quorate.network.client import Connection, connect
from quorate.nouns import METADATA_TOPIC, Epoch, NodeId
from quorate.random_uuid import random_uuid
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import eventually
from tests.interop.kafka.quorum import SECURITY
from tests.interop.mixed_plan import SESSION_TIMEOUT_MS
from tests.interop.mixed_quorum import ours_first, static_quorum

CLUSTER: Final = "b2YgdGhlIHJlZnVzYWxzIQ"
NODE: Final = 1
QUORUM: Final = DescribeQuorumRequest(
    (DescribeQuorumRequest.TopicData(METADATA_TOPIC, (DescribeQuorumRequest.TopicData.PartitionData(0),)),)
)
Features = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """The only controller of a cluster, which leads: its cluster and directory, its epoch, and a client of it."""

    address: str
    cluster_id: str
    directory_id: Uuid
    epoch: Epoch
    client: Connection

    def registration(
        self, broker_id: NodeId, *, cluster: str | None = None, features: Features | None = None
    ) -> BrokerRegistrationRequest:
        """That of a new process of a broker."""
        known = supported_features() if features is None else features
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self.cluster_id if cluster is None else cluster,
            incarnation_id=random_uuid(),
            listeners=(BrokerRegistrationRequest.Listener("PLAINTEXT", HOST, 9092, 0),),
            features=tuple(BrokerRegistrationRequest.Feature(name, *levels) for name, levels in sorted(known.items())),
            log_dirs=(random_uuid(),),
        )

    async def unfence(self, broker_id: NodeId) -> None:
        """A broker registers, and has replayed all there is."""
        one = self.registration(broker_id)

        async def registered() -> BrokerRegistrationResponse:
            return await self.client.ask_for(BrokerRegistrationResponse, one)

        answer = await eventually(registered, lambda seen: not seen.error_code)
        beat = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=answer.broker_epoch, current_metadata_offset=1 << 40
        )

        async def fenced() -> bool:
            return (await self.client.ask_for(BrokerHeartbeatResponse, beat)).is_fenced

        await eventually(fenced, lambda seen: not seen)

    async def create(self, topic: str, partitions: int) -> None:
        """A topic with one replica of each partition."""
        asked = CreateTopicsRequest.CreatableTopic(topic, partitions, 1)
        answer = await self.client.ask_for(CreateTopicsResponse, CreateTopicsRequest((asked,), 10_000))
        assert not answer.topics[0].error_code, answer


class Start(Protocol):
    """How one of the two is started, in a directory of its own, at a kraft.version."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, directory: Path, kraft_version: int, pom: Path = POM) -> AbstractAsyncContextManager[Alone]: ...


@asynccontextmanager
async def kafka(directory: Path, kraft_version: int, pom: Path = POM) -> AsyncIterator[Alone]:
    """A controller of the release that `pom` names."""
    (port,) = free_ports(1)
    data, at = directory / "data", f"{HOST}:{port}"
    known = {"bootstrap.servers": at} if kraft_version else {"voters": f"{NODE}@{at}"}
    properties = {
        "process.roles": "controller",
        "node.id": NODE,
        "listeners": f"CONTROLLER://{at}",
        "log.dirs": data,
        "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
        **{f"controller.quorum.{name}": value for name, value in known.items()},
    }
    how = ("--release-version", RELEASE, *(("--standalone",) if kraft_version else ()))
    with Node(directory, SECURITY | properties, pom=pom) as node:
        await asyncio.to_thread(node.format, CLUSTER, *how)
        await asyncio.to_thread(node.start().wait_ready)
        async with _asked(at, data) as asked:
            yield asked


@asynccontextmanager
async def ours(directory: Path, kraft_version: int, pom: Path = POM) -> AsyncIterator[Alone]:
    """One node of ours with its gateway."""
    start = ours_first if kraft_version else static_quorum
    async with (
        start(directory, ours=1, kafkas=0) as quorum,
        _asked(quorum.kafka_address(NODE), quorum.data(NODE)) as asked,
    ):
        yield asked


@asynccontextmanager
async def _asked(address: str, data: Path) -> AsyncIterator[Alone]:
    meta = read_meta_properties(data)
    assert meta is not None, data
    assert meta.directory_id is not None, meta
    host, _, port = address.rpartition(":")
    async with await connect(host, int(port)) as client:

        async def epoch() -> int:
            told = await client.ask_for(DescribeQuorumResponse, QUORUM)
            return told.topics[0].partitions[0].leader_epoch if told.topics else 0

        yield Alone(
            address=address,
            cluster_id=meta.cluster_id,
            directory_id=meta.directory_id,
            epoch=await eventually(epoch, lambda seen: seen > 0),
            client=client,
        )
