"""Partitions move, take another goal on the way, arrive, or go back (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.partitions import RECOVERING
from quorate.records import PartitionChangeRecord
from tests.controller.clusters import Cluster

Topic = AlterPartitionReassignmentsRequest.ReassignableTopic
Asked = Topic.ReassignablePartition
Shape = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def cluster(*, elr: bool = False, **configs: str) -> Cluster:
    made = Cluster(25, elr=elr).brokers(1, 2, 3, 4, 5, 6)
    made.topic("t", [1, 2, 3], **configs)
    return made


def move(
    made: Cluster, replicas: Sequence[int] | None, partition_id: int = 0, name: str = "t", *, may_change: bool = True
) -> ErrorCode:
    asked = Asked(partition_id, None if replicas is None else tuple(replicas))
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change, topics=(Topic(name, (asked,)),)
    )
    response = made.write(alter_partition_reassignments(request, settings=made.settings))
    return ErrorCode(response.responses[0].partitions[0].error_code)


def shape(made: Cluster) -> Shape:
    partition = made.partition("t")
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def in_sync(made: Cluster, *isr: int) -> None:
    """The leader has said so: through the same rules as AlterPartition."""
    for replica in isr:
        if replica not in made.partition("t").isr:
            made.alter_isr("t", (*made.partition("t").isr, replica))


def test_a_partition_is_on_its_way_until_the_new_replicas_are_in_sync() -> None:
    made = cluster()

    assert ErrorCode.NONE == move(made, [4, 5, 6])
    assert ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)) == shape(made)

    in_sync(made, 4, 5)
    assert ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)) == shape(made)

    in_sync(made, 6)
    assert ((4, 5, 6), (), ()) == shape(made)
    assert 4 == made.partition("t").leader


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        ([1, 2, 4], [1, 2, 5], ((1, 2, 5, 3, 4), (5,), (3, 4))),
        ([1, 2, 3, 4], [1, 2, 3], ((1, 2, 3), (), ())),
        ([3, 2, 1], [3, 2, 1], ((3, 2, 1), (), ())),
    ],
    ids=["another newcomer", "no newcomer after all", "another order is no move"],
)
def test_a_move_takes_another_goal(first: list[int], then: list[int], expected: Shape) -> None:
    made = cluster()
    move(made, first)

    assert ErrorCode.NONE == move(made, then)
    assert expected == shape(made)


def test_a_move_is_called_off() -> None:
    made = cluster()
    move(made, [4, 5, 6])
    in_sync(made, 4)

    assert ErrorCode.NONE == move(made, None)
    assert ((1, 2, 3), (), ()) == shape(made)
    assert ((1, 2, 3), 1) == (made.partition("t").isr, made.partition("t").leader)


@pytest.mark.parametrize(
    ("unclean", "code"), [("false", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("true", ErrorCode.NONE)]
)
def test_going_back_without_anyone_in_sync_needs_leave_to_lose(unclean: str, code: ErrorCode) -> None:
    made = cluster(unclean_leader_election_enable=unclean)
    move(made, [4, 5, 6])
    in_sync(made, 4)
    topic_id = made.state.topics.id_of("t")
    assert topic_id is not None
    made.apply([PartitionChangeRecord(0, topic_id, isr=(4,), leader=4)])

    assert code == move(made, None)
    if code is ErrorCode.NONE:
        partition = made.partition("t")
        assert ((1, 2, 3), (1,), 1) == (partition.replicas, partition.isr, partition.leader)
        assert RECOVERING == partition.leader_recovery_state  # KIP-704: it may lack records


@pytest.mark.parametrize(("elr", "isr"), [(True, ()), (False, (1,))])
def test_going_back_to_nobody_leaves_the_isr_empty_where_it_may_be(elr: bool, isr: tuple[int, ...]) -> None:
    """Whoever comes first is elected uncleanly, and recovers. Without an ELR the first replica stands for the ISR."""
    made = cluster(elr=elr, unclean_leader_election_enable="true")
    move(made, [4, 5, 6])
    in_sync(made, 4)
    topic_id = made.state.topics.id_of("t")
    assert topic_id is not None
    made.apply([PartitionChangeRecord(0, topic_id, isr=(4,), leader=4)])
    for broker_id in (1, 2, 3):
        made.change(broker_id, ControlState.FENCED)

    assert ErrorCode.NONE == move(made, None)
    partition = made.partition("t")
    assert ((1, 2, 3), isr, -1) == (partition.replicas, partition.isr, partition.leader)


@pytest.mark.parametrize(
    ("name", "partition_id", "replicas", "code"),
    [
        ("nobody", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 9, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("t", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [4, 4], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("t", 0, [4, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=["no such topic", "no such partition", "nothing to call off", "nowhere", "a broker twice", "no such broker"],
)
def test_refuses(name: str, partition_id: int, replicas: list[int] | None, code: ErrorCode) -> None:
    made = cluster()
    before = shape(made)

    assert code == move(made, replicas, partition_id, name)
    assert before == shape(made)


def test_a_request_may_forbid_another_replication_factor() -> None:
    made = cluster()

    assert ErrorCode.INVALID_REPLICATION_FACTOR == move(made, [1, 2], may_change=False)
    assert ErrorCode.NONE == move(made, [4, 2, 3], may_change=False)
    assert ErrorCode.NONE == move(made, [5, 2, 3], may_change=False)
    assert ErrorCode.NONE == move(made, [5, 2], may_change=True)


def test_a_move_to_a_broker_that_is_away_waits_for_it() -> None:
    made = cluster()
    made.change(4, ControlState.FENCED)

    assert ErrorCode.NONE == move(made, [4, 2, 3])
    assert ((4, 2, 3, 1), (4,), (1,)) == shape(made)


def test_moves_are_listed_while_they_last() -> None:
    made = cluster()
    made.topic("u", [1, 2], [2, 1])
    move(made, [4, 5, 6])
    move(made, [3, 1], 1, "u")

    def listed(*asked: ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics) -> dict[str, list[int]]:
        response = made.write(list_partition_reassignments(ListPartitionReassignmentsRequest(topics=asked or None)))
        return {topic.name: [each.partition_index for each in topic.partitions] for topic in response.topics}

    wanted = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    assert {"t": [0], "u": [1]} == listed()
    assert {"u": [1]} == listed(wanted("u", (0, 1)), wanted("nobody", (0,)))
    move(made, None)
    assert {"u": [1]} == listed()
