"""Readers of the log by Kafka's wire: a gateway answers them from its own end of the log."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from kraft import Uuid
from kraft.api.describe_quorum import DescribeQuorumResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from quorate.errors import ErrorCode
from quorate.network.client import Connection, Disconnected
from quorate.nouns import METADATA_TOPIC_ID, Epoch, NodeId, Offset
from quorate.wire.batch import batches, check_batch
from tests.e2e.calls import eventually
from tests.e2e.cluster import Cluster, stored_batches
from tests.e2e.test_gateway import QUORUM, client, create
from tests.e2e.test_metrics import exporting, scraped

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

WITH_GATEWAYS: Final = True
READERS: Final = range(501, 504)
TOPICS: Final = 30
ANSWERED: Final = "kraft_gateway_fetches_answered_total"
Data = FetchResponse.FetchableTopicResponse.PartitionData


class Reader:
    """A broker's view of the log: where it is, and the batches that it was given."""

    def __init__(self, replica_id: NodeId, epoch: Epoch) -> None:
        self.replica_id = replica_id
        self.directory_id = Uuid(secrets.token_bytes(16))
        self.epoch = epoch
        self.offset: Offset = 0
        self.last_epoch: Epoch = 0
        self.high_watermark: Offset = -1
        self.batches: list[tuple[int, int, bytes]] = []

    def fetch(self) -> FetchRequest:
        partition = FetchRequest.FetchTopic.FetchPartition(
            current_leader_epoch=self.epoch,
            fetch_offset=self.offset,
            last_fetched_epoch=self.last_epoch,
            replica_directory_id=self.directory_id,
            high_watermark=self.high_watermark,
        )
        topic = FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
        replica = FetchRequest.ReplicaState(self.replica_id)
        return FetchRequest(replica_state=replica, max_wait_ms=500, max_bytes=8 << 20, topics=(topic,))

    async def step(self, connection: Connection) -> Data:
        """One fetch; what it brings follows on what is here, and no high watermark is below an earlier one."""
        answer = await connection.ask_for(FetchResponse, self.fetch())
        (partition,) = answer.responses[0].partitions
        if partition.error_code:
            return partition
        for at, _ in batches(data := partition.records or b""):
            header = check_batch(data, at)
            assert self.offset == header.base_offset
            self.batches.append((header.base_offset, header.epoch, data[at : at + header.size]))
            self.offset, self.last_epoch = header.next_offset, header.epoch
        assert partition.high_watermark >= self.high_watermark
        self.high_watermark = partition.high_watermark
        return partition


@asynccontextmanager
async def reading(reader: Reader, cluster: Cluster, node_id: NodeId) -> AsyncIterator[asyncio.Event]:
    """It reads on its own connection until the end; the event is set once it has all that is committed by then."""
    caught_up, is_over = asyncio.Event(), False

    async def read() -> None:
        async with client(cluster, node_id) as connection:
            while not is_over:
                answer = await reader.step(connection)
                assert not answer.error_code, answer
                if reader.offset >= reader.high_watermark:
                    caught_up.set()

    task = asyncio.ensure_future(read())
    try:
        yield caught_up
    finally:
        is_over = True
        await task


async def described(cluster: Cluster, node_id: NodeId) -> DescribeQuorumResponse.TopicData.PartitionData:
    async with client(cluster, node_id) as connection:
        told = await connection.ask_for(DescribeQuorumResponse, QUORUM)
        return told.topics[0].partitions[0]


async def test_readers_have_the_leaders_log_and_it_knows_how_far_they_are(cluster: Cluster) -> None:
    leader = await cluster.active()
    port = await exporting(cluster, cluster.plan.gateways[leader - 1])
    readers = [Reader(each, (await cluster.find(leader)).leader_epoch) for each in READERS]
    async with (
        reading(readers[0], cluster, leader) as first,
        reading(readers[1], cluster, leader),
        reading(readers[2], cluster, leader),
        client(cluster, leader) as admin,
    ):
        await first.wait()
        for number in range(TOPICS):
            assert [0] == await create(admin, f"read-{number}")
        told = await eventually(
            lambda: described(cluster, leader),
            lambda told: all(
                any(each.replica_id == id_ and each.log_end_offset >= told.high_watermark for each in told.observers)
                for id_ in READERS
            ),
        )
        end = told.high_watermark
    by_gateway = (await scraped(port)).get(ANSWERED, 0)

    stored = stored_batches(cluster.plan.log_dir(leader))
    for reader in readers:
        committed = [batch for batch in reader.batches if batch[0] < end]
        assert [batch for batch in stored if batch[0] < end] == committed, reader.replica_id
    assert by_gateway >= len(READERS), "of most fetches, which need no quorum node"


async def test_a_reader_of_a_leader_that_is_gone_goes_on_with_the_next_one(cluster: Cluster) -> None:
    old = await cluster.active()
    reader = Reader(READERS[0], (await cluster.find(old)).leader_epoch)
    async with reading(reader, cluster, old) as caught_up:
        await caught_up.wait()
    async with client(cluster, old) as connection:
        held = asyncio.ensure_future(reader.step(connection))
        await cluster.pass_leadership(to=[each for each in (1, 2, 3) if each != old])
        told = [await held, *[await reader.step(connection) for _ in range(3)]]
    new = await cluster.active()
    reader.epoch = (await cluster.find(new)).leader_epoch
    async with client(cluster, new) as admin, reading(reader, cluster, new):
        assert [0] == await create(admin, "after-it")
        await eventually(
            lambda: described(cluster, new),
            lambda told: any(
                each.replica_id == reader.replica_id and each.log_end_offset >= told.high_watermark
                for each in told.observers
            ),
        )
    await cluster.kill(cluster.quorum(new))
    async with client(cluster, new) as connection:
        with pytest.raises(Disconnected):
            await asyncio.gather(*[reader.step(connection) for _ in range(4)])
    await cluster.restart(cluster.quorum(new))

    refusals = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}
    assert told[-1].error_code in refusals, told
    assert reader.batches == [each for each in stored_batches(cluster.plan.log_dir(new)) if each[0] < reader.offset]
