"""What a caller may ask of a broker, by its rights: what is refused, in which code, and that nothing comes of it."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kraft import Uuid
from kraft.api.delete_records import DeleteRecordsRequest
from kraft.api.describe_log_dirs import DescribeLogDirsRequest
from kraft.api.describe_producers import DescribeProducersRequest
from kraft.api.fetch import FetchRequest, FetchResponse
from kraft.api.find_coordinator import FindCoordinatorRequest
from kraft.api.init_producer_id import InitProducerIdRequest
from kraft.api.list_offsets import ListOffsetsRequest
from kraft.api.metadata import MetadataRequest, MetadataResponse
from kraft.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kraft.api.produce import ProduceRequest
from quorate.authorizer import CLUSTER_NAME
from quorate.controller.engine.steps import finished
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.runtime.access import audit
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.telemetry.tracing import OFF
from quorate.wire.codec import decode, encode
from services.broker.callers import Caller
from services.broker.cluster import NO_TOPIC_ID, Cluster
from services.broker.coordinators import Coordinators
from services.broker.deletion import Deletion
from services.broker.descriptions import describe_log_dirs, describe_producers
from services.broker.fetch import Fetch
from services.broker.fetch_sessions import FetchSessions
from services.broker.offsets import Offsets
from services.broker.produce import Produce
from services.broker.producer_ids import ProducerIds
from services.broker.tracing import ProduceTraces
from services.broker.transaction_markers import TransactionMarkers
from services.broker.verification import Verifier
from tests.partition_log.batches import produced
from tests.services.broker import test_partitions
from tests.services.broker.calling import LISTENER, caller, codes_in, user_with
from tests.services.broker.coordinating import partitions_of
from tests.services.broker.test_partitions import BROKERS, LEVELS, ME, ORDERS, OTHER, TOPIC, Scene, partition, running
from tests.services.broker.test_transactions import Leader, leading

disks = test_partitions.disks
NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOBODYS = Uuid(bytes([9] * 16))


def on(topic: str, operation: AclOperation) -> Caller:
    return user_with((operation, ResourceType.TOPIC, topic))


def on_cluster(operation: AclOperation) -> Caller:
    return user_with((operation, ResourceType.CLUSTER, CLUSTER_NAME))


def code_of(answer: Any) -> ErrorCode:
    """The first error code in an answer, or in its items."""
    found = list(codes_in(msgspec.to_builtins(answer)))
    return ErrorCode(next((each for each in found if each), found[0]))


class Broker:
    """What a broker of one topic answers a caller."""

    def __init__(self, leader: Leader, scene: Scene) -> None:
        replicas = leader.replicas
        self.leader = leader
        self.cluster = Cluster(ME, "ours", LISTENER, lambda: scene.replica.state, replicas.table)
        traces = ProduceTraces(OFF)
        self.fetch, self.offsets = Fetch(replicas, self.cluster, traces), Offsets(self.cluster)
        self.produce = Produce(replicas, self.cluster, traces, Verifier(replicas, self.cluster, leader.coordinators))
        self.deletion, self.markers = Deletion(replicas, self.cluster), TransactionMarkers(replicas, self.cluster)

    async def fetched(self, who: Caller, *, topic_id: Uuid = TOPIC, replica: int = -1) -> ErrorCode:
        return code_of(await self.begun(who, topic_id=topic_id, replica=replica, session_epoch=-1))

    async def begun(
        self, who: Caller, *, topic_id: Uuid = TOPIC, replica: int = -1, session_epoch: int = 0
    ) -> FetchResponse:
        asked = FetchRequest.FetchTopic.FetchPartition(partition=0, partition_max_bytes=1)
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica, 5),
            max_wait_ms=0,
            session_epoch=session_epoch,
            topics=(FetchRequest.FetchTopic(topic_id=topic_id, partitions=(asked,)),),
        )
        return await self.fetch.answer(request, 17, who)

    async def produced(self, who: Caller, *, topic_id: Uuid = TOPIC) -> ErrorCode:
        data = ProduceRequest.TopicProduceData.PartitionProduceData(0, produced(count=1))
        topics = (ProduceRequest.TopicProduceData(topic_id=topic_id, partition_data=(data,)),)
        return code_of(await self.produce.answer(ProduceRequest(None, 1, 1_000, topics), 13, who))

    async def listed(self, who: Caller) -> ErrorCode:
        asked = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(0, -1, -2)
        request = ListOffsetsRequest(topics=(ListOffsetsRequest.ListOffsetsTopic("orders", (asked,)),))
        return code_of(await in_turns(self.offsets.list(request, 9, who)))

    async def epochs(self, who: Caller) -> ErrorCode:
        of = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        asked = of("orders", (of.OffsetForLeaderPartition(0, -1, 0),))
        return code_of(await in_turns(self.offsets.of_epochs(OffsetForLeaderEpochRequest(-1, (asked,)), who)))

    async def deleted(self, who: Caller) -> ErrorCode:
        of = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest((of("orders", (of.DeleteRecordsPartition(0, 0),)),), 1)
        return code_of(await self.deletion.answer(request, who))

    async def writers(self, who: Caller) -> ErrorCode:
        request = DescribeProducersRequest((DescribeProducersRequest.TopicRequest("orders", (0,)),))
        return code_of(await in_turns(describe_producers(request, self.cluster, who)))


READ, WRITE, DESCRIBE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DELETE
ACTS, ALTERS = AclOperation.CLUSTER_ACTION, AclOperation.ALTER


async def test_each_api_takes_its_right_on_the_topic(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        broker = Broker(leader, leader.scene)
        asks = {
            "fetched": (broker.fetched, READ, WRITE),
            "produced": (broker.produced, WRITE, READ),
            "listed": (broker.listed, DESCRIBE, AclOperation.ALTER_CONFIGS),
            "epochs": (broker.epochs, DESCRIBE, AclOperation.ALTER_CONFIGS),
            "writers": (broker.writers, READ, WRITE),
        }
        with_it = {name: await ask(on("orders", right)) for name, (ask, right, _) in asks.items()}
        without = {name: await ask(on("orders", wrong)) for name, (ask, _, wrong) in asks.items()}
        elsewhere = {name: await ask(on("others", right)) for name, (ask, right, _) in asks.items()}

        assert dict.fromkeys(asks, NONE) == with_it
        assert dict.fromkeys(asks, DENIED) == without == elsewhere
        assert 1 == leader[0].log.leo
        assert DENIED == await broker.deleted(on("orders", WRITE))
        assert DENIED != await broker.deleted(on("orders", DELETE))


async def test_a_topic_id_that_is_nobodys_is_unknown_to_whoever_asks(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        broker = Broker(leader, leader.scene)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID

        assert [unknown] * 2 == [await ask(user_with(), topic_id=NOBODYS) for ask in (broker.fetched, broker.produced)]


async def test_a_replica_needs_the_right_of_brokers_and_none_on_topics(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        broker = Broker(leader, leader.scene)

        assert DENIED == await broker.fetched(on("orders", READ), replica=OTHER)
        assert NONE == await broker.fetched(on_cluster(ACTS), replica=OTHER)
        assert NONE == await broker.epochs(on_cluster(ACTS))
        assert DENIED == await broker.fetched(on_cluster(ACTS))


async def test_who_only_says_that_it_is_a_replica_ends_no_fetch_session_of_others(
    disks: list[Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the audit log has one line of it, as before."""
    monkeypatch.setattr("services.broker.fetch.FetchSessions", partial(FetchSessions, slots=1))
    caplog.set_level("INFO", audit.LOGGER)
    async with leading(disks) as leader:
        broker = Broker(leader, leader.scene)
        reader, pretender, replica = on("orders", READ), on("orders", READ), on_cluster(ACTS)
        session_id = (await broker.begun(reader)).session_id
        caplog.clear()
        pretended = await broker.begun(pretender, replica=OTHER)
        told = [each for each in caplog.records if each.name == audit.LOGGER]
        going_on = FetchRequest(session_id=session_id, session_epoch=1, max_wait_ms=0)

        assert (0, DENIED) == (pretended.session_id, code_of(pretended))
        assert 1 == len(told)
        assert ErrorCode.NONE == (await broker.fetch.answer(going_on, 17, reader)).error_code
        assert 0 != (await broker.begun(replica, replica=OTHER)).session_id


@pytest.mark.parametrize(("who", "told"), [(ACTS, NONE), (ALTERS, NONE), (DESCRIBE, 31)])
async def test_markers_are_of_those_who_may_act_for_the_cluster(
    disks: list[Path], who: AclOperation, told: int
) -> None:
    async with leading(disks) as leader:
        leader.caller = on_cluster(who)
        marking = await leader.marked_at_once(0)

        assert [told] == marking
        assert (0 if told else 1) == leader[0].log.leo


async def test_a_transaction_is_of_those_who_may_write_by_its_id(disks: list[Path]) -> None:
    """No coordinator is asked for the others, nor about a topic that the caller may not write to."""
    batch = produced(producer=(7, 0, 0), transactional=True, timestamp_ms=-1)
    topic, of_id = (WRITE, ResourceType.TOPIC, "orders"), (WRITE, ResourceType.TRANSACTIONAL_ID, "t")
    async with leading(disks) as leader:
        outcomes = []
        for rights in ((topic,), (of_id,), (topic, of_id)):
            leader.caller = user_with(*rights)
            outcomes += await leader.produce((0, batch))
            if len(outcomes) < 3:
                assert [] == leader.coordinator.asked
        ((asked,),) = leader.coordinator.asked

        assert [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, DENIED, NONE] == outcomes
        assert [leader[0].name] == partitions_of(asked)


def topics_of(answer: MetadataResponse) -> list[tuple[str | None, int]]:
    return [(each.name, each.error_code) for each in answer.topics]


async def test_metadata_hides_what_the_caller_may_not_describe(disks: list[Path]) -> None:
    of = MetadataRequest.MetadataRequestTopic
    async with leading(disks) as leader:
        cluster = Broker(leader, leader.scene).cluster
        sees, blind = on("orders", DESCRIBE), on("others", DESCRIBE)
        named = MetadataRequest(topics=(of(name="orders"), of(name="others")))
        by_id = MetadataRequest(topics=(of(topic_id=TOPIC, name=None), of(topic_id=NOBODYS, name=None)))

        assert [("orders", NONE)] == topics_of(finished(cluster.metadata(MetadataRequest(topics=None), 13, sees)))
        assert [] == topics_of(finished(cluster.metadata(MetadataRequest(topics=None), 13, blind)))
        assert [("orders", DENIED), ("others", 3)] == topics_of(finished(cluster.metadata(named, 13, blind)))
        hidden = finished(cluster.metadata(by_id, 13, blind))
        assert [(None, DENIED), (None, ErrorCode.UNKNOWN_TOPIC_ID)] == topics_of(hidden)
        assert [(), ()] == [each.partitions for each in hidden.topics]


async def test_the_audit_log_has_few_lines_of_one_request_that_is_denied_much(caplog: pytest.LogCaptureFixture) -> None:
    """All of the first hundred, then the 128th, 256th, 512th with their number: what one sends does not fill a disk."""
    caplog.set_level("INFO", audit.LOGGER)
    who = user_with()
    allowed = [who.may(DESCRIBE, ResourceType.TOPIC, f"t{number}") for number in range(1_000)]

    assert not any(allowed)
    assert 103 == len([each for each in caplog.records if each.name == audit.LOGGER])


async def test_metadata_tells_what_the_caller_may_do(disks: list[Path]) -> None:
    async with leading(disks) as leader:
        cluster = Broker(leader, leader.scene).cluster
        asked = MetadataRequest(
            topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        )
        answer = finished(cluster.metadata(asked, 10, on("orders", READ)))

        assert [1 << READ | 1 << DESCRIBE] == [each.topic_authorized_operations for each in answer.topics]
        assert 0 == answer.cluster_authorized_operations


class Block:
    """A controller that gives producer ids."""

    async def ask(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(producer_id_start=0, producer_id_len=10)


async def test_producer_ids_are_of_those_who_may_write_somewhere() -> None:
    ids = ProducerIds(ME, Block(), lambda: 1)  # type: ignore[arg-type]
    asked = InitProducerIdRequest(transactional_id=None)
    of_transaction = InitProducerIdRequest(transactional_id="t")
    of_id = user_with((WRITE, ResourceType.TRANSACTIONAL_ID, "t"))

    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == (await ids.answer(asked, on("orders", READ))).error_code
    assert NONE == (await ids.answer(asked, on("orders", WRITE))).error_code
    assert NONE == (await ids.answer(asked, on_cluster(AclOperation.IDEMPOTENT_WRITE))).error_code
    denied = await ids.answer(of_transaction, on("orders", WRITE))
    assert ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED == denied.error_code
    assert ErrorCode.NOT_COORDINATOR == (await ids.answer(of_transaction, of_id)).error_code


@pytest.mark.parametrize(
    ("key_type", "key", "kind", "refused"),
    [
        (0, "g", ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (1, "t", ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
async def test_a_coordinator_is_named_to_those_who_may_describe_the_key(
    disks: list[Path], key_type: int, key: str, kind: ResourceType, refused: ErrorCode
) -> None:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0))
        await scene.applied(lambda: len(scene.names) == 1)
        cluster = Cluster(ME, "ours", LISTENER, lambda: scene.replica.state, scene.replicas.table)
        coordinators = Coordinators(ME, scene.replica, cluster)
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
        told = [code_of(await in_turns(coordinators.answer(request, 6, who))) for who in
                (user_with(), user_with((DESCRIBE, kind, key)), caller())]  # fmt: skip

        assert [refused, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2] == told


async def others_turns(steps: Any) -> tuple[Any, int]:
    """The result of work in steps, and the turns of the loop that others had meanwhile."""
    count = 0

    def turn() -> None:
        nonlocal count
        count += 1
        loop.call_soon(turn)

    loop = asyncio.get_running_loop()
    loop.call_soon(turn)
    result = await steps
    return result, count


MANY = 3_000


async def test_who_asks_about_very_many_leaves_the_loop_to_others(disks: list[Path]) -> None:
    """For every caller, and whether any of the topics is there."""
    names = [f"t{number}" for number in range(MANY)]
    offsets, epochs = ListOffsetsRequest.ListOffsetsTopic, OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    data, dirs = ProduceRequest.TopicProduceData, DescribeLogDirsRequest.DescribableLogDirTopic
    metadata = MetadataRequest(topics=tuple(MetadataRequest.MetadataRequestTopic(name=name) for name in names))
    listed = tuple(offsets(name, (offsets.ListOffsetsPartition(0, -1, -1),)) for name in names)
    ends = tuple(epochs(name, (epochs.OffsetForLeaderPartition(0, -1, 0),)) for name in names)
    written = tuple(data(name, partition_data=(data.PartitionProduceData(0, None),)) for name in names)
    on_disks = DescribeLogDirsRequest((dirs("orders", tuple(range(MANY))),))
    async with leading(disks) as leader:
        broker = Broker(leader, leader.scene)
        for who in (caller(), user_with()):
            asks = {
                "metadata": in_turns(broker.cluster.metadata(metadata, 12, who)),
                "offsets": in_turns(broker.offsets.list(ListOffsetsRequest(topics=listed), 9, who)),
                "epochs": in_turns(broker.offsets.of_epochs(OffsetForLeaderEpochRequest(-1, ends), who)),
                "produce": broker.produce.answer(ProduceRequest(None, 1, 1_000, written), 9, who),
            }
            for name, asked in asks.items():
                answer, turns = await others_turns(asked)
                assert MANY == len([each for each in codes_in(msgspec.to_builtins(answer)) if each]), name
                assert turns >= 2, name
        whole, turns = await others_turns(
            in_turns(describe_log_dirs(on_disks, [leader[0].directory], leader.replicas.table, caller()))
        )
        assert NONE == whole.error_code
        assert turns >= 2


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    ("topic_id", "name"),
    [(TOPIC, None), (NOBODYS, None), (NO_TOPIC_ID, None), (TOPIC, "o")],
    ids=["id", "unknown id", "neither", "both"],
)
async def test_metadata_by_id_is_refused_before_its_versions(
    disks: list[Path], topic_id: Uuid, name: str | None, version: int
) -> None:
    """Kafka: KafkaApis.handleTopicMetadataRequest, MetadataRequest.getErrorResponse. A name is not null before 12."""
    asked = MetadataRequest(topics=(MetadataRequest.MetadataRequestTopic(topic_id, name),))
    async with leading(disks) as leader:
        for who in (caller(), user_with()):
            answer = finished(Broker(leader, leader.scene).cluster.metadata(asked, version, who))
            sent = encode(answer, version)

            assert [(name or "", ErrorCode.INVALID_REQUEST)] == topics_of(decode(MetadataResponse, sent, version))
