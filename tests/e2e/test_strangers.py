"""A node of another cluster at a voter's address, as where an address was used again: nothing it says is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio

from deploy.local.plan import make_plan
from kraft.api.add_raft_voter_pb2 import AddRaftVoterResponse
from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotResponse
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterResponse
from kraft.api.update_raft_voter_pb2 import UpdateRaftVoterResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from kraft.service.quorum_pb2 import ControllerPresenceResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_TOPIC, NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from quorate.raft.voters import ListenerEndpoint, Voter
from services.quorum import translate
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.cluster import PATIENT
from tests.e2e.nodes import Nodes

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

THEIRS: Final = 50
"""The epoch of the other cluster."""
GONE: Final = 3
"""The voter whose address it has."""
ENOUGH: Final = 5


class Stranger(QuorumServicer):
    """Refuses, and says beside it that node 2 leads epoch 50, and listens here."""

    def __init__(self, port: int) -> None:
        self.asked: Counter[str] = Counter()
        self._port = port

    async def Vote(self, request: VoteRequest, context: Any) -> VoteResponse:
        answer = self._told(VoteResponse, leader_epoch=THEIRS, leader_id=2, vote_granted=True)
        assert isinstance(answer, VoteResponse)
        return answer

    async def BeginQuorumEpoch(self, request: BeginQuorumEpochRequest, context: Any) -> BeginQuorumEpochResponse:
        answer = self._told(BeginQuorumEpochResponse, leader_epoch=THEIRS, leader_id=2)
        assert isinstance(answer, BeginQuorumEpochResponse)
        return answer

    async def EndQuorumEpoch(self, request: EndQuorumEpochRequest, context: Any) -> EndQuorumEpochResponse:
        answer = self._told(EndQuorumEpochResponse, leader_epoch=THEIRS, leader_id=2)
        assert isinstance(answer, EndQuorumEpochResponse)
        return answer

    def _told(self, message: Any, **partition: Any) -> Any:
        self.asked[message.__name__] += 1
        topic = message.TopicData
        made = topic.PartitionData(partition_index=0, error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, **partition)
        return message(
            topics=[topic(topic_name=METADATA_TOPIC, partitions=[made])],
            node_endpoints=[
                message.NodeEndpoint(node_id=node_id, host="127.0.0.1", port=self._port) for node_id in (1, 2)
            ],
        )


@asynccontextmanager
async def stranger_at(address: str) -> AsyncIterator[Stranger]:
    stranger, server = Stranger(int(address.rpartition(":")[2])), grpc.aio.server()
    add_QuorumServicer_to_server(stranger, server)
    server.add_insecure_port(address)
    await server.start()
    try:
        yield stranger
    finally:
        await server.stop(None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Nodes]:
    """Two of three voters; the third's address is free."""
    running = Nodes(make_plan(tmp_path_factory.mktemp("ours") / "run"))
    for process in running.plan.quorum:
        process.settings.update(PATIENT[int(process.settings["node.id"])])
    try:
        await running.start(1, 2)
        yield running
    finally:
        await running.stop()


async def test_a_quorum_stays_with_its_leader_and_epoch_whatever_a_stranger_answers(nodes: Nodes) -> None:
    leader_id, epoch = await nodes.leader()
    async with stranger_at(nodes.plan.quorum[GONE - 1].address) as stranger:
        await eventually(lambda: begun(stranger), lambda count: count >= ENOUGH)

        assert (leader_id, epoch) == await nodes.leader()

        await nodes.resign(leader_id, epoch)
        successor, later = await nodes.leader(above=epoch)

        assert successor in (1, 2)
        assert epoch < later < THEIRS
        await eventually(lambda: voted(stranger))


async def begun(stranger: Stranger) -> int:
    return stranger.asked["BeginQuorumEpochResponse"]


async def voted(stranger: Stranger) -> int:
    return stranger.asked["VoteResponse"]


OTHER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
KEY: Final = ReplicaKey(GONE)
VOTER: Final = Voter(key=ReplicaKey(7, bytes(range(16))), endpoints=(ListenerEndpoint("CONTROLLER", "h", 1),))
VOTE: Final = raft.VoteRequest(
    epoch=THEIRS, replica=KEY, last=OffsetAndEpoch(epoch=0, offset=1 << 40), cluster_id=OTHER
)
FETCH: Final = raft.FetchRequest(
    epoch=1, replica=KEY, fetch_offset=0, last_fetched_epoch=0, max_bytes=1, max_wait_ms=0, cluster_id=OTHER
)
SNAPSHOT: Final = raft.FetchSnapshotRequest(
    epoch=1, replica=KEY, snapshot_id=OffsetAndEpoch(epoch=1, offset=1), position=0, max_bytes=1, cluster_id=OTHER
)
CODE: Final = int(ErrorCode.INCONSISTENT_CLUSTER_ID)


BEGIN: Final = raft.BeginQuorumEpochRequest(epoch=THEIRS, leader_id=GONE, cluster_id=OTHER)
END: Final = raft.EndQuorumEpochRequest(epoch=THEIRS, leader_id=GONE, cluster_id=OTHER)


@pytest.mark.parametrize(
    ("method", "request_", "answer"),
    [
        ("Vote", translate.to_vote(VOTE), VoteResponse),
        ("BeginQuorumEpoch", translate.to_begin(BEGIN, VOTER.endpoints), BeginQuorumEpochResponse),
        ("EndQuorumEpoch", translate.to_end(END), EndQuorumEpochResponse),
        ("Fetch", translate.to_fetch(FETCH), FetchResponse),
        ("FetchSnapshot", translate.to_fetch_snapshot(SNAPSHOT), FetchSnapshotResponse),
    ],
)
@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_stranger_is_told_nothing(
    nodes: Nodes, node_id: NodeId, method: str, request_: Any, answer: type
) -> None:
    leader_id, epoch = await nodes.leader()
    told = await getattr(nodes.stubs[node_id - 1], method)(request_, timeout=WITHIN_S)

    assert answer(error_code=CODE) == told
    assert (leader_id, epoch) == await nodes.leader()


@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_stranger_that_fetches_over_a_stream_or_speaks_of_its_controller_is_told_nothing(
    nodes: Nodes, node_id: NodeId
) -> None:
    leader_id, epoch = await nodes.leader()
    present = raft.ControllerPresenceRequest(
        epoch=epoch, replica=ReplicaKey(3 - leader_id), is_present=True, sequence=1, cluster_id=OTHER
    )
    before = await nodes.find(node_id)
    fetching = nodes.stubs[node_id - 1].FetchStream(iter([translate.to_fetch(FETCH)] * 2), timeout=10)
    fetched = [answer async for answer in fetching]
    noted = await nodes.stubs[node_id - 1].ControllerPresence(translate.to_presence(present), timeout=10)

    assert [FetchResponse(error_code=CODE)] * 2 == fetched
    nothing = ControllerPresenceResponse(error_code=CODE, leader_id=-1, leader_epoch=-1, sequence=0, is_present=False)
    assert nothing == noted
    assert before == await nodes.find(node_id)


async def test_a_stranger_that_changes_who_votes_is_told_nothing_of_the_quorum(nodes: Nodes) -> None:
    leader_id, epoch = await nodes.leader()
    stub = nodes.stubs[leader_id - 1]
    added = await stub.AddRaftVoter(
        translate.to_add(raft.AddRaftVoterRequest(voter=VOTER, timeout_ms=100, cluster_id=OTHER)), timeout=WITHIN_S
    )
    removed = await stub.RemoveRaftVoter(
        translate.to_remove(raft.RemoveRaftVoterRequest(voter=KEY, cluster_id=OTHER)), timeout=WITHIN_S
    )
    updated = await stub.UpdateRaftVoter(
        translate.to_update(raft.UpdateRaftVoterRequest(epoch=epoch, voter=VOTER, cluster_id=OTHER)), timeout=WITHIN_S
    )

    assert isinstance(added, AddRaftVoterResponse)
    assert isinstance(removed, RemoveRaftVoterResponse)
    assert [CODE] * 3 == [added.error_code, removed.error_code, updated.error_code]
    assert UpdateRaftVoterResponse.CurrentLeader(leader_id=-1, leader_epoch=-1) == updated.current_leader
