"""CreateTopics: what is refused and why, what is written, what is answered. Rules: Kafka's, unless a line says else."""

from __future__ import annotations

from random import Random

import pytest

from kraft import Uuid
from kraft.api.create_topics import CreateTopicsRequest
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.new_partitions import StalePlacement, usable_brokers
from quorate.controller.settings import Settings
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.nouns import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from quorate.placement import PlacementSpec, UsableBroker
from quorate.records import BrokerRegistrationChangeRecord, ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord
from tests.controller.clusters import Assignment, Cluster, Config, Topic, uuid


def by_hand(name: str, *replicas: tuple[int, ...], **changes: int) -> Topic:
    assignments = tuple(Assignment(i, brokers) for i, brokers in enumerate(replicas))
    return Topic(name, changes.get("count", -1), changes.get("factor", -1), assignments)


def three() -> Cluster:
    """Brokers 1 to 3 take part, 4 is fenced; topic `a.b` exists."""
    cluster = Cluster().brokers(1, 2, 3)
    cluster.register(4)
    cluster.topic("a.b", [1, 2])
    return cluster


REFUSED = {
    "a name that is empty": (Topic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name of one dot": (Topic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name of two dots": (Topic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name of 250 characters": (Topic("x" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name with a slash": (Topic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name with an umlaut": (Topic("ä", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name that metrics cannot tell apart": (Topic("a_b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "a name that is taken": (Topic("a.b", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
    "the metadata log": (Topic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
    "no partitions": (Topic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
    "fewer than no partitions": (Topic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (Topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "neither: the replicas are named": (Topic("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "more replicas than brokers": (Topic("t", 1, 5), ErrorCode.INVALID_REPLICATION_FACTOR),
    "a config that does not exist": (Topic("t", 1, 1, (), (Config("no.such", "1"),)), ErrorCode.INVALID_CONFIG),
    "a config without value": (Topic("t", 1, 1, (), (Config("segment.ms", None),)), ErrorCode.INVALID_CONFIG),
    "a config out of range": (Topic("t", 1, 1, (), (Config("segment.ms", "0"),)), ErrorCode.INVALID_CONFIG),
    "a config that is too long": (
        Topic("t", 1, 1, (), (Config("leader.replication.throttled.replicas", "0:1" + ",0:1" * 8_192),)),
        ErrorCode.INVALID_CONFIG,
    ),
    "tiered storage that the brokers do not have": (
        Topic("t", 1, 1, (), (Config("remote.storage.enable", "true"),)),
        ErrorCode.INVALID_CONFIG,
    ),
    "a bad config before a bad count": (Topic("t", 0, 0, (), (Config("x", "0"),)), ErrorCode.INVALID_CONFIG),
    "by hand, with a count": (by_hand("t", (1,), count=1), ErrorCode.INVALID_REQUEST),
    "by hand, with a factor": (by_hand("t", (1,), factor=1), ErrorCode.INVALID_REQUEST),
    "by hand, nobody": (by_hand("t", ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "by hand, twice the same": (by_hand("t", (1, 2, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "by hand, a stranger": (by_hand("t", (1, 9)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "by hand, unequally many": (by_hand("t", (1, 2), (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "by hand, only fenced ones": (by_hand("t", (4,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "by hand, not from 0": (Topic("t", -1, -1, (Assignment(1, (1,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "by hand, a partition twice": (
        Topic("t", -1, -1, (Assignment(0, (1,)), Assignment(0, (2,)))),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
}


@pytest.mark.parametrize(("topic", "code"), REFUSED.values(), ids=REFUSED)
def test_refuses(topic: Topic, code: ErrorCode) -> None:
    cluster = three()
    decision = cluster.decide(cluster.creating(CreateTopicsRequest(topics=(topic,)), Random(1)))

    assert [(topic.name, code)] == [(result.name, result.error_code) for result in decision.response.topics]
    assert decision.response.topics[0].error_message
    assert decision.records == ()


def test_refuses_names_that_come_twice_once_and_last() -> None:
    cluster = three()
    response = cluster.create(Topic("t", 1, 1), Topic("u", 1, 1), Topic("t", 2, 1), random=Random(1))

    assert [(row.name, row.error_code) for row in response.topics] == [("u", 0), ("t", ErrorCode.INVALID_REQUEST)]


def test_one_bad_topic_does_not_hinder_the_others() -> None:
    cluster = three()
    response = cluster.create(Topic("x", 0, 1), Topic("y", 1, 1), random=Random(1))

    assert [row.error_code for row in response.topics] == [ErrorCode.INVALID_PARTITIONS, 0]
    assert cluster.state.topics.id_of("y") is not None


def test_refuses_more_than_ten_thousand_partitions_as_a_whole() -> None:
    cluster = three()
    request = CreateTopicsRequest(topics=(Topic("x", 9_999, 1), Topic("y", 2, 1)))
    with pytest.raises(ApiError) as refused:
        wanted_placements(cluster.state, request, cluster.settings)

    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_a_negative_count_buys_no_room() -> None:
    cluster = three()
    request = CreateTopicsRequest(topics=(Topic("x", -20_000, 1), Topic("y", 10_001, 1)))
    with pytest.raises(ApiError, match="10001 partitions"):
        wanted_placements(cluster.state, request, cluster.settings)


def test_with_elr_its_own_least_in_sync_replicas_are_a_change_of_them() -> None:
    """Kafka: createTopics writes what altering the config would."""
    cluster = Cluster(elr=True).brokers(1)
    topics = (
        Topic("t", -1, -1, (Assignment(0, (1,)),), (Config("min.insync.replicas", "1"),)),
        Topic("u", -1, -1, (Assignment(0, (1,)),), (Config("segment.ms", "9"),)),
    )
    records = cluster.decide(cluster.creating(CreateTopicsRequest(topics=topics))).records

    assert ["TopicRecord", "ConfigRecord", "ClearElrRecord", "PartitionRecord"] == [
        type(record).__name__ for record in records[:4]
    ]
    assert [ClearElrRecord("t")] == [record for record in records if isinstance(record, ClearElrRecord)]


def test_writes_topic_configs_and_partitions_in_this_order() -> None:
    cluster = three()
    topic = Topic(
        "t",
        -1,
        -1,
        (Assignment(1, (4, 3)), Assignment(0, (1, 2))),
        (Config("segment.ms", "9"), Config("preallocate", "true")),
    )
    records = cluster.decide(cluster.creating(CreateTopicsRequest(topics=(topic,)))).records
    topic_id = records[0].topic_id  # type: ignore[attr-defined]
    expected = (
        TopicRecord("t", topic_id),
        ConfigRecord(2, "t", "segment.ms", "9"),
        ConfigRecord(2, "t", "preallocate", "true"),
        partition_record(topic_id, 0, replicas=(1, 2), isr=(1, 2), leader=1),
        partition_record(topic_id, 1, replicas=(4, 3), isr=(3,), leader=3),  # 4 is fenced
    )

    assert expected == records


def partition_record(
    topic_id: Uuid, number: int, *, replicas: tuple[int, ...], isr: tuple[int, ...], leader: int
) -> PartitionRecord:
    return PartitionRecord(
        number,
        topic_id,
        replicas,
        isr,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(uuid(broker * 100 + 50) for broker in replicas),
    )


def test_answers_what_is_in_effect() -> None:
    cluster = three()
    cluster.apply([ConfigRecord(4, "", "min.insync.replicas", "2")])
    result = cluster.create(Topic("t", 2, 3, (), (Config("segment.ms", "9"),)), random=Random(1)).topics[0]
    configs = {row.name: (row.value, row.config_source) for row in result.configs or ()}

    assert (
        result.error_code,
        result.error_message,
        result.num_partitions,
        result.replication_factor,
    ) == (0, None, 2, 3)
    assert cluster.state.topics.id_of("t") == result.topic_id
    assert list(configs) == sorted(configs)
    assert configs["segment.ms"] == ("9", 1)
    assert configs["min.insync.replicas"] == ("2", 3)
    assert configs["cleanup.policy"] == ("delete", 5)


def test_validating_answers_the_same_and_writes_nothing() -> None:
    cluster = three()
    request = CreateTopicsRequest(topics=(Topic("t", 1, 1),), validate_only=True)
    decision = cluster.decide(cluster.creating(request, Random(1)))

    assert (decision.response.topics[0].error_code, decision.response.topics[0].num_partitions) == (0, 1)
    assert decision.records == ()


def test_minus_one_is_the_default() -> None:
    cluster = Cluster(settings=Settings(num_partitions=4, default_replication_factor=2)).brokers(1, 2)
    request = CreateTopicsRequest(topics=(Topic("t", -1, -1),))
    spec = PlacementSpec(partition_count=4, replication_factor=2)

    assert (("t", spec),) == wanted_placements(cluster.state, request, cluster.settings)


def test_asks_for_no_placement_of_what_is_refused_or_placed_by_hand() -> None:
    cluster = three()
    request = CreateTopicsRequest(topics=(Topic("x", 0, 1), by_hand("y", (1,)), Topic("a.b", 1, 1), Topic("z", 1, 1)))

    assert [name for name, _ in wanted_placements(cluster.state, request, cluster.settings)] == ["z"]


@pytest.mark.parametrize(
    ("log_dirs", "level", "expected"),
    [
        ((uuid(7),), 25, (uuid(7),)),
        ((uuid(7), uuid(8)), 25, (UNASSIGNED_DIRECTORY,)),
        ((), 16, ()),
    ],
    ids=["its only directory", "one of several, nobody knows which", "below 3.7-IV2 none is written"],
)
def test_a_replica_lies_in(log_dirs: tuple[Uuid, ...], level: int, expected: tuple[Uuid, ...]) -> None:
    """KIP-858."""
    cluster = Cluster(level)
    cluster.register(1, log_dirs=log_dirs)
    cluster.change(1, ControlState.UNFENCED)
    record = cluster.decide(cluster.creating(CreateTopicsRequest(topics=(by_hand("t", (1,)),)))).records[-1]

    assert isinstance(record, PartitionRecord)
    assert expected == record.directories


def test_a_broker_from_before_directories_has_replicas_on_the_move() -> None:
    cluster = Cluster(16).brokers(1)
    cluster.topic("t", [1])

    assert cluster.partition("t").directories == (MIGRATING_DIRECTORY,)


def test_usable_are_those_that_stay_and_have_room() -> None:
    """KIP-841: not on the way out. KIP-1066: not with all directories cordoned."""
    cluster = Cluster(33).brokers(1, 2, 3)
    cluster.register(4)
    cluster.topic("t", [2, 1])
    cluster.change(2, ControlState.CONTROLLED_SHUTDOWN)
    third = cluster.state.brokers.get(3)
    assert third is not None
    cluster.apply([BrokerRegistrationChangeRecord(3, third.epoch, cordoned_log_dirs=third.log_dirs)])

    assert (UsableBroker(id=1), UsableBroker(id=4, fenced=True)) == usable_brokers(cluster.state)


@pytest.mark.parametrize("target", [ControlState.FENCED, ControlState.CONTROLLED_SHUTDOWN])
def test_a_placement_is_stale_when_its_leader_has_gone_meanwhile(target: ControlState) -> None:
    cluster = Cluster().brokers(1, 2)
    cluster.topic("led", [1, 2])
    request = CreateTopicsRequest(topics=(Topic("t", 1, 2),))
    command = create_topics(
        request, placements={"t": ((1, 2),)}, new_topic_id=lambda: uuid(5), settings=cluster.settings
    )
    cluster.change(1, target)
    refused = cluster.refusal(command)

    assert isinstance(refused, StalePlacement)
    assert refused.code == ErrorCode.REPLICA_NOT_AVAILABLE


def test_a_placement_is_stale_when_there_is_none() -> None:
    """The name was taken when the placer was asked, and is free now."""
    cluster = Cluster().brokers(1)
    request = CreateTopicsRequest(topics=(Topic("t", 1, 1),))
    command = create_topics(request, placements={}, new_topic_id=lambda: uuid(5), settings=cluster.settings)

    assert isinstance(cluster.refusal(command), StalePlacement)


def test_an_answer_of_the_placer_that_does_not_fit_is_the_placers_fault() -> None:
    cluster = Cluster().brokers(1)
    request = CreateTopicsRequest(topics=(Topic("t", 2, 1),))
    command = create_topics(request, placements={"t": ((1,),)}, new_topic_id=lambda: uuid(5), settings=cluster.settings)

    assert cluster.decide(command).response.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_ids_that_are_taken_or_reserved_are_passed_over() -> None:
    cluster = Cluster().brokers(1)
    taken = cluster.topic("a", [1])
    ids = iter([Uuid(bytes(16)), Uuid(bytes(15) + b"\x01"), taken, uuid(77)])
    request = CreateTopicsRequest(topics=(by_hand("b", (1,)),))
    command = create_topics(request, placements={}, new_topic_id=lambda: next(ids), settings=cluster.settings)

    assert uuid(77) == cluster.write(command).topics[0].topic_id
