"""Three brokers of our own store partitions: librdkafka writes and reads, leaders are killed, replicas are the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kraft import Uuid
from kraft.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from kraft.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kraft.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kraft.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kraft.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kraft.api.metadata import MetadataRequest, MetadataResponse
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from kraft.api.produce import ProduceRequest, ProduceResponse
from quorate.errors import ErrorCode
from quorate.network.client import Connection, Disconnected, connect
from quorate.nouns import NodeId, uuid_text
from quorate.records import PartitionChangeRecord
from quorate.runtime.calls.health import IN_SYNC
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.meta_properties import read_meta_properties
from quorate.wire.batch import batches
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import Cluster, stored_records
from tests.e2e.own_brokers import OwnBrokers, plane_without_brokers
from tests.e2e.records import Writer, consumed, lost, stored
from tests.partition_log.batches import NOW_MS, produced

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

IDS = (101, 102, 103)
ACKS_ALL = -1
TIMEOUT_MS = 30_000
MANY = 300
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with plane_without_brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def brokers(cluster: Cluster) -> OwnBrokers:
    brokers = OwnBrokers(cluster, ids=IDS, directories=2)
    await brokers.start()
    return brokers


def servers(brokers: OwnBrokers) -> str:
    return ",".join(brokers[each].kafka_address for each in brokers.ids)


async def at(brokers: OwnBrokers, broker_id: NodeId) -> Connection:
    host, port = brokers[broker_id].kafka_address.split(":")
    return await connect(host, int(port))


async def partition(cluster: Cluster, topic: str, *, isr: int = 3) -> Any:
    """The one partition of a topic, once it has a leader and so many replicas in its ISR."""

    async def found() -> Any:
        described = (await cluster.topics(at=1)).get(topic)
        return None if described is None or not described.partitions else described.partitions[0]

    return await eventually(
        found, lambda seen: seen is not None and seen.leader_id in IDS and len(seen.isr_nodes) == isr
    )


async def led(cluster: Cluster, brokers: OwnBrokers, topic: str) -> tuple[NodeId, Connection]:
    """Makes a topic; returns its leader and a connection to it, once the leader knows that it leads."""
    await cluster.create(topic, at=1)
    leader: NodeId = (await partition(cluster, topic)).leader_id
    connection = await at(brokers, leader)

    async def leads() -> ErrorCode:
        answer = await connection.ask_for(ListOffsetsResponse, offsets(topic, LATEST))
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    await eventually(leads, lambda code: code is ErrorCode.NONE)
    return leader, connection


def offsets(topic: str, timestamp: int) -> ListOffsetsRequest:
    asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=(asked,)),)
    )


async def produce(connection: Connection, topic: str, batch: bytes, *, acks: int = ACKS_ALL, index: int = 0) -> Any:
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=index, records=batch)
    topics = (ProduceRequest.TopicProduceData(name=topic, partition_data=(data,)),)
    request = ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)
    answer = await connection.ask_for(ProduceResponse, request, version=12)
    return answer.responses[0].partition_responses[0]


async def fetch(connection: Connection, topic: str, offset: int, **more: Any) -> Any:
    part = FetchRequest.FetchTopic.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, **more)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=(FetchRequest.FetchTopic(topic=topic, partitions=(part,)),)
    )
    answer = await connection.ask_for(FetchResponse, request, version=12)
    return answer.responses[0].partitions[0]


def named(brokers: OwnBrokers, broker_id: NodeId, pattern: str) -> list[Path]:
    """The directories of partitions by their names."""
    return [path for disk in brokers.disks(broker_id) for path in disk.glob(pattern)]


async def test_what_was_acknowledged_outlives_the_kills_of_its_leaders(cluster: Cluster, brokers: OwnBrokers) -> None:
    """Two leaders are killed under an idempotent producer, one after the other, and come back: nothing is twice."""
    await cluster.create("kept", at=1)
    async with Writer(servers(brokers), "kept") as writer:
        await writer.more(MANY)
        for _ in range(2):
            leader = (await partition(cluster, "kept")).leader_id
            await brokers.kill(leader)
            await partition(cluster, "kept", isr=2)
            await writer.more(MANY)
            await brokers.start(leader)
            await partition(cluster, "kept")
            await writer.more(MANY)
    end = max(offset for offset, _ in writer.acknowledged[0]) + 1
    seen = (await asyncio.to_thread(consumed, servers(brokers), "kept", {0: end}))[0]

    assert [] == lost(writer.acknowledged[0], seen)
    assert [] == writer.problems
    assert len(seen) == len(set(seen.values()))

    async def replicas() -> list[list[tuple[int, bytes]]]:
        return [stored(path)[:end] for each in IDS for path in named(brokers, each, "kept-0")]

    (first, *others) = await eventually(replicas, lambda logs: all(len(each) == end for each in logs))
    assert [first] * 2 == others


async def test_an_orderly_stop_moves_the_leadership_and_the_log_goes_on(cluster: Cluster, brokers: OwnBrokers) -> None:
    leader, connection = await led(cluster, brokers, "stopped")
    assert 0 == (await produce(connection, "stopped", produced(count=3))).base_offset
    await connection.close()
    await brokers.stop(leader)
    assert leader != (await partition(cluster, "stopped", isr=2)).leader_id

    await brokers.start(leader)
    described = await partition(cluster, "stopped")
    async with await at(brokers, described.leader_id) as connection:
        written = await produce(connection, "stopped", produced(count=2))

    assert (ErrorCode.NONE, 3) == (written.error_code, written.base_offset)
    said = brokers.log(leader).rpartition("starting")[2]
    assert "previous_broker_epoch=-1" not in said
    assert "cut off" not in said


async def test_a_rollout_that_waits_for_in_sync_leaves_two_in_the_isr(cluster: Cluster, brokers: OwnBrokers) -> None:
    """As a StatefulSet does it: the next is stopped once the one before is in all its ISRs, and not merely unfenced."""
    made = (await cluster.create("rolled", at=1)).topics[0]
    await partition(cluster, "rolled")
    before = {each: len(brokers.log(each)) for each in IDS}
    async with Writer(servers(brokers), "rolled") as writer:
        await writer.more(1)
        for each in IDS:
            await brokers.stop(each)
            await brokers.start(each)
            assert await eventually(lambda of=each: cluster.health(brokers[of], IN_SYNC))
        await writer.more(1)
    changes = stored_records(cluster.plan.log_dir(await cluster.active()))
    isrs = [
        each.isr
        for each in changes
        if isinstance(each, PartitionChangeRecord) and uuid_text(each.topic_id) == made.topic_id and each.isr
    ]

    assert [] == writer.problems
    assert 2 * len(IDS) <= len(isrs)
    assert 2 == min(map(len, isrs)), isrs
    said = [line for each in IDS for line in brokers.log(each)[before[each] :].splitlines()]
    assert [] == [line for line in said if "level=error" in line]


async def test_a_deleted_topic_is_set_aside_and_its_name_is_free(cluster: Cluster, brokers: OwnBrokers) -> None:
    _, connection = await led(cluster, brokers, "again")
    assert 0 == (await produce(connection, "again", produced())).base_offset
    await connection.close()
    stub = cluster.controller_stub(1)
    deletion = DeleteTopicsRequest.DeleteTopicState(name="again")
    await call_with_retries(stub.DeleteTopics, DeleteTopicsRequest(topics=[deletion], timeout_ms=TIMEOUT_MS))

    async def aside() -> set[NodeId]:
        return {
            each
            for each in IDS
            if any(found for disk in brokers.disks(each) for found in disk.glob("again-0.*-delete"))
        }

    await eventually(aside, lambda seen: seen == set(IDS))

    _, connection = await led(cluster, brokers, "again")
    async with connection:
        assert 0 == (await produce(connection, "again", produced())).base_offset


async def test_the_leader_is_named_to_whoever_asks_another(cluster: Cluster, brokers: OwnBrokers) -> None:
    leader, connection = await led(cluster, brokers, "named")
    await connection.close()
    other = next(each for each in IDS if each != leader)
    async with await at(brokers, other) as connection:
        refused = await produce(connection, "named", produced())
        fetched = await fetch(connection, "named", 0)
        asked = (MetadataRequest.MetadataRequestTopic(name="named"), MetadataRequest.MetadataRequestTopic(name="none"))
        metadata = await connection.ask_for(MetadataResponse, MetadataRequest(topics=asked))

    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader) == (refused.error_code, refused.current_leader.leader_id)
    assert (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader) == (fetched.error_code, fetched.current_leader.leader_id)
    known, unknown = metadata.topics
    assert [(leader, set(IDS))] == [(each.leader_id, set(each.replica_nodes)) for each in known.partitions]
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == unknown.error_code
    assert {brokers[each].kafka_address for each in IDS} == {f"{each.host}:{each.port}" for each in metadata.brokers}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "nowhere"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "n" * 30_000}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"batch": produced()[:-1]}, ErrorCode.INVALID_RECORD),
        ({"batch": b""}, ErrorCode.INVALID_RECORD),
        (
            {"batch": produced(transactional=True, producer=(7, 0, 0))},
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        ({"batch": produced(timestamp_ms=1 << 60)}, ErrorCode.INVALID_TIMESTAMP),
    ],
)
async def test_what_cannot_be_written_is_refused_and_changes_nothing(
    cluster: Cluster, brokers: OwnBrokers, change: dict[str, Any], code: ErrorCode
) -> None:
    _, connection = await led(cluster, brokers, "refused")
    async with connection:
        answer = await produce(connection, **{"topic": "refused", "batch": produced(), **change})
        end = await connection.ask_for(ListOffsetsResponse, offsets("refused", LATEST))

    assert code == answer.error_code
    assert 0 < len(answer.error_message) < 300
    assert 0 == end.topics[0].partitions[0].offset


async def test_without_acks_a_refusal_ends_the_connection(cluster: Cluster, brokers: OwnBrokers) -> None:
    """As at a Kafka broker: the producer has no other way to learn of it."""
    async with await at(brokers, IDS[0]) as connection:
        with pytest.raises(Disconnected):
            await produce(connection, "nowhere", produced(), acks=0)


async def test_offsets_by_place_and_by_time(cluster: Cluster, brokers: OwnBrokers) -> None:
    _, connection = await led(cluster, brokers, "timed")
    async with connection:
        for age_ms in (3_000, 2_000, 1_000):
            await produce(connection, "timed", produced(count=2, timestamp_ms=NOW_MS - age_ms))
        wanted = (EARLIEST, LATEST, MAX_TIMESTAMP, NOW_MS - 2_500, NOW_MS - 2_000, NOW_MS)
        found = [
            (await connection.ask_for(ListOffsetsResponse, offsets("timed", each))).topics[0].partitions[0].offset
            for each in wanted
        ]
        epoch = OffsetForLeaderEpochRequest.OffsetForLeaderTopic.OffsetForLeaderPartition(partition=0, leader_epoch=0)
        topics = (OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="timed", partitions=(epoch,)),)
        end = await connection.ask_for(OffsetForLeaderEpochResponse, OffsetForLeaderEpochRequest(topics=topics))
        beyond = await fetch(connection, "timed", 7)
        behind = await fetch(connection, "timed", 6, current_leader_epoch=9)

        unknown = await connection.ask_for(ListOffsetsResponse, offsets("timed", -7))
        early = await connection.ask_for(ListOffsetsResponse, offsets("timed", MAX_TIMESTAMP), version=6)

    refused = [each.topics[0].partitions[0].error_code for each in (unknown, early)]
    assert [ErrorCode.UNSUPPORTED_VERSION] * 2 == refused
    assert [0, 6, 4, 2, 2, -1] == found
    assert [(0, 6)] == [(each.leader_epoch, each.end_offset) for each in end.topics[0].partitions]
    assert ErrorCode.OFFSET_OUT_OF_RANGE == beyond.error_code
    assert ErrorCode.UNKNOWN_LEADER_EPOCH == behind.error_code


async def test_a_producer_gets_an_id_and_what_it_sends_twice_is_there_once(
    cluster: Cluster, brokers: OwnBrokers
) -> None:
    _, connection = await led(cluster, brokers, "idempotent")
    async with connection:
        ids = [
            await connection.ask_for(InitProducerIdResponse, InitProducerIdRequest(transactional_id=None))
            for _ in range(2)
        ]
        mine = (ids[0].producer_id, ids[0].producer_epoch, 0)
        batch = produced(count=2, producer=mine)
        twice = [await produce(connection, "idempotent", batch) for _ in range(2)]
        gap = await produce(connection, "idempotent", produced(producer=(*mine[:2], 5)))
        topics = (DescribeProducersRequest.TopicRequest("idempotent", (0, 1, 0)),)
        described = await connection.ask_for(DescribeProducersResponse, DescribeProducersRequest(topics=topics))

    assert ids[0].producer_id != ids[1].producer_id
    assert [0, 0] == [each.base_offset for each in twice]
    assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER == gap.error_code
    known, unknown = described.topics[0].partitions
    assert [(mine[0], 0, 1)] == [
        (each.producer_id, each.producer_epoch, each.last_sequence) for each in known.active_producers
    ]
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == unknown.error_code


async def test_what_is_coordinated_elsewhere_is_said(cluster: Cluster, brokers: OwnBrokers) -> None:
    asked = [
        InitProducerIdRequest(transactional_id="mine"),
        InitProducerIdRequest(transactional_id=""),
        InitProducerIdRequest(transactional_id=None, producer_id=7),
    ]
    keys = dict.fromkeys((0, 1), ErrorCode.COORDINATOR_NOT_AVAILABLE) | dict.fromkeys((2, 3), ErrorCode.INVALID_REQUEST)
    async with await at(brokers, IDS[0]) as connection:
        refused = [(await connection.ask_for(InitProducerIdResponse, each)).error_code for each in asked]
        found = {
            each: await connection.ask_for(
                FindCoordinatorResponse, FindCoordinatorRequest(key_type=each, coordinator_keys=("a", "b"))
            )
            for each in keys
        }
        old = await connection.ask_for(FindCoordinatorResponse, FindCoordinatorRequest(key="a"), version=3)

    assert [ErrorCode.NOT_COORDINATOR, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST] == refused
    assert keys == {each: answer.coordinators[1].error_code for each, answer in found.items()}
    assert (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1) == (old.error_code, old.node_id)


async def test_deleted_records_are_gone_at_every_replica(cluster: Cluster, brokers: OwnBrokers) -> None:
    _, connection = await led(cluster, brokers, "trimmed")
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    partition_at = topic.DeleteRecordsPartition
    async with connection:
        for _ in range(3):
            await produce(connection, "trimmed", produced(count=2))
        wrong = [("trimmed", 0, 7), ("trimmed", 9, 0), ("__consumer_offsets", 0, 0)]
        found = []
        for name, index, offset in [("trimmed", 0, 4), *wrong, ("trimmed", 0, -1)]:
            partitions = (partition_at(index, offset), partition_at(index, 0))
            request = DeleteRecordsRequest(topics=(topic(name, partitions),) * 2, timeout_ms=TIMEOUT_MS)
            answer = await connection.ask_for(DeleteRecordsResponse, request)
            (result,) = answer.topics[0].partitions
            found.append((result.error_code, result.low_watermark))
        earliest = await connection.ask_for(ListOffsetsResponse, offsets("trimmed", EARLIEST))
        below = await fetch(connection, "trimmed", 5)

    assert [
        (ErrorCode.NONE, 4),
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        (ErrorCode.NONE, 6),
    ] == found
    assert 6 == earliest.topics[0].partitions[0].offset
    assert ErrorCode.OFFSET_OUT_OF_RANGE == below.error_code


async def test_log_directories_have_their_replicas_and_sizes(cluster: Cluster, brokers: OwnBrokers) -> None:
    leader, connection = await led(cluster, brokers, "sized")
    batch = produced(count=3)
    async with connection:
        await produce(connection, "sized", batch)
        every = await connection.ask_for(DescribeLogDirsResponse, DescribeLogDirsRequest(topics=None))
        chosen = DescribeLogDirsRequest(topics=(DescribeLogDirsRequest.DescribableLogDirTopic("sized", (0, 5)),))
        found = await connection.ask_for(DescribeLogDirsResponse, chosen)

    disks = {str(each) for each in brokers.disks(leader)}
    assert disks == {each.log_dir for each in every.results} == {each.log_dir for each in found.results}
    assert all(0 < each.usable_bytes <= each.total_bytes for each in every.results)
    assert [("sized", 0, len(batch), 0)] == [
        (topic.name, each.partition_index, each.partition_size, each.offset_lag)
        for directory in found.results
        for topic in directory.topics
        for each in topic.partitions
    ]


async def test_a_replica_moves_to_another_directory(cluster: Cluster, brokers: OwnBrokers) -> None:
    leader, connection = await led(cluster, brokers, "moved")
    (before,) = named(brokers, leader, "moved-0")
    (after,) = [disk for disk in brokers.disks(leader) if disk != before.parent]
    directory = AlterReplicaLogDirsRequest.AlterReplicaLogDir
    asked = AlterReplicaLogDirsRequest((directory(str(after), (directory.AlterReplicaLogDirTopic("moved", (0,)),)),))
    async with connection:
        for _ in range(3):
            await produce(connection, "moved", produced(count=2))
        answer = await connection.ask_for(AlterReplicaLogDirsResponse, asked)

        async def places() -> list[Path]:
            return named(brokers, leader, "moved-0")

        await eventually(places, lambda seen: seen == [after / "moved-0"])
        written = await produce(connection, "moved", produced(count=2))
        read = await fetch(connection, "moved", 0)

    meta = read_meta_properties(after)
    assert meta is not None

    async def directories() -> set[Uuid]:
        changes = stored_records(cluster.plan.log_dir(await cluster.active()))
        lists = [each.directories for each in changes if isinstance(each, PartitionChangeRecord)]
        return {place for each in lists for place in each or ()}

    await eventually(directories, lambda seen: meta.directory_id in seen)
    assert [0] == [each.error_code for each in answer.results[0].partitions]
    assert (0, 6) == (written.error_code, written.base_offset)
    assert [0, 2, 4, 6] == [header.base_offset for _, header in batches(read.records)]


async def test_a_partition_of_which_nobody_knows_is_set_aside_as_stray(cluster: Cluster, brokers: OwnBrokers) -> None:
    await brokers.stop(IDS[0])
    (brokers.disks(IDS[0])[0] / "nobody-3").mkdir()
    await brokers.start(IDS[0])

    assert [] == named(brokers, IDS[0], "nobody-3")
    assert 1 == len(named(brokers, IDS[0], "nobody-3.*-stray"))


async def test_what_the_disk_has_lost_ends_the_process_which_names_it(cluster: Cluster, brokers: OwnBrokers) -> None:
    """The last story: a broker does not answer over damage."""
    leader, connection = await led(cluster, brokers, "damaged")
    await produce(connection, "damaged", produced())
    (directory,) = named(brokers, leader, "damaged-0")
    segment = directory / "00000000000000000000.log"
    os.truncate(segment, 0)
    with pytest.raises(Disconnected):
        await fetch(connection, "damaged", 0)

    assert ExitCode.CORRUPT == await cluster.ended(brokers[leader])
    assert str(segment) in brokers.log(leader).rpartition("fatal")[2]
