"""CreatePartitions (37)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft import Uuid
from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from quorate.controller.commands.create_partitions import create_partitions
from quorate.controller.engine.decision import Command
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.records import PartitionRecord
from tests.controller.clusters import Cluster, directory, uuid
from tests.controller.tables.table import Row, Table

Asked = CreatePartitionsRequest.CreatePartitionsTopic
Assignment = Asked.CreatePartitionsAssignment
Result = CreatePartitionsResponse.CreatePartitionsTopicResult
T, U = uuid(1000), uuid(1001)


def three_brokers() -> Cluster:
    """Brokers 1, 2, 3; topic t: one partition on 1, 2."""
    cluster = Cluster(25).brokers(1, 2, 3)
    cluster.topic("t", [1, 2])
    return cluster


def third_fenced() -> Cluster:
    """The same, broker 3 is fenced."""
    cluster = three_brokers()
    cluster.change(3, ControlState.FENCED)
    return cluster


def first_alone() -> Cluster:
    """The same, brokers 2 and 3 are fenced."""
    cluster = third_fenced()
    cluster.change(2, ControlState.FENCED)
    return cluster


def two_topics() -> Cluster:
    """The same, and topic u: one partition on 1, 2."""
    cluster = three_brokers()
    cluster.topic("u", [1, 2])
    return cluster


def more(name: str, count: int, *replicas: Sequence[int]) -> Asked:
    return Asked(name, count, tuple(Assignment(tuple(brokers)) for brokers in replicas) or None)


def asked(*topics: Asked, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=topics, validate_only=validate_only)


def told(**codes: ErrorCode) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=tuple(Result(name=name, error_code=code) for name, code in codes.items()))


def added(partition_id: int, *replicas: int, isr: Sequence[int] = (), topic_id: Uuid = T) -> PartitionRecord:
    members = tuple(isr) or replicas
    return PartitionRecord(
        partition_id,
        topic_id,
        replicas,
        members,
        leader=members[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(map(directory, replicas)),
    )


def command(_: Cluster, request: CreatePartitionsRequest, **placements: Any) -> Command[Any]:
    return create_partitions(request, placements=placements)


NONE, BAD_ASSIGNMENT = ErrorCode.NONE, ErrorCode.INVALID_REPLICA_ASSIGNMENT
COUNT = "ReplicationControlManager.createPartitions: the count is of all, and has to be more than there are."
BY_HAND = "ReplicationControlManager.createPartitions: as many lists as partitions are to come."
LISTED = "ReplicationControlManager.validateManualPartitionAssignment"

TABLE = Table(
    api="CreatePartitions",
    kafka="ReplicationControlManager.createPartitions (KIP-195)",
    command=command,
    given=three_brokers,
    rows=(
        Row(
            case="by hand",
            rule="An assignment has the brokers of each new partition, in order (KIP-195).",
            request=asked(more("t", 3, [2, 1], [3, 1])),
            records=(added(1, 2, 1), added(2, 3, 1)),
            answer=told(t=NONE),
        ),
        Row(
            case="by hand, on a broker that is fenced",
            rule="ReplicationControlManager.buildPartitionRegistration: the ISR is of active brokers, the first leads.",
            given=third_fenced,
            request=asked(more("t", 2, [3, 1])),
            records=(added(1, 3, 1, isr=[1]),),
            answer=told(t=NONE),
        ),
        Row(
            case="by the placer",
            rule="Without an assignment they are placed, with as many replicas as partition 0 has (KIP-195).",
            request=asked(more("t", 3)),
            beside={"t": ((2, 3), (3, 1))},
            records=(added(1, 2, 3), added(2, 3, 1)),
            answer=told(t=NONE),
        ),
        Row(
            case="the placer refuses",
            rule="StripedReplicaPlacer.place: its error is the topic's.",
            request=asked(more("t", 2)),
            beside={"t": ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers")},
            answer=told(t=ErrorCode.INVALID_REPLICATION_FACTOR),
        ),
        Row(
            case="only to be validated",
            rule="Decided alike; validateOnly drops the records (KIP-195).",
            request=asked(more("t", 2, [1, 2]), validate_only=True),
            answer=told(t=NONE),
        ),
        Row(
            case="no such topic",
            rule="ReplicationControlManager.createPartitions",
            request=asked(more("nobody", 2, [1, 2])),
            answer=told(nobody=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ),
        Row(
            case="as many as there are",
            rule=COUNT,
            request=asked(more("t", 1, [1, 2])),
            answer=told(t=ErrorCode.INVALID_PARTITIONS),
        ),
        Row(
            case="fewer than there are",
            rule=COUNT,
            request=asked(more("t", 0, [1, 2])),
            answer=told(t=ErrorCode.INVALID_PARTITIONS),
        ),
        Row(
            case="fewer lists than partitions",
            rule=BY_HAND,
            request=asked(more("t", 3, [1, 2])),
            answer=told(t=BAD_ASSIGNMENT),
        ),
        Row(
            case="another replication factor",
            rule=f"{LISTED}: as many replicas as partition 0 has.",
            request=asked(more("t", 2, [1])),
            answer=told(t=BAD_ASSIGNMENT),
        ),
        Row(
            case="a broker twice",
            rule=f"{LISTED}: no broker twice.",
            request=asked(more("t", 2, [1, 1])),
            answer=told(t=BAD_ASSIGNMENT),
        ),
        Row(
            case="a broker that is not registered",
            rule=f"{LISTED}: every broker is registered.",
            request=asked(more("t", 2, [1, 9])),
            answer=told(t=BAD_ASSIGNMENT),
        ),
        Row(
            case="brokers that are all fenced",
            rule="ReplicationControlManager.createPartitions: somebody has to lead.",
            given=first_alone,
            request=asked(more("t", 2, [2, 3])),
            answer=told(t=BAD_ASSIGNMENT),
        ),
        Row(
            case="a topic twice, and another",
            rule="ControllerApis.createPartitions: what is there twice is refused, the others are done.",
            given=two_topics,
            request=asked(more("t", 2, [1, 2]), more("u", 2, [1, 2]), more("t", 3, [1, 2], [1, 2])),
            records=(added(1, 1, 2, topic_id=U),),
            answer=told(u=NONE, t=ErrorCode.INVALID_REQUEST),
        ),
        Row(
            case="too many at once",
            rule="ReplicationControlManager.validateTotalNumberOfPartitions: 10,000 in a request (KAFKA-17870).",
            request=asked(more("t", 10_002)),
            answer=ErrorCode.POLICY_VIOLATION,
        ),
    ),
)
