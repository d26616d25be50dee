"""CreatePartitions: more of them, by the placer or by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kraft.api.create_partitions import CreatePartitionsRequest
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.new_partitions import StalePlacement
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.placement import PlacementSpec
from tests.controller.clusters import Cluster

Asked = CreatePartitionsRequest.CreatePartitionsTopic
Assignment = CreatePartitionsRequest.CreatePartitionsTopic.CreatePartitionsAssignment


def more(name: str, count: int, *replicas: Sequence[int]) -> Asked:
    return Asked(name, count, tuple(Assignment(tuple(brokers)) for brokers in replicas) or None)


def told(cluster: Cluster, *asked: Asked, validate_only: bool = False) -> dict[str, ErrorCode]:
    request = CreatePartitionsRequest(topics=asked, validate_only=validate_only)
    response = cluster.write(create_partitions(request, placements={}))
    return {result.name: ErrorCode(result.error_code) for result in response.results}


def three_brokers() -> Cluster:
    cluster = Cluster(25).brokers(1, 2, 3)
    cluster.topic("t", [1, 2])
    return cluster


def test_by_hand() -> None:
    cluster = three_brokers()
    cluster.change(3, ControlState.FENCED)

    assert {"t": ErrorCode.NONE} == told(cluster, more("t", 3, [2, 1], [3, 1]))
    assert [(1, 2), (2, 1), (3, 1)] == [cluster.partition("t", i).replicas for i in range(3)]
    assert ((1,), 1) == (cluster.partition("t", 2).isr, cluster.partition("t", 2).leader)


def test_by_the_placer() -> None:
    cluster = three_brokers()
    request = CreatePartitionsRequest(topics=(more("t", 3), more("nobody", 2)))
    spec = PlacementSpec(start_partition=1, partition_count=2, replication_factor=2)

    assert (("t", spec),) == wanted_more(cluster.state, request)

    cluster.write(create_partitions(request, placements={"t": ((2, 3), (3, 1))}))

    assert [(1, 2), (2, 3), (3, 1)] == [cluster.partition("t", i).replicas for i in range(3)]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (more("nobody", 2, [1, 2]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more("t", 1, [1, 2]), ErrorCode.INVALID_PARTITIONS),
        (more("t", 0, [1, 2]), ErrorCode.INVALID_PARTITIONS),
        (more("t", 3, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 2, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 2, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 2, [1, 9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=["no such topic", "as many", "fewer", "too few assigned", "other factor", "a broker twice", "no such broker"],
)
def test_refuses(asked: Asked, code: ErrorCode) -> None:
    cluster = three_brokers()

    assert {asked.name: code} == told(cluster, asked)
    assert 1 == cluster.state.topics.partition_count


def test_refuses_what_none_could_lead() -> None:
    cluster = three_brokers()
    cluster.change(2, ControlState.FENCED)
    cluster.change(3, ControlState.FENCED)

    assert {"t": ErrorCode.INVALID_REPLICA_ASSIGNMENT} == told(cluster, more("t", 2, [2, 3]))


def test_refuses_a_topic_that_is_named_twice_and_does_the_others() -> None:
    cluster = three_brokers()
    cluster.topic("u", [1, 2])

    assert {"u": ErrorCode.NONE, "t": ErrorCode.INVALID_REQUEST} == told(
        cluster, more("t", 2, [1, 2]), more("u", 2, [1, 2]), more("t", 3, [1, 2], [1, 2])
    )
    assert 3 == cluster.state.topics.partition_count


def test_refuses_too_many_at_once() -> None:
    request = CreatePartitionsRequest(topics=(more("t", 10_002),))
    refused = three_brokers().refusal(create_partitions(request, placements={}))

    assert ErrorCode.POLICY_VIOLATION == refused.code


def test_a_broker_that_went_meanwhile_has_the_placer_asked_again() -> None:
    cluster = three_brokers()
    command = create_partitions(CreatePartitionsRequest(topics=(more("t", 2),)), placements={"t": ((2, 9),)})

    assert isinstance(cluster.refusal(command), StalePlacement)


def test_a_refusal_of_the_placer_is_the_topics() -> None:
    cluster = three_brokers()
    refusal = ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "too few brokers")
    request = CreatePartitionsRequest(topics=(more("t", 2),))
    response = cluster.write(create_partitions(request, placements={"t": refusal}))

    assert [ErrorCode.INVALID_REPLICATION_FACTOR] == [result.error_code for result in response.results]


def test_validate_only_writes_nothing() -> None:
    cluster = three_brokers()

    assert {"t": ErrorCode.NONE} == told(cluster, more("t", 2, [1, 2]), validate_only=True)
    assert 1 == cluster.state.topics.partition_count
