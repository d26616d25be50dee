"""What a heartbeat says of directories: failed ones lose their replicas, cordoned ones get none (KIP-858, KIP-1066)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kraft import Message, Uuid
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.controller.clusters import Assignment, Cluster, Topic, uuid

GOOD, BAD, ELSEWHERE = uuid(901), uuid(902), uuid(903)
Directory = AssignReplicasToDirsRequest.DirectoryData


def cluster(level: int = 33) -> Cluster:
    """Broker 1 leads t-0 in GOOD and t-1 in BAD; of t-2 nobody knows where it lies."""
    made = Cluster(level)
    made.register(1, log_dirs=(GOOD, BAD))
    made.unfence(1)
    made.brokers(2)
    topic_id = made.topic("t", [1, 2], [1, 2], [1, 2])
    if level >= 17:
        for directory, partition_id in ((GOOD, 0), (BAD, 1)):
            partition = Directory.TopicData.PartitionData(partition_id)
            request = AssignReplicasToDirsRequest(
                1, epoch(made), (Directory(directory, (Directory.TopicData(topic_id, (partition,)),)),)
            )
            made.write(assign_replicas_to_dirs(request, settings=made.settings))
    return made


def epoch(made: Cluster) -> int:
    broker = made.state.brokers.get(1)
    assert broker is not None
    return broker.epoch


def heard(
    made: Cluster,
    *,
    offline: Sequence[Uuid] = (),
    cordoned: Sequence[Uuid] | None = None,
    target: ControlState = ControlState.UNFENCED,
) -> tuple[Message, ...]:
    """The records of a heartbeat of broker 1, which are applied."""
    command = change_broker_state(
        broker_id=1,
        broker_epoch=epoch(made),
        target=target,
        settings=made.settings,
        offline_log_dirs=offline,
        cordoned_log_dirs=cordoned,
    )
    records = made.decide(command).records
    made.apply(records)
    return records


def told(record: Message) -> tuple[Any, ...]:
    if isinstance(record, PartitionChangeRecord):
        return "partition", record.partition_id, record.isr, record.leader
    assert isinstance(record, BrokerRegistrationChangeRecord), record
    return "broker", record.fenced, record.log_dirs, record.cordoned_log_dirs


def test_the_replicas_of_a_failed_directory_lead_nothing_and_then_it_is_struck_off() -> None:
    made = cluster()

    assert [("partition", 1, (2,), 2), ("broker", 0, (GOOD,), None)] == [
        told(record) for record in heard(made, offline=[BAD])
    ]
    assert [1, 2, 1] == [made.partition("t", number).leader for number in range(3)]


@pytest.mark.parametrize("target", [ControlState.FENCED, ControlState.CONTROLLED_SHUTDOWN, ControlState.SHUTDOWN_NOW])
def test_a_broker_that_leaves_with_a_failed_directory_changes_each_partition_once(target: ControlState) -> None:
    """Kafka changes those in the directory twice, and their leader epoch with them."""
    made = cluster()

    records = heard(made, offline=[BAD], target=target)

    changed = [record.partition_id for record in records if isinstance(record, PartitionChangeRecord)]
    assert [0, 1, 2] == changed
    assert [1, 1, 1] == [made.partition("t", number).leader_epoch for number in range(3)]
    assert ("broker", 0, (GOOD,), None) == told(records[-1])


def test_a_broker_that_comes_back_does_not_lead_what_it_has_lost() -> None:
    made = cluster()
    made.change(2, ControlState.FENCED)
    heard(made, target=ControlState.FENCED)
    assert [-1, -1, -1] == [made.partition("t", number).leader for number in range(3)]

    records = heard(made, offline=[BAD])

    assert [("broker", -1, (), None), ("broker", 0, (GOOD,), None)] == [told(records[0]), told(records[-1])]
    assert [1, -1, 1] == [made.partition("t", number).leader for number in range(3)]


@pytest.mark.parametrize("offline", [[], [ELSEWHERE]], ids=["none", "one that is not its own"])
def test_what_the_log_does_not_have_cannot_fail(offline: list[Uuid]) -> None:
    assert () == heard(cluster(), offline=offline)


def test_a_failure_is_news_once() -> None:
    made = cluster()
    heard(made, offline=[BAD])

    assert () == heard(made, offline=[BAD])


def test_a_failure_and_a_fence_in_one_heartbeat() -> None:
    made = cluster()
    records = heard(made, offline=[BAD], target=ControlState.FENCED)

    assert ("broker", 1, (), None) in [told(record) for record in records]
    assert ("broker", 0, (GOOD,), None) == told(records[-1])
    assert [2, 2, 2] == [made.partition("t", number).leader for number in range(3)]


def test_before_directories_had_ids_none_fails() -> None:
    assert () == heard(cluster(level=14), offline=[BAD], cordoned=[GOOD])


@pytest.mark.parametrize(
    ("before", "said", "written"),
    [
        (None, [], ()),
        (None, [BAD], (BAD,)),
        ([BAD], [BAD], None),
        ([GOOD, BAD], [BAD, GOOD], None),
        ([BAD], None, None),
        ([BAD], [], ()),
    ],
    ids=["none, for the first time", "one", "the same", "the same in another order", "nothing", "no longer"],
)
def test_cordoned_directories_are_written_if_they_are_news(
    before: list[Uuid] | None, said: list[Uuid] | None, written: tuple[Uuid, ...] | None
) -> None:
    made = cluster()
    heard(made, cordoned=before)

    expected = [] if written is None else [("broker", 0, (), written)]

    assert expected == [told(record) for record in heard(made, cordoned=said)]


def test_before_4_3_nothing_is_cordoned() -> None:
    assert () == heard(cluster(level=29), cordoned=[BAD])


@pytest.mark.parametrize(("cordoned", "code"), [([BAD], 0), ([GOOD, BAD], ErrorCode.INVALID_REPLICA_ASSIGNMENT)])
def test_nobody_may_place_a_replica_on_a_broker_whose_directories_are_all_cordoned(
    cordoned: list[Uuid], code: int
) -> None:
    made = cluster()
    heard(made, cordoned=cordoned)

    assert [code] == [topic.error_code for topic in made.create(Topic("u", -1, -1, (Assignment(0, (2, 1)),))).topics]
