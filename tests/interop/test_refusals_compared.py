"""What nobody should ask of a controller: of another cluster, with an id that is taken, without a directory id.

A gateway of ours and a controller of the newest release refuse it with the same errors, at kraft.version 0 and 1, and
nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local.ports import HOST
from kraft import Message, Uuid
from kraft.api.add_raft_voter import AddRaftVoterRequest
from kraft.api.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.describe_quorum import DescribeQuorumResponse
from kraft.api.end_quorum_epoch import EndQuorumEpochRequest
from kraft.api.fetch import FetchRequest
from kraft.api.fetch_snapshot import FetchSnapshotRequest
from kraft.api.remove_raft_voter import RemoveRaftVoterRequest
from kraft.api.update_raft_voter import UpdateRaftVoterRequest
from kraft.api.vote import VoteRequest
from quorate.errors import ErrorCode
from quorate.metadata.features import supported_features
from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID
from quorate.random_uuid import random_uuid
from tests.interop.alone import NODE, QUORUM, Alone, Start, kafka, ours
from tests.interop.kafka.release import OPERATIONS_POM, absent

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
    pytest.mark.timeout(600),
]

ANOTHER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
BROKER, NOBODY = 101, 102
BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the only controller of a cluster."""

    of: Alone

    # What is asked of voters.

    def fetch(self, cluster: str) -> FetchRequest:
        partition = FetchRequest.FetchTopic.FetchPartition(
            current_leader_epoch=self.of.epoch, last_fetched_epoch=0, partition_max_bytes=BYTES
        )
        topic = FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        return FetchRequest(cluster_id=cluster, topics=(topic,), max_bytes=BYTES)

    def snapshot(self, cluster: str) -> FetchSnapshotRequest:
        partition = FetchSnapshotRequest.TopicSnapshot.PartitionSnapshot(current_leader_epoch=self.of.epoch)
        topic = FetchSnapshotRequest.TopicSnapshot(METADATA_TOPIC, (partition,))
        return FetchSnapshotRequest(cluster_id=cluster, topics=(topic,), max_bytes=BYTES)

    def vote(
        self, cluster: str, *, asks: int = NODE, of: Uuid | None = None, by: int = 2, epoch: int = 0
    ) -> VoteRequest:
        partition = VoteRequest.TopicData.PartitionData(
            replica_epoch=self.of.epoch + epoch,
            replica_id=by,
            replica_directory_id=ANY,
            voter_directory_id=self.of.directory_id if of is None else of,
        )
        return VoteRequest(cluster, asks, (VoteRequest.TopicData(METADATA_TOPIC, (partition,)),))

    def begin(self, cluster: str, *, asks: int = NODE) -> BeginQuorumEpochRequest:
        topic = BeginQuorumEpochRequest.TopicData
        partition = topic.PartitionData(0, self.of.directory_id, NODE, self.of.epoch)
        endpoint = BeginQuorumEpochRequest.LeaderEndpoint("CONTROLLER", HOST, 1)
        return BeginQuorumEpochRequest(cluster, asks, (topic(METADATA_TOPIC, (partition,)),), (endpoint,))

    def end(self, cluster: str) -> EndQuorumEpochRequest:
        topic = EndQuorumEpochRequest.TopicData
        return EndQuorumEpochRequest(cluster, (topic(METADATA_TOPIC, (topic.PartitionData(0, NODE, self.of.epoch),)),))

    def add(self, voter_id: int = 2, directory: Uuid | None = None, **fields: Any) -> AddRaftVoterRequest:
        listener = AddRaftVoterRequest.Listener("CONTROLLER", HOST, 1)
        given = {"cluster_id": self.of.cluster_id, "listeners": (listener,), "timeout_ms": 1_000, **fields}
        return AddRaftVoterRequest(
            voter_id=voter_id, voter_directory_id=ANY if directory is None else directory, **given
        )

    def remove(self, voter_id: int, directory: Uuid, cluster: str | None = None) -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(self.of.cluster_id if cluster is None else cluster, voter_id, directory)

    def update(self, voter_id: int, directory: Uuid, **fields: Any) -> UpdateRaftVoterRequest:
        listener = UpdateRaftVoterRequest.Listener("CONTROLLER", HOST, 1)
        given = {
            "cluster_id": self.of.cluster_id,
            "listeners": (listener,),
            "current_leader_epoch": self.of.epoch,
            **fields,
        }
        return UpdateRaftVoterRequest(
            voter_id=voter_id,
            voter_directory_id=directory,
            k_raft_version_feature=UpdateRaftVoterRequest.KRaftVersionFeature(0, 1),
            **given,
        )

    async def seen(self) -> object:
        """Who leads in which epoch, who votes, and how the broker is registered, and nobody else."""
        told = await self.of.client.ask_for(DescribeQuorumResponse, QUORUM)
        part = told.topics[0].partitions[0]
        voters = [(each.replica_id, each.replica_directory_id) for each in part.current_voters]
        return part.leader_id, part.leader_epoch, voters, await self._heard(BROKER), await self._heard(NOBODY)

    async def _heard(self, broker_id: int) -> ErrorCode:
        beat = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=1 << 40, current_metadata_offset=0)
        return ErrorCode((await self.of.client.ask_for(BrokerHeartbeatResponse, beat)).error_code)


ANY: Final = random_uuid()
"""A directory that nobody has."""
ASKED: Final[Mapping[str, Callable[[Asked], Message]]] = {
    "broker of another cluster": lambda to: to.of.registration(NOBODY, cluster=ANOTHER),
    "broker without a cluster": lambda to: to.of.registration(NOBODY, cluster=""),
    "broker with the id of one that runs": lambda to: to.of.registration(BROKER),
    "broker too old for the level": lambda to: to.of.registration(
        NOBODY, features={**supported_features(), "metadata.version": (7, 7)}
    ),
    "broker that names no level": lambda to: to.of.registration(NOBODY, features={}),
    "fetch of another cluster": lambda to: to.fetch(ANOTHER),
    "snapshot of another cluster": lambda to: to.snapshot(ANOTHER),
    "vote of another cluster": lambda to: to.vote(ANOTHER, epoch=1),
    "vote of another voter": lambda to: to.vote(to.of.cluster_id, asks=7),
    "vote of another directory": lambda to: to.vote(to.of.cluster_id, of=ANY),
    "vote for the id that is asked": lambda to: to.vote(to.of.cluster_id, by=NODE),
    "vote of an epoch that is over": lambda to: to.vote(to.of.cluster_id, epoch=-1),
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
    "remove of the only voter": lambda to: to.remove(NODE, to.of.directory_id),
    "update in another cluster": lambda to: to.update(2, ANY, cluster_id=ANOTHER),
    "update without a directory": lambda to: to.update(2, ZERO_UUID),
    "update of no voter": lambda to: to.update(2, ANY),
    "update of another directory": lambda to: to.update(NODE, ANY),
    "update without a listener": lambda to: to.update(NODE, to.of.directory_id, listeners=()),
    "update in an epoch that is over": lambda to: to.update(2, ANY, current_leader_epoch=0),
}
FROM_VERSION_1: Final = ("update of another directory", "update without a listener")
"""A Kafka controller at kraft.version 0 ends its process when it is asked to update the leader as somebody else."""
OURS: Final = {"vote for the id that is asked": ["NONE", "INVALID_REQUEST"]}
"""Another process runs with the id of this node. A Kafka leader gives it no vote, and has no error for it."""


@pytest.mark.parametrize("kraft_version", [0, 1])
async def test_a_gateway_refuses_what_a_controller_of_kafka_does_and_nothing_changes(
    tmp_path: Path, kraft_version: int
) -> None:
    found = {}
    starts: tuple[Start, ...] = (kafka, ours)
    for start in starts:
        async with start(tmp_path / start.__name__, kraft_version, OPERATIONS_POM) as alone:
            await alone.unfence(BROKER)
            asked = Asked(alone)
            before = await asked.seen()
            found[start] = {
                what: [each.name for each in codes(await alone.client.ask(made(asked)))]
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
