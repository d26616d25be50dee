"""How much one request may take: 10,000 records of whom wants something, and no limit to what brokers have to tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft import Message, Uuid
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX, Command, propose
from quorate.controller.engine.engine import Engine, EngineReady
from quorate.errors import ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.records import PartitionRecord, TopicRecord
from tests.controller.clusters import Cluster, uuid

MAX = RECORDS_PER_WRITE_MAX
BIG = uuid(1)
DIRECTORY = uuid(150)
"""Broker 1's."""


def cluster(*, partitions: int = 0, topics: int = 0) -> Cluster:
    """A topic `big` of partitions that broker 2 leads and 1 is preferred for, both in sync; and topics of one each."""
    made = Cluster(25).brokers(1, 2)
    records: list[Message] = [TopicRecord("big", BIG), *(row(BIG, number) for number in range(partitions))]
    for number in range(topics):
        records += TopicRecord(f"t{number}", uuid(10 + number)), row(uuid(10 + number), 0)
    for offset, record in enumerate(records, start=made.next_offset):
        made.state.apply(record, offset)
    made.next_offset += len(records)
    return made


def row(topic_id: Uuid, number: int) -> PartitionRecord:
    return PartitionRecord(
        number,
        topic_id,
        replicas=(1, 2),
        isr=(1, 2),
        leader=2,
        leader_epoch=0,
        partition_epoch=0,
        directories=(uuid(0), uuid(0)),
    )


def elect(made: Cluster) -> Command[Any]:
    return elect_leaders(ElectLeadersRequest(topic_partitions=None), settings=made.settings)


def move(made: Cluster) -> Command[Any]:
    asked = AlterPartitionReassignmentsRequest.ReassignableTopic
    count = len(topic_partitions(made))
    partitions = tuple(asked.ReassignablePartition(number, (2, 1)) for number in range(count))
    request = AlterPartitionReassignmentsRequest(topics=(asked("big", partitions),))
    return alter_partition_reassignments(request, settings=made.settings)


def delete(made: Cluster) -> Command[Any]:
    names = tuple(topic.name for topic in made.state.topics if topic.name != "big")
    return delete_topics(DeleteTopicsRequest(topic_names=names), settings=made.settings)


def check_configs(made: Cluster) -> Command[Any]:
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource
    names = [topic.name for topic in made.state.topics if topic.name != "big"]
    resources = tuple(asked(TOPIC, name, (asked.AlterableConfig("flush.ms", 0, "7"),)) for name in names)
    request = IncrementalAlterConfigsRequest(resources, validate_only=True)
    return incremental_alter_configs(request, settings=made.settings)


def topic_partitions(made: Cluster) -> range:
    topic = made.state.topics.by_name("big")
    assert topic is not None
    return range(len(topic.partitions))


def shrink(made: Cluster) -> Command[Any]:
    """Broker 2 tells that 1 is behind, everywhere."""
    asked = AlterPartitionRequest.TopicData
    state = asked.PartitionData.BrokerState
    partitions = tuple(
        asked.PartitionData(number, 0, new_isr_with_epochs=(state(2, epoch_of(made, 2)),))
        for number in topic_partitions(made)
    )
    return alter_partition(
        AlterPartitionRequest(2, epoch_of(made, 2), (asked(BIG, partitions),)), settings=made.settings
    )


def assign(made: Cluster) -> Command[Any]:
    """Broker 1 tells where its replicas are."""
    asked = AssignReplicasToDirsRequest.DirectoryData
    partitions = tuple(asked.TopicData.PartitionData(number) for number in topic_partitions(made))
    directory = asked(DIRECTORY, (asked.TopicData(BIG, partitions),))
    return assign_replicas_to_dirs(
        AssignReplicasToDirsRequest(1, epoch_of(made, 1), (directory,)), settings=made.settings
    )


def epoch_of(made: Cluster, broker_id: int) -> int:
    broker = made.state.brokers.get(broker_id)
    assert broker is not None
    return broker.epoch


def written(made: Cluster, command: Command[Any]) -> EngineReady:
    """What the engine makes of it, all committed."""
    engine = Engine(made.state, next_offset=made.next_offset, is_loaded=True)
    engine.claim(1, made.next_offset)
    engine.write("asked", command, now_ms=0)
    begun = engine.ready()
    engine.note_appended(engine.next_offset)
    engine.commit(engine.next_offset)
    return EngineReady(appends=begun.appends, answers=begun.answers + engine.ready().answers)


AT_ONCE = "the request takes more than 10000 records, which is the most that one write has"
"""Long work stops once its refusal is certain."""
WISHES: dict[str, tuple[Callable[[Cluster], Command[Any]], str, str]] = {
    "ElectLeaders": (elect, "partitions", AT_ONCE),
    "AlterPartitionReassignments": (move, "partitions", AT_ONCE),
    "DeleteTopics": (delete, "topics", "the request takes 10001 records; one write has at most 10000"),
}


@pytest.mark.parametrize(("command", "what", "why"), WISHES.values(), ids=WISHES)
def test_a_wish_has_ten_thousand_records_at_most(
    command: Callable[[Cluster], Command[Any]], what: str, why: str
) -> None:
    """All or nothing, as ElectLeaders in Kafka (MAX_RECORDS_PER_USER_OP), which does the first 10,000 of the others."""
    just, beyond = (cluster(**{what: count}) for count in (MAX, MAX + 1))
    fits, refused = written(just, command(just)), written(beyond, command(beyond))

    assert ([MAX], [None]) == ([len(each.values) for each in fits.appends], [each.error for each in fits.answers])
    assert ((), [(ErrorCode.POLICY_VIOLATION, why)]) == (
        refused.appends,
        [(each.error.code, each.error.message) for each in refused.answers if each.error is not None],
    )


@pytest.mark.parametrize("dry", [lambda made: propose(delete(made)), check_configs], ids=["ours", "Kafka's"])
def test_a_dry_run_is_refused_as_the_wish_would_be(dry: Callable[[Cluster], Command[Any]]) -> None:
    made = cluster(topics=MAX + 1)
    refused = written(made, dry(made))

    assert ((), [ErrorCode.POLICY_VIOLATION]) == (
        refused.appends,
        [each.error.code for each in refused.answers if each.error is not None],
    )


@pytest.mark.parametrize("command", [shrink, assign], ids=["AlterPartition", "AssignReplicasToDirs"])
def test_what_a_broker_tells_is_taken_in_several_batches(command: Callable[[Cluster], Command[Any]]) -> None:
    """It tells of all its partitions at once. Kafka: ControllerResult.of, not atomic, and without a bound."""
    made = cluster(partitions=MAX + 1)
    ready = written(made, command(made))

    assert ([MAX, 1], [None]) == ([len(each.values) for each in ready.appends], [each.error for each in ready.answers])
