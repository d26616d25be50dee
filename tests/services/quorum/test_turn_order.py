"""A turn's order at a peer's end: nothing leaves that rests on what could not be written (Raft, section 5)."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer, add_QuorumServicer_to_server
from quorate.raft.history import History
from quorate.raft.voters import VoterSet
from quorate.runtime.calls.server import Server
from quorate.runtime.settings.setting_types import ConfiguredVoter, Endpoint
from services.quorum.endpoints import NodeEndpoints
from services.quorum.peers import Peers
from tests.services.nodes import driver_of, open_disk
from tests.services.scripted import WITHIN_S, listening
from tests.storage.logs import failpoint

OTHER = 2


class Voters(QuorumServicer):
    """The other voter: gives its vote to every asker, and keeps what it hears, in order."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def Vote(self, request: VoteRequest, context: Any) -> VoteResponse:
        (asked,) = request.topics[0].partitions
        self.heard.append("pre-vote" if asked.pre_vote else "vote")
        partition = VoteResponse.TopicData.PartitionData(
            leader_id=-1, leader_epoch=asked.replica_epoch, vote_granted=True
        )
        return VoteResponse(
            topics=[VoteResponse.TopicData(topic_name=request.topics[0].topic_name, partitions=[partition])]
        )

    async def BeginQuorumEpoch(self, request: BeginQuorumEpochRequest, context: Any) -> BeginQuorumEpochResponse:
        self.heard.append("begin")
        return BeginQuorumEpochResponse()


def fail() -> None:
    """For a failpoint."""
    raise OSError(errno.EIO, "I/O error")


async def heard_until_failed(directory: Path, place: str) -> list[str]:
    """What the other voter hears of a node that is elected, whose disk fails at `place`."""
    other, server = Voters(), Server()
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, other)
    failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    disk = open_disk(directory, voters=2)
    node = driver_of(disk)
    async with listening(server) as address:
        host, _, port = address.rpartition(":")
        voters = (ConfiguredVoter(OTHER, Endpoint(host, int(port))),)
        async with asyncio.timeout(WITHIN_S):
            # Left once every request that was sent has had its answer.
            async with asyncio.TaskGroup() as tasks:
                peers = Peers(
                    NodeEndpoints(voters, (), History(VoterSet.of(1, OTHER))),
                    tasks,
                    heard=node.hear,
                    failed=node.fail,
                    lost=node.lose,
                    refused=node.recorder.refused,
                    request_timeout_ms=1_000 * WITHIN_S,
                )
                with failpoint(place, fail):
                    node.start(peers, failed.set_result)
                    await failed
            await peers.close()
    node.stop()
    disk.log.abandon()
    return other.heard


async def test_an_epoch_is_not_begun_whose_first_record_could_not_be_written(tmp_path: Path) -> None:
    assert ["pre-vote", "vote"] == await heard_until_failed(tmp_path, "append.before_write")


async def test_no_vote_is_asked_for_in_an_epoch_that_could_not_be_written(tmp_path: Path) -> None:
    assert ["pre-vote"] == await heard_until_failed(tmp_path, "state.before_tmp_fsync")
