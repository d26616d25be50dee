"""A leader's part in transactions: Produce asks first, WriteTxnMarkers waits for the replicas, Fetch stops before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kraft.api.describe_producers import DescribeProducersRequest
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.produce import ProduceRequest, ProduceResponse
from kraft.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from quorate.errors import ErrorCode
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.telemetry.tracing import OFF
from services.broker.cluster import Cluster
from services.broker.descriptions import describe_producers
from services.broker.fetch import Fetch
from services.broker.peers import Peers
from services.broker.produce import Produce
from services.broker.table import Hosted
from services.broker.tracing import ProduceTraces
from services.broker.transaction_coordinators import TransactionCoordinators
from services.broker.transaction_markers import TransactionMarkers
from services.broker.verification import Verifier
from tests.partition_log.batches import placed, produced
from tests.services.broker import test_partitions
from tests.services.broker.calling import caller
from tests.services.broker.coordinating import Coordinator, coordinating, partitions_of
from tests.services.broker.test_partitions import (
    BROKERS,
    LEVELS,
    ME,
    ORDERS,
    OTHER,
    TOPIC,
    Scene,
    partition,
    running,
)

disks = test_partitions.disks
ADDS, VERIFIES, OLD = 12, 11, 10
_Marker = WriteTxnMarkersRequest.WritableTxnMarker
_Topic = ProduceRequest.TopicProduceData


class Leader:
    """A broker that leads both partitions of a topic, with a replica on another broker; and what it answers."""

    def __init__(self, scene: Scene, coordinator: Coordinator) -> None:
        replicas = self.replicas = scene.replicas
        self.coordinator = coordinator
        self.scene = scene
        self.caller = caller()
        cluster = Cluster(ME, "ours", "PLAINTEXT", lambda: scene.replica.state, replicas.table)
        self.coordinators = TransactionCoordinators(coordinator.find, Peers())
        traces = ProduceTraces(OFF)
        self._produce = Produce(replicas, cluster, traces, Verifier(replicas, cluster, self.coordinators))
        self._fetch = Fetch(replicas, cluster, traces)
        self._markers = TransactionMarkers(replicas, cluster)

    def __getitem__(self, index: int) -> Hosted:
        hosted = self.replicas.table.named(TopicPartition("orders", index))
        assert hosted is not None
        return hosted

    async def produce(
        self, *parts: tuple[int, bytes], version: int = ADDS, transactional_id: str | None = "t", acks: int = 1
    ) -> list[ErrorCode]:
        """What becomes of each partition's batch."""
        partitions = tuple(_Topic.PartitionProduceData(index, data) for index, data in parts)
        request = ProduceRequest(transactional_id, acks, 60_000, (_Topic(name="orders", partition_data=partitions),))
        answer = await self._produce.answer(request, version, self.caller)
        assert isinstance(answer, ProduceResponse)
        return [ErrorCode(each.error_code) for each in answer.responses[0].partition_responses]

    async def mark(
        self, *indexes: int, producer: tuple[int, int] = (7, 0), aborts: bool = False, coordinator_epoch: int = 3
    ) -> WriteTxnMarkersResponse:
        topics = (_Marker.WritableTxnMarkerTopic("orders", indexes),)
        marker = _Marker(*producer, not aborts, topics, coordinator_epoch)
        return await self._markers.answer(WriteTxnMarkersRequest((marker,)), self.caller)

    async def marked_at_once(self, index: int) -> list[int]:
        """What becomes of a marker in a partition, once the other replica has all that is written."""
        marking = asyncio.ensure_future(self.mark(index))
        async with asyncio.timeout(60):
            while not marking.done():
                self.replicate(index)
                await asyncio.sleep(0)
        return [*codes(await marking).values()]

    async def read(
        self, isolation: int = 1, offset: int = 0, size: int = 1 << 20
    ) -> FetchResponse.FetchableTopicResponse.PartitionData:
        """What a consumer of partition 0 is answered; with read_committed, unless said otherwise."""
        partition = FetchRequest.FetchTopic.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
        topics = (FetchRequest.FetchTopic(topic_id=TOPIC, partitions=(partition,)),)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=isolation, session_epoch=-1, topics=topics
        )
        answer = await self._fetch.answer(request, 17, self.caller)
        return answer.responses[0].partitions[0]

    async def follow(self) -> bytes:
        """What the other replica of partition 0 is answered, which has nothing yet."""
        asked = FetchRequest.FetchTopic.FetchPartition(partition=0, current_leader_epoch=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(OTHER, 5),
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=(FetchRequest.FetchTopic(topic_id=TOPIC, partitions=(asked,)),),
        )
        answer = await self._fetch.answer(request, 17, self.caller)
        return bytes(answer.responses[0].partitions[0].records or b"")

    async def has_written(self, *ends: int) -> None:
        """Waits until the logs end there."""
        async with asyncio.timeout(60):
            while list(ends) != [self[each].log.leo for each in range(len(ends))]:  # noqa: ASYNC110  # an append has no event
                await asyncio.sleep(0)

    def replicate(self, index: int = 0) -> None:
        """The other replica has all."""
        hosted = self[index]
        assert hosted.leading is not None
        effects = hosted.leading.note_fetch(
            OTHER, offset=hosted.log.leo, log_start=0, broker_epoch=5, now_ms=self.replicas.now_ms
        )
        self.replicas.carry_out(hosted, effects)


@asynccontextmanager
async def leading(disks: list[Path]) -> AsyncIterator[Leader]:
    async with running(disks) as scene, coordinating() as coordinator:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0), partition(1))
        await scene.applied(lambda: len(scene.names) == 2)
        leader = Leader(scene, coordinator)
        yield leader
        await leader.coordinators.close()


def batch(epoch: int = 0, sequence: int = 0, *, producer_id: int = 7) -> bytes:
    return produced(producer=(producer_id, epoch, sequence), transactional=True, timestamp_ms=-1)


def codes(answer: WriteTxnMarkersResponse) -> dict[int, ErrorCode]:
    (of_producer,) = answer.markers
    return {each.partition_index: ErrorCode(each.error_code) for each in of_producer.topics[0].partitions}


@pytest.mark.parametrize("version", [ADDS, VERIFIES])
async def test_the_coordinator_is_asked_once_for_all_partitions(disks: list[Path], version: int) -> None:
    """By a version from 12 on the leader adds the partitions; before, the producer has."""
    async with leading(disks) as leader:
        first = await leader.produce((0, batch()), (1, batch()), version=version)
        second = await leader.produce((0, batch(sequence=1)), (1, batch(sequence=1)), version=version)
        ((asked,),) = leader.coordinator.asked

        assert [ErrorCode.NONE] * 4 == first + second
        assert ("t", 7, 0, version < ADDS) == (
            *(asked.transactional_id, asked.producer_id, asked.producer_epoch),
            asked.verify_only,
        )
        assert [leader[0].name, leader[1].name] == partitions_of(asked)
        assert [2, 2] == [leader[each].log.leo for each in (0, 1)]


REFUSALS = {
    "it is no part of it": (ADDS, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    "another producer": (ADDS, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
    "loading": (ADDS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
    "moved": (VERIFIES, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
    "abortable": (VERIFIES, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    "abortable, to one that does not know it": (OLD, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
    "still ending, to one that has added it itself": (
        *(VERIFIES, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
    ),
}


@pytest.mark.parametrize(("version", "said", "told"), REFUSALS.values(), ids=REFUSALS)
async def test_what_a_coordinator_refuses_is_not_written(
    disks: list[Path], version: int, said: ErrorCode, told: ErrorCode
) -> None:
    async with leading(disks) as leader:
        leader.coordinator.refusals = {"orders-0": [said]}

        assert [told, ErrorCode.NONE] == await leader.produce((0, batch()), (1, batch()), version=version)
        assert [0, 1] == [leader[each].log.leo for each in (0, 1)]


async def test_a_transaction_before_that_is_ending_is_waited_for_a_little(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        leader.coordinator.refusals = {"orders-0": [ErrorCode.CONCURRENT_TRANSACTIONS]}

        assert [ErrorCode.NONE] == await leader.produce((0, batch()))
        assert 2 == len(leader.coordinator.asked)


async def test_the_requests_of_a_producer_are_appended_in_their_order(disks: list[Path]) -> None:
    """The second one needs no question, and still has the later sequence numbers."""
    async with leading(disks) as leader:
        assert [ErrorCode.NONE] == await leader.produce((1, batch()))
        leader.coordinator.is_asked.clear()
        leader.coordinator.may_answer.clear()
        first = asyncio.ensure_future(leader.produce((0, batch()), (1, batch(sequence=1))))
        await leader.coordinator.is_asked.wait()
        second = asyncio.ensure_future(leader.produce((1, batch(sequence=2))))
        other = await leader.produce((1, produced(producer=(8, 0, 0), timestamp_ms=-1)), transactional_id=None)
        leader.coordinator.may_answer.set()

        assert [[ErrorCode.NONE] * 2, [ErrorCode.NONE]] == [await first, await second]
        assert [ErrorCode.NONE] == other


async def test_a_partition_that_is_named_twice_is_acknowledged_with_the_later_batch(disks: list[Path]) -> None:
    """The other one is sent again, and is committed."""
    first, second = (produced(producer=(7, 0, at), timestamp_ms=-1) for at in range(2))
    async with leading(disks) as leader:
        await leader.produce((0, first), transactional_id=None)
        leader.replicate()
        answer = asyncio.ensure_future(leader.produce((0, second), (0, first), transactional_id=None, acks=-1))
        await leader.has_written(2)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not answer.done(), "the other replica has not the second batch"
        leader.replicate()

        assert [ErrorCode.NONE] * 2 == await answer


@pytest.mark.parametrize(
    ("parts", "transactional_id", "code"),
    [
        ([batch()], None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ([batch(), batch(producer_id=8)], "t", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ([batch(producer_id=-1)], "t", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ([batch()[:-1]], "t", ErrorCode.INVALID_RECORD),
    ],
)
async def test_a_request_of_no_one_transaction_is_refused_without_a_question(
    disks: list[Path], parts: list[bytes], transactional_id: str | None, code: ErrorCode
) -> None:
    async with leading(disks) as leader:
        told = await leader.produce(*enumerate(parts), transactional_id=transactional_id)

        assert [code] * len(parts) == told
        assert [] == leader.coordinator.asked
        assert 0 == leader[0].log.leo


async def test_a_marker_is_answered_once_the_replicas_have_it(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        await leader.produce((0, batch()), (1, batch()))
        answer = asyncio.ensure_future(leader.mark(0, 1))
        await leader.has_written(2, 2)
        leader.replicate(0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not answer.done(), "partition 1 has only its leader's"
        leader.replicate(1)

        assert {0: ErrorCode.NONE, 1: ErrorCode.NONE} == codes(await answer)
        assert [None, None] == [leader[each].log.first_open_offset for each in (0, 1)]


async def test_a_leader_that_is_replaced_meanwhile_says_so(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        await leader.produce((0, batch()))
        answer = asyncio.ensure_future(leader.mark(0))
        await leader.has_written(2)
        leader.replicas.give_up(leader[0])

        assert {0: ErrorCode.NOT_LEADER_OR_FOLLOWER} == codes(await answer)


@pytest.mark.parametrize(
    ("index", "producer", "coordinator_epoch", "code"),
    [
        (0, (7, 0), 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (7, (7, 0), 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, (-1, 0), 3, ErrorCode.INVALID_REQUEST),
        (0, (7, -1), 3, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_marker_that_is_refused_is_not_written(
    disks: list[Path], index: int, producer: tuple[int, int], coordinator_epoch: int, code: ErrorCode
) -> None:
    async with leading(disks) as leader:
        first = asyncio.ensure_future(leader.mark(0))
        await leader.has_written(1)
        leader.replicate()
        await first
        answer = await leader.mark(index, producer=producer, coordinator_epoch=coordinator_epoch)

        assert {index: code} == codes(answer)
        assert 1 == leader[0].log.leo


async def test_a_reader_of_what_is_committed_gets_nothing_of_an_open_transaction(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        await leader.produce((0, produced(timestamp_ms=-1)), transactional_id=None)
        await leader.produce((0, batch()))
        leader.replicate()
        committed, every = await leader.read(), await leader.read(isolation=0)

        assert (1, 2) == (committed.last_stable_offset, committed.high_watermark)
        assert len(every.records or b"") > len(committed.records or b"") > 0
        assert every.aborted_transactions is None


async def test_a_reader_is_told_of_the_aborted_transactions_among_what_it_gets(disks: list[Path]) -> None:
    """And of no later one: an answer would grow with all that follows."""
    async with leading(disks) as leader:
        for epoch in range(3):
            await leader.produce((0, batch(epoch)))
            marked = asyncio.ensure_future(leader.mark(0, producer=(7, epoch), aborts=True))
            await leader.has_written(2 * (epoch + 1))
            leader.replicate()
            assert {0: ErrorCode.NONE} == codes(await marked)
        every, one = await leader.read(offset=2), await leader.read(offset=2, size=1)

        assert (6, 6) == (every.last_stable_offset, one.last_stable_offset)
        assert [2, 4] == [each.first_offset for each in every.aborted_transactions or ()]
        assert [2] == [each.first_offset for each in one.aborted_transactions or ()]


async def test_a_follower_tells_who_writes_to_its_partitions(disks: list[Path]) -> None:
    """`kafka-transactions find-hanging` asks one broker about all its replicas, and gives up at a refusal."""
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS)
        scene.log.append(ORDERS, partition(0, leader=OTHER))
        await scene.applied(lambda: len(scene.names) == 1)
        (hosted,) = scene.replicas.table
        hosted.log.append_as_follower(placed(batch(), offset=0, epoch=0), now_ms=0)
        cluster = Cluster(ME, "ours", "PLAINTEXT", lambda: scene.replica.state, scene.replicas.table)
        request = DescribeProducersRequest((DescribeProducersRequest.TopicRequest("orders", (0, 1)),))
        known, unknown = (await in_turns(describe_producers(request, cluster, caller()))).topics[0].partitions

    assert [(7, 0)] == [(each.producer_id, each.current_txn_start_offset) for each in known.active_producers]
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == unknown.error_code
