"""What nobody should ask of a controller: of another cluster, with an id that is taken, without a directory id.

A gateway of ours and a controller of the newest release refuse it with the same errors, at kraft.version 0 and 1, and
nothing changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

pytest.register_assert_rewrite("tests.interop.mixed_quorum", "tests.e2e.cluster")

from deploy.kafka.node import Node  # noqa: E402  # assertions of the helpers tell values from here on
from deploy.local.ports import HOST, free_ports  # noqa: E402
from kraft import Message, Uuid  # noqa: E402
from kraft.api.add_raft_voter import AddRaftVoterRequest  # noqa: E402
from kraft.api.begin_quorum_epoch import BeginQuorumEpochRequest  # noqa: E402
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse  # noqa: E402
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse  # noqa: E402
from kraft.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse  # noqa: E402
from kraft.api.end_quorum_epoch import EndQuorumEpochRequest  # noqa: E402
from kraft.api.fetch import FetchRequest  # noqa: E402
from kraft.api.fetch_snapshot import FetchSnapshotRequest  # noqa: E402
from kraft.api.remove_raft_voter import RemoveRaftVoterRequest  # noqa: E402
from kraft.api.update_raft_voter import UpdateRaftVoterRequest  # noqa: E402
from kraft.api.vote import VoteRequest  # noqa: E402
from quorate.errors import ErrorCode  # noqa: E402
from quorate.metadata.features import supported_features  # noqa: E402
from quorate.network.client import Connection, connect  # noqa: E402
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID  # noqa: E402
from quorate.random_uuid import random_uuid  # noqa: E402
from quorate.storage.meta_properties import read_meta_properties  # noqa: E402
from tests.e2e.calls import eventually  # noqa: E402
from tests.interop.kafka.quorum import SECURITY  # noqa: E402
from tests.interop.kafka.release import OPERATIONS_POM, absent  # noqa: E402
from tests.interop.mixed_quorum import ours_first, static_quorum  # noqa: E402

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(600),
]

CLUSTER: Final = "b2YgdGhlIHJlZnVzYWxzIQ"
ANOTHER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
NODE: Final = 1
BROKER, NOBODY = 101, 102
BYTES: Final = 1 << 20
QUORUM: Final = DescribeQuorumRequest(
    (DescribeQuorumRequest.TopicData(METADATA_TOPIC, (DescribeQuorumRequest.TopicData.PartitionData(0),)),)
)
Features = Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The only controller of a cluster, which leads: its cluster and directory, its epoch, and a client of it."""

    cluster_id: str
    directory_id: Uuid
    epoch: int
    client: Connection

    # What is asked of brokers.

    def registration(
        self, broker_id: int = NOBODY, *, cluster: str | None = None, features: Features | None = None
    ) -> BrokerRegistrationRequest:
        known = supported_features() if features is None else features
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=self.cluster_id if cluster is None else cluster,
            incarnation_id=random_uuid(),
            listeners=(BrokerRegistrationRequest.Listener("PLAINTEXT", HOST, 9092, 0),),
            features=tuple(BrokerRegistrationRequest.Feature(name, *levels) for name, levels in sorted(known.items())),
            log_dirs=(random_uuid(),),
        )

    # What is asked of voters.

    def fetch(self, cluster: str) -> FetchRequest:
        partition = FetchRequest.FetchTopic.FetchPartition(
            current_leader_epoch=self.epoch, last_fetched_epoch=0, partition_max_bytes=BYTES
        )
        topic = FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        return FetchRequest(cluster_id=cluster, topics=(topic,), max_bytes=BYTES)

    def snapshot(self, cluster: str) -> FetchSnapshotRequest:
        partition = FetchSnapshotRequest.TopicSnapshot.PartitionSnapshot(current_leader_epoch=self.epoch)
        topic = FetchSnapshotRequest.TopicSnapshot(METADATA_TOPIC, (partition,))
        return FetchSnapshotRequest(cluster_id=cluster, topics=(topic,), max_bytes=BYTES)

    def vote(
        self, cluster: str, *, asks: int = NODE, of: Uuid | None = None, by: int = 2, epoch: int = 0
    ) -> VoteRequest:
        partition = VoteRequest.TopicData.PartitionData(
            replica_epoch=self.epoch + epoch,
            replica_id=by,
            replica_directory_id=ANY,
            voter_directory_id=self.directory_id if of is None else of,
        )
        return VoteRequest(cluster, asks, (VoteRequest.TopicData(METADATA_TOPIC, (partition,)),))

    def begin(self, cluster: str, *, asks: int = NODE) -> BeginQuorumEpochRequest:
        topic = BeginQuorumEpochRequest.TopicData
        partition = topic.PartitionData(0, self.directory_id, NODE, self.epoch)
        endpoint = BeginQuorumEpochRequest.LeaderEndpoint("CONTROLLER", HOST, 1)
        return BeginQuorumEpochRequest(cluster, asks, (topic(METADATA_TOPIC, (partition,)),), (endpoint,))

    def end(self, cluster: str) -> EndQuorumEpochRequest:
        topic = EndQuorumEpochRequest.TopicData
        return EndQuorumEpochRequest(cluster, (topic(METADATA_TOPIC, (topic.PartitionData(0, NODE, self.epoch),)),))

    def add(self, voter_id: int = 2, directory: Uuid | None = None, **fields: Any) -> AddRaftVoterRequest:
        listener = AddRaftVoterRequest.Listener("CONTROLLER", HOST, 1)
        given = {"cluster_id": self.cluster_id, "listeners": (listener,), "timeout_ms": 1_000, **fields}
        return AddRaftVoterRequest(
            voter_id=voter_id, voter_directory_id=ANY if directory is None else directory, **given
        )

    def remove(self, voter_id: int, directory: Uuid, cluster: str | None = None) -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(self.cluster_id if cluster is None else cluster, voter_id, directory)

    def update(self, voter_id: int, directory: Uuid, **fields: Any) -> UpdateRaftVoterRequest:
        listener = UpdateRaftVoterRequest.Listener("CONTROLLER", HOST, 1)
        given = {"cluster_id": self.cluster_id, "listeners": (listener,), "current_leader_epoch": self.epoch, **fields}
        return UpdateRaftVoterRequest(
            voter_id=voter_id,
            voter_directory_id=directory,
            k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(0, 1),
            **given,
        )

    async def unfence(self) -> None:
        """A broker registers, and has replayed all there is."""
        one = self.registration(BROKER)

        async def registered() -> BrokerRegistrationResponse:
            return await self.client.ask_for(BrokerRegistrationResponse, one)

        answer = await eventually(registered, lambda seen: not seen.error_code)
        beat = BrokerHeartbeatRequest(
            broker_id=BROKER, broker_epoch=answer.broker_epoch, current_metadata_offset=1 << 40
        )

        async def fenced() -> bool:
            return (await self.client.ask_for(BrokerHeartbeatResponse, beat)).is_fenced

        await eventually(fenced, lambda seen: not seen)

    async def seen(self) -> object:
        """Who leads in which epoch, who votes, and how the broker is registered, and nobody else."""
        told = await self.client.ask_for(DescribeQuorumResponse, QUORUM)
        part = told.topics[0].partitions[0]
        voters = [(each.replica_id, each.replica_directory_id) for each in part.current_voters]
        return part.leader_id, part.leader_epoch, voters, await self._heard(BROKER), await self._heard(NOBODY)

    async def _heard(self, broker_id: int) -> ErrorCode:
        beat = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=1 << 40, current_metadata_offset=0)
        return ErrorCode((await self.client.ask_for(BrokerHeartbeatResponse, beat)).error_code)


ANY: Final = random_uuid()
"""A directory that nobody has."""
ASKED: Final[Mapping[str, Callable[[Asked], Message]]] = {
    "broker of another cluster": lambda to: to.registration(cluster=ANOTHER),
    "broker without a cluster": lambda to: to.registration(cluster=""),
    "broker with the id of one that runs": lambda to: to.registration(BROKER),
    "broker too old for the level": lambda to: to.registration(
        features={**supported_features(), "metadata.version": (7, 7)}
    ),
    "broker that names no level": lambda to: to.registration(features={}),
    "fetch of another cluster": lambda to: to.fetch(ANOTHER),
    "snapshot of another cluster": lambda to: to.snapshot(ANOTHER),
    "vote of another cluster": lambda to: to.vote(ANOTHER, epoch=1),
    "vote of another voter": lambda to: to.vote(to.cluster_id, asks=7),
    "vote of another directory": lambda to: to.vote(to.cluster_id, of=ANY),
    "vote for the id that is asked": lambda to: to.vote(to.cluster_id, by=NODE),
    "vote of an epoch that is over": lambda to: to.vote(to.cluster_id, epoch=-1),
    "begin of another cluster": lambda to: to.begin(ANOTHER),
    "end of another cluster": lambda to: to.end(ANOTHER),
    "add in another cluster": lambda to: to.add(cluster_id=ANOTHER),
    "add without a directory": lambda to: to.add(directory=ZERO_UUID),
    "add with an id that votes": lambda to: to.add(NODE),
    "add without a listener": lambda to: to.add(listeners=()),
    "add with another listener": lambda to: to.add(listeners=(AddRaftVoterRequest.Listener("OTHER", HOST, 1),)),
    "remove in another cluster": lambda to: to.remove(2, ANY, ANOTHER),
    "remove without a directory": lambda to: to.remove(NODE, ZERO_UUID),
    "remove of no voter": lambda to: to.remove(2, ANY),
    "remove of another directory": lambda to: to.remove(NODE, ANY),
    "remove of the only voter": lambda to: to.remove(NODE, to.directory_id),
    "update in another cluster": lambda to: to.update(2, ANY, cluster_id=ANOTHER),
    "update without a directory": lambda to: to.update(2, ZERO_UUID),
    "update of no voter": lambda to: to.update(2, ANY),
    "update of another directory": lambda to: to.update(NODE, ANY),
    "update without a listener": lambda to: to.update(NODE, to.directory_id, listeners=()),
    "update in an epoch that is over": lambda to: to.update(2, ANY, current_leader_epoch=0),
}
FROM_VERSION_1: Final = ("update of another directory", "update without a listener")
"""A Kafka's controller at kraft.version 0 ends its process when it is asked to update the leader as somebody else."""
OURS: Final = {"vote for the id that is asked": ["NONE", "INVALID_REQUEST"]}
"""Another process runs with the id of this node. A Kafka's leader gives it no vote, and has no error for it."""


@pytest.mark.parametrize("kraft_version", [0, 1])
async def test_a_gateway_refuses_what_a_controller_of_kafka_does_and_nothing_changes(
    tmp_path: Path, kraft_version: int
) -> None:
    found = {}
    for door in (kafka, ours):
        async with door(tmp_path / door.__name__, kraft_version) as asked:
            before = await asked.seen()
            found[door] = {
                what: [each.name for each in codes(await asked.client.ask(made(asked)))]
                for what, made in ASKED.items()
                if kraft_version or what not in FROM_VERSION_1
            }
            assert before == await asked.seen()

    assert found[kafka] | OURS == found[ours]
    assert [] == [what for what, names in found[ours].items() if {"NONE"} == {*names}]


def codes(answer: object) -> Iterator[ErrorCode]:
    """The error codes of an answer, those of its parts after its own."""
    for name in getattr(answer, "__struct_fields__", ()):
        value = getattr(answer, name)
        if name == "error_code":
            yield ErrorCode(value)
        for part in value if isinstance(value, tuple) else (value,):
            yield from codes(part)


@asynccontextmanager
async def kafka(directory: Path, kraft_version: int) -> AsyncIterator[Asked]:
    """A controller of the newest release."""
    (port,) = free_ports(1)
    data, at = directory / "data", f"{HOST}:{port}"
    known = {"bootstrap.servers": at} if kraft_version else {"voters": f"{NODE}@{at}"}
    properties = {
        "process.roles": "controller",
        "node.id": NODE,
        "listeners": f"CONTROLLER://{at}",
        "log.dirs": data,
        **{f"controller.quorum.{name}": value for name, value in known.items()},
    }
    with Node(directory, SECURITY | properties, pom=OPERATIONS_POM) as node:
        await asyncio.to_thread(node.format, CLUSTER, *(("--standalone",) if kraft_version else ()))
        await asyncio.to_thread(node.start().wait_ready)
        async with asked_at(at, data) as asked:
            yield asked


@asynccontextmanager
async def ours(directory: Path, kraft_version: int) -> AsyncIterator[Asked]:
    """One node of ours with its gateway."""
    start = ours_first if kraft_version else static_quorum
    async with (
        start(directory, ours=1, kafkas=0) as quorum,
        asked_at(quorum.kafka_address(NODE), quorum.data(NODE)) as asked,
    ):
        yield asked


@asynccontextmanager
async def asked_at(address: str, data: Path) -> AsyncIterator[Asked]:
    """A client of a controller, where a broker has registered."""
    meta = read_meta_properties(data)
    assert meta is not None, data
    assert meta.directory_id is not None, meta
    host, _, port = address.rpartition(":")
    async with await connect(host, int(port)) as client:

        async def epoch() -> int:
            told = await client.ask_for(DescribeQuorumResponse, QUORUM)
            return told.topics[0].partitions[0].leader_epoch if told.topics else 0

        asked = Asked(
            cluster_id=meta.cluster_id,
            directory_id=meta.directory_id,
            epoch=await eventually(epoch, lambda seen: seen > 0),
            client=client,
        )

        await asked.unfence()
        yield asked
