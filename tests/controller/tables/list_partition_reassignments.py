"""ListPartitionReassignments (46)."""

from __future__ import annotations

from typing import Any

from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.controller.engine.decision import Command
from tests.controller.clusters import Cluster
from tests.controller.tables.table import Row, Table

Asked = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
Topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
Partition = Topic.OngoingPartitionReassignment
Move = AlterPartitionReassignmentsRequest.ReassignableTopic


def at_rest() -> Cluster:
    """Topic t: one partition on 1, 2, 3; topic u: on 1, 2; on 2, 1; on 1, 2. Nothing moves."""
    cluster = Cluster(25).brokers(1, 2, 3, 4, 5, 6)
    cluster.topic("u", [1, 2], [2, 1], [1, 2])
    cluster.topic("t", [1, 2, 3])
    return cluster


def moved() -> Cluster:
    """t-0 is on its way to 4, 5, 6; u-1 to 3, 1; u-2 to 1, 2, 3; u-0 is on 2, 1."""
    cluster = at_rest()
    move(cluster, "u", {1: (3, 1), 2: (1, 2, 3), 0: (2, 1)})
    move(cluster, "t", {0: (4, 5, 6)})
    return cluster


def called_off() -> Cluster:
    """The same, but t-0 has been called off."""
    cluster = moved()
    move(cluster, "t", {0: None})
    return cluster


def arrived() -> Cluster:
    """The same, but t-0 has arrived."""
    cluster = moved()
    cluster.alter_isr("t", (1, 2, 3, 4, 5, 6))
    return cluster


def move(cluster: Cluster, name: str, targets: dict[int, tuple[int, ...] | None]) -> None:
    partitions = tuple(Move.ReassignablePartition(number, replicas) for number, replicas in targets.items())
    request = AlterPartitionReassignmentsRequest(topics=(Move(name, partitions),))
    cluster.write(alter_partition_reassignments(request, settings=cluster.settings))


def asked(*topics: Asked) -> ListPartitionReassignmentsRequest:
    return ListPartitionReassignmentsRequest(topics=topics)


def told(*topics: Topic) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def command(_: Cluster, request: ListPartitionReassignmentsRequest) -> Command[Any]:
    return list_partition_reassignments(request)


T_0 = Topic("t", (Partition(0, (4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)),))
U_1, U_2 = Partition(1, (3, 1, 2), (3,), (2,)), Partition(2, (1, 2, 3), (3,))
ALL = ListPartitionReassignmentsRequest(topics=None)
LIST = "ReplicationControlManager.listPartitionReassignments"
ONE = "ReplicationControlManager.getOngoingPartitionReassignment"
EMPTY = "ReplicationControlManager.listReassigningTopic: a topic of which nothing moves is not told of."

TABLE = Table(
    api="ListPartitionReassignments",
    kafka="ReplicationControlManager.listPartitionReassignments (KIP-455)",
    command=command,
    given=moved,
    rows=(
        Row(
            case="all",
            rule="KIP-455: null is for all that move. Kafka's order is a hash table's, ours that of the names.",
            request=ALL,
            answer=told(T_0, Topic("u", (U_1, U_2))),
        ),
        Row(
            case="all, and nothing moves",
            rule=LIST,
            given=at_rest,
            request=ALL,
            answer=told(),
        ),
        Row(
            case="all, and one has been called off",
            rule=f"{ONE}: what is called off does not move.",
            given=called_off,
            request=ALL,
            answer=told(Topic("u", (U_1, U_2))),
        ),
        Row(
            case="all, and one has arrived",
            rule=f"{ONE}: what has arrived does not move.",
            given=arrived,
            request=ALL,
            answer=told(Topic("u", (U_1, U_2))),
        ),
        Row(
            case="one topic",
            rule=f"{LIST}: only the partitions that are named.",
            request=asked(Asked("u", (1,))),
            answer=told(Topic("u", (U_1,))),
        ),
        Row(
            case="partitions that move, and one that does not",
            rule=f"{ONE}: what does not move is not told of.",
            request=asked(Asked("t", (0,)), Asked("u", (0, 1, 2))),
            answer=told(T_0, Topic("u", (U_1, U_2))),
        ),
        Row(
            case="in another order than that of names",
            rule=f"{LIST}: what is named is told as it is named, as often as it is.",
            request=asked(Asked("u", (2, 1)), Asked("t", (0,)), Asked("u", (1, 1))),
            answer=told(Topic("u", (U_2, U_1)), T_0, Topic("u", (U_1, U_1))),
        ),
        Row(
            case="partitions of which none moves",
            rule=EMPTY,
            request=asked(Asked("u", (0,))),
            answer=told(),
        ),
        Row(
            case="a topic without partitions",
            rule=EMPTY,
            request=asked(Asked("t")),
            answer=told(),
        ),
        Row(
            case="no such topic, no such partition",
            rule=f"{LIST}: what is not there does not move, and is no error.",
            request=asked(Asked("nobody", (0,)), Asked("t", (0, 7))),
            answer=told(T_0),
        ),
        Row(
            case="an empty list",
            rule="KIP-455: a list names those that are meant, and an empty one none.",
            request=asked(),
            answer=told(),
        ),
    ),
)
