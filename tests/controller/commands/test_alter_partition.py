"""AlterPartition: every error in its order, and the ISR that comes of it (KIP-497, 841, 903, 704, 455)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kraft.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from quorate.controller.commands.alter_partition import alter_partition
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import RECOVERED, RECOVERING
from quorate.nouns import UNASSIGNED_DIRECTORY
from quorate.records import PartitionChangeRecord
from tests.controller.clusters import Cluster, uuid

Topic = AlterPartitionRequest.TopicData
Asked = Topic.PartitionData
Member = Asked.BrokerState
Told = AlterPartitionResponse.TopicData.PartitionData


def cluster() -> Cluster:
    """t-0 is on brokers 1, 2, 3, led by 1; 3 has just come back and is not in sync."""
    made = Cluster(25).brokers(1, 2, 3, 4)
    made.topic("t", [1, 2, 3])
    made.change(3, ControlState.FENCED)
    made.change(3, ControlState.UNFENCED)
    return made


def epoch(made: Cluster, broker_id: int) -> int:
    broker = made.state.brokers.get(broker_id)
    assert broker is not None
    return broker.epoch


def asked(made: Cluster, *isr: int, **changes: Any) -> Asked:
    partition = made.partition("t")
    known = {broker.id: broker.epoch for broker in made.state.brokers}
    plain = Asked(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        new_isr_with_epochs=tuple(Member(member, known.get(member, 0)) for member in isr),
        leader_recovery_state=RECOVERED,
        partition_epoch=partition.partition_epoch,
    )
    return msgspec.structs.replace(plain, **changes)


def request(made: Cluster, *partitions: Asked, leader: int = 1, **changes: Any) -> AlterPartitionRequest:
    topic_id = made.state.topics.id_of("t")
    assert topic_id is not None
    plain = AlterPartitionRequest(leader, epoch(made, leader), (Topic(topic_id, partitions),))
    return msgspec.structs.replace(plain, **changes)


def told(made: Cluster, alteration: AlterPartitionRequest) -> Told:
    response = made.write(alter_partition(alteration, settings=made.settings))
    return response.topics[0].partitions[0]


def test_a_follower_that_has_caught_up_is_in_sync_again() -> None:
    made = cluster()
    before = made.partition("t")
    answer = told(made, request(made, asked(made, 1, 2, 3)))

    assert (1, 2, 3) == made.partition("t").isr
    assert Told(0, 0, 1, before.leader_epoch, (1, 2, 3), RECOVERED, before.partition_epoch + 1) == answer


def test_a_follower_that_lags_is_out_and_the_leader_epoch_stays() -> None:
    made = cluster()
    before = made.partition("t")
    told(made, request(made, asked(made, 1)))

    assert ((1,), before.leader_epoch) == (made.partition("t").isr, made.partition("t").leader_epoch)


def test_the_same_again_is_no_change() -> None:
    made = cluster()
    before = made.partition("t")

    assert ErrorCode.NONE == told(made, request(made, asked(made, 1, 2))).error_code
    assert before == made.partition("t")


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ((1, 2), {"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 99}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {"leader_epoch": -1, "partition_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((1, 4), {}, ErrorCode.INVALID_REQUEST),
        ((2,), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ((), {"new_isr_with_epochs": (Member(1, -1), Member(3, 0))}, ErrorCode.INELIGIBLE_REPLICA),
    ],
    ids=[
        "no such partition",
        "a later leader epoch",
        "a later partition epoch",
        "an earlier leader epoch",
        "an earlier partition epoch",
        "both earlier",
        "a member twice",
        "no replica",
        "without the leader",
        "nobody",
        "no such recovery state",
        "recovered, and falls back",
        "recovering with others",
        "an earlier incarnation",
    ],
)
def test_refuses(isr: tuple[int, ...], changes: dict[str, Any], code: ErrorCode) -> None:
    made = cluster()
    before = made.partition("t")

    assert code == ErrorCode(told(made, request(made, asked(made, *isr, **changes))).error_code)
    assert before == made.partition("t")


LATER, EARLIER = 99, -1
WRONG: list[tuple[dict[str, Any], ErrorCode]] = [
    ({"partition_index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ({"leader_epoch": LATER}, ErrorCode.NOT_CONTROLLER),
    ({"partition_epoch": LATER, "leader_epoch": EARLIER}, ErrorCode.NOT_CONTROLLER),
    ({"leader_epoch": EARLIER}, ErrorCode.FENCED_LEADER_EPOCH),
    ({"leader": 2}, ErrorCode.INVALID_REQUEST),
    ({"partition_epoch": EARLIER}, ErrorCode.INVALID_UPDATE_VERSION),
    ({"isr": (4, 1), "leader_recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
    ({"isr": (1, 3), "stale": True}, ErrorCode.INELIGIBLE_REPLICA),
]
"""What may be wrong, in the order in which Kafka looks (ReplicationControlManager.validateAlterPartitionData)."""


@pytest.mark.parametrize("first", range(len(WRONG)))
def test_of_several_errors_the_first_in_kafkas_order_is_told(first: int) -> None:
    """This one and all after it are wrong at once; what is wrong in two ways is so in the earlier one."""
    wrong: dict[str, Any] = {}
    for more, _ in reversed(WRONG[first:]):
        wrong |= more
    made = cluster()
    before = made.partition("t")
    leader, isr, stale = wrong.pop("leader", 1), wrong.pop("isr", (1, 2)), wrong.pop("stale", False)
    partition = asked(made, *isr, **wrong)
    if stale:
        members = tuple(Member(each.broker_id, 0) for each in partition.new_isr_with_epochs)
        partition = msgspec.structs.replace(partition, new_isr_with_epochs=members)

    assert WRONG[first][1] == ErrorCode(told(made, request(made, partition, leader=leader)).error_code)
    assert before == made.partition("t")


@pytest.mark.parametrize("state", [ControlState.FENCED, ControlState.CONTROLLED_SHUTDOWN])
def test_refuses_who_is_fenced_or_shutting_down(state: ControlState) -> None:
    made = cluster()
    made.topic("u", [3])  # so that it has something to give away
    wanted = request(made, asked(made, 1, 2, 3))
    made.change(3, state)
    wanted = msgspec.structs.replace(wanted, topics=(Topic(wanted.topics[0].topic_id, (asked(made, 1, 2, 3),)),))

    assert ErrorCode.INELIGIBLE_REPLICA == told(made, wanted).error_code


def test_refuses_who_does_not_lead() -> None:
    made = cluster()

    assert ErrorCode.INVALID_REQUEST == told(made, request(made, asked(made, 1, 2), leader=2)).error_code


def test_refuses_a_topic_that_is_gone() -> None:
    made = cluster()
    gone = AlterPartitionRequest(1, epoch(made, 1), (Topic(uuid(77), (asked(made, 1, 2),)),))

    assert ErrorCode.UNKNOWN_TOPIC_ID == told(made, gone).error_code


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 999), (8, 0)], ids=["another epoch", "not registered"])
def test_refuses_a_broker_that_is_not_the_one_registered(broker_id: int, broker_epoch: int) -> None:
    made = cluster()
    wanted = request(made, asked(made, 1, 2), broker_id=broker_id, broker_epoch=broker_epoch)

    assert ErrorCode.STALE_BROKER_EPOCH == made.refusal(alter_partition(wanted, settings=made.settings)).code


def test_a_leader_elected_uncleanly_recovers_before_others_come_back() -> None:
    made = cluster()
    topic_id = made.state.topics.id_of("t")
    assert topic_id is not None
    made.apply([PartitionChangeRecord(0, topic_id, isr=(1,), leader=1, leader_recovery_state=RECOVERING)])

    assert ErrorCode.NONE == told(made, request(made, asked(made, 1, leader_recovery_state=RECOVERING))).error_code
    assert (
        ErrorCode.INVALID_REQUEST
        == told(made, request(made, asked(made, 1, 2, leader_recovery_state=RECOVERING))).error_code
    )
    assert ErrorCode.NONE == told(made, request(made, asked(made, 1, 2))).error_code
    assert ((1, 2), RECOVERED) == (made.partition("t").isr, made.partition("t").leader_recovery_state)


def test_an_isr_that_ends_a_reassignment_may_end_the_leadership_too() -> None:
    """The change is written all the same, and the old leader is told that there is a new one. KIP-455."""
    made = cluster()
    topic_id = made.state.topics.id_of("t")
    assert topic_id is not None
    made.apply(
        [
            PartitionChangeRecord(
                0,
                topic_id,
                replicas=(1, 2, 3, 4),
                adding_replicas=(4,),
                removing_replicas=(1,),
                directories=(*made.partition("t").directories, UNASSIGNED_DIRECTORY),
            )
        ]
    )

    assert ErrorCode.NEW_LEADER_ELECTED == told(made, request(made, asked(made, 1, 2, 4))).error_code
    partition = made.partition("t")
    assert ((2, 3, 4), (2, 4), 2) == (partition.replicas, partition.isr, partition.leader)
