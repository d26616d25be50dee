"""A leader that answers with nonsense, or does not authorize us: the node lives, and waits before it asks again."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
import pytest
import pytest_asyncio
from crc32c import crc32c

from deploy.local.plan import make_plan
from deploy.local.ports import free_ports
from kraft import Uuid
from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer, add_QuorumServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import METADATA_TOPIC_ID, uuid_text
from quorate.raft import messages as raft
from quorate.records import KRaftVersionRecord, VotersRecord
from quorate.wire.batch import CHECKED_FROM, CONTROL, CRC_POSITION, ControlType, control_batch, data_batch
from quorate.wire.codec import encode
from services.quorum import translate
from tests.e2e.calls import WITHIN_S, eventually
from tests.e2e.nodes import Nodes
from tests.e2e.test_metrics import exporter, scraped

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

FETCHES_MAX: Final = 100
"""Until the leader is given up, after 2 s. It was 960 a second; with pauses of 20 ms, doubled, it is about ten."""
ATTRIBUTES: Final = 21
"""Where they stand in a batch."""

DENIED_COUNT: Final = "kraft_quorum_requests_denied_total"
REFUSED_COUNT: Final = "kraft_quorum_answers_refused_total"

Partition = FetchResponse.FetchableTopicResponse.PartitionData


class Leader(QuorumServicer):
    """Node 2 of our cluster: answers each fetch with `partition`, in any epoch that it hears."""

    def __init__(self, partition: Partition, epoch: int) -> None:
        self.partition = partition
        self.partition.current_leader.leader_id, self.partition.current_leader.leader_epoch = 2, epoch
        self.fetches: list[FetchRequest] = []
        self.given_up = asyncio.Event()
        self._epoch = epoch

    async def Vote(self, request: VoteRequest, context: Any) -> VoteResponse:
        self.given_up.set()
        return translate.vote_answer(raft.VoteResponse(epoch=self._epoch, leader_id=2), {})

    async def FetchStream(
        self, request_iterator: AsyncIterable[FetchRequest], context: Any
    ) -> AsyncIterator[FetchResponse]:
        async for request in request_iterator:
            self.fetches.append(request)
            topic = FetchResponse.FetchableTopicResponse
            yield FetchResponse(responses=[topic(topic_id=uuid_text(METADATA_TOPIC_ID), partitions=[self.partition])])


def voters(*ids: int) -> bytes:
    voter = VotersRecord.Voter
    those = tuple(voter(voter_id=node_id, voter_directory_id=Uuid(bytes(16))) for node_id in ids)
    return control(ControlType.KRAFT_VOTERS, encode(VotersRecord(voters=those), 0))


def control(kind: ControlType, value: bytes) -> bytes:
    return control_batch(base_offset=0, epoch=1, timestamp_ms=0, records=[(kind, value)])


def keyless() -> bytes:
    made = bytearray(data_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[b"value"]))
    struct.pack_into(">h", made, ATTRIBUTES, CONTROL)
    struct.pack_into(">I", made, CRC_POSITION, crc32c(memoryview(made)[CHECKED_FROM:]))
    return bytes(made)


NONSENSE: Final = {
    "a voter twice": Partition(records=voters(1, 2, 2)),
    "no voters": Partition(records=voters()),
    "a control record without a key": Partition(records=keyless()),
    "kraft.version 9": Partition(
        records=control(ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=9), 0))
    ),
    "a snapshot without an epoch": Partition(snapshot_id=Partition.SnapshotId(end_offset=5, epoch=-1)),
    "a snapshot of nothing": Partition(snapshot_id=Partition.SnapshotId(end_offset=0, epoch=0)),
    "an end before the beginning": Partition(diverging_epoch=Partition.EpochEndOffset(epoch=0, end_offset=-5)),
    "an error that nobody knows": Partition(error_code=999),  # type: ignore[arg-type]
}


DENIED: Final = Partition(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def numbers() -> int:
    """The port at which node 1 says its numbers."""
    return free_ports(1)[0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(tmp_path_factory: pytest.TempPathFactory, numbers: int) -> AsyncIterator[Nodes]:
    """Node 1 alone of three; the addresses of the others are free."""
    running = Nodes(make_plan(tmp_path_factory.mktemp("ours") / "run"))
    try:
        await running.start(1, environ=exporter(numbers))
        yield running
    finally:
        await running.stop()


@asynccontextmanager
async def leading(nodes: Nodes, partition: Partition) -> AsyncIterator[Leader]:
    """Node 2 answers so, in an epoch after that of node 1, which has heard it."""
    epoch = (await nodes.find(1)).leader_epoch + 1
    leader, server = Leader(partition, epoch), grpc.aio.server()
    add_QuorumServicer_to_server(leader, server)
    server.add_insecure_port(nodes.plan.quorum[1].address)
    await server.start()
    try:
        begin = translate.to_begin(raft.BeginQuorumEpochRequest(epoch=epoch, leader_id=2))
        assert not (await nodes.stubs[0].BeginQuorumEpoch(begin, timeout=WITHIN_S)).topics[0].partitions[0].error_code
        yield leader
    finally:
        await server.stop(None)


@pytest.mark.parametrize("name", NONSENSE)
async def test_a_leader_that_answers_with_nonsense_neither_ends_nor_spins_a_node(nodes: Nodes, name: str) -> None:
    async with leading(nodes, NONSENSE[name]) as leader:
        await asyncio.wait_for(leader.given_up.wait(), WITHIN_S)

        assert 0 < len(leader.fetches) <= FETCHES_MAX
        assert {0} == {fetch.topics[0].partitions[0].fetch_offset for fetch in leader.fetches}
    assert nodes.running.is_up(nodes.plan.quorum[0])


async def test_who_is_not_authorized_asks_seldom_and_says_it_once(nodes: Nodes, numbers: int) -> None:
    before = (await scraped(numbers)).get(DENIED_COUNT, 0)
    async with leading(nodes, DENIED) as leader:
        await asyncio.wait_for(leader.given_up.wait(), WITHIN_S)

        assert len(leader.fetches) <= 3
        await eventually(lambda: scraped(numbers), lambda found: 1 <= found.get(DENIED_COUNT, 0) - before <= 3)
    said = (nodes.plan.directory / f"{nodes.plan.quorum[0].name}.log").read_text()

    assert 1 == said.count("not authorized by a peer: CLUSTER_AUTHORIZATION_FAILED")


async def test_after_nonsense_what_is_right_is_taken(nodes: Nodes, numbers: int) -> None:
    before = (await scraped(numbers)).get(REFUSED_COUNT, 0)
    async with leading(nodes, Partition(records=voters(1, 2, 2))) as leader:
        await eventually(lambda: fetched(leader))
        await eventually(lambda: scraped(numbers), lambda found: found.get(REFUSED_COUNT, 0) > before)
        leader.partition.records = data_batch(base_offset=0, epoch=1, timestamp_ms=0, values=[b"value"])
        await eventually(lambda: offset(leader), lambda at: at == 1)


async def fetched(leader: Leader) -> int:
    return len(leader.fetches)


async def offset(leader: Leader) -> int:
    return leader.fetches[-1].topics[0].partitions[0].fetch_offset
