"""The shorter commands: controllers, unregistering, describing."""

from __future__ import annotations

from typing import Any

import pytest

from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.records import PartitionChangeRecord, UnregisterBrokerRecord
from tests.controller.clusters import CLUSTER_ID, Cluster, uuid

Listener = ControllerRegistrationRequest.Listener
Cursor = DescribeTopicPartitionsRequest.Cursor
TopicRequest = DescribeTopicPartitionsRequest.TopicRequest


def controller(controller_id: int, *listeners: Listener) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(controller_id, uuid(controller_id), listeners=listeners)


def test_a_controller_registers_and_a_later_registration_replaces_it() -> None:
    cluster = Cluster(25)
    cluster.write(register_controller(controller(3001, Listener("CONTROLLER", "a", 9093))))
    cluster.write(register_controller(controller(3001, Listener("CONTROLLER", "b", 9094))))
    registered = cluster.state.controllers.get(3001)

    assert registered is not None
    assert [(e.name, e.host, e.port) for e in registered.end_points] == [("CONTROLLER", "b", 9094)]


@pytest.mark.parametrize(
    ("level", "listeners", "code"),
    [
        (14, (Listener("C", "a", 1),), ErrorCode.UNSUPPORTED_VERSION),
        (25, (), ErrorCode.INVALID_REGISTRATION),
        (25, (Listener("C", "a", 1), Listener("C", "b", 1)), ErrorCode.INVALID_REGISTRATION),
    ],
    ids=["below 3.7-IV0", "no listener", "a listener twice"],
)
def test_refuses_a_controller(level: int, listeners: tuple[Listener, ...], code: ErrorCode) -> None:
    assert code == Cluster(level).refusal(register_controller(controller(1, *listeners))).code


def test_unregistering_takes_a_broker_out_of_the_isrs_but_leaves_its_replicas() -> None:
    cluster = Cluster(25).brokers(1, 2)
    cluster.topic("t", [1, 2])
    decision = cluster.decide(unregister_broker(UnregisterBrokerRequest(1), settings=cluster.settings))
    cluster.apply(decision.records)

    assert [PartitionChangeRecord, UnregisterBrokerRecord] == [type(record) for record in decision.records]
    assert 1 not in cluster.state.brokers
    assert (
        cluster.partition("t").replicas,
        cluster.partition("t").isr,
        cluster.partition("t").leader,
    ) == ((1, 2), (2,), 2)


def test_refuses_to_unregister_who_is_not_registered() -> None:
    cluster = Cluster(25)
    refused = cluster.refusal(unregister_broker(UnregisterBrokerRequest(7), settings=cluster.settings))

    assert refused.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def described() -> Cluster:
    cluster = Cluster(25).brokers(1, 2)
    cluster.register(3, rack="r")
    cluster.write(register_controller(controller(3001, Listener("CONTROLLER", "c", 9093))))
    return cluster


ONE, TWO, THREE = (1, "broker-1", False), (2, "broker-2", False), (3, "broker-3", True)


@pytest.mark.parametrize(
    ("request_", "listener", "expected"),
    [
        (DescribeClusterRequest(), None, [ONE, TWO]),
        (DescribeClusterRequest(include_fenced_brokers=True), "PLAINTEXT", [ONE, TWO, THREE]),
        (DescribeClusterRequest(), "SSL", []),
        (DescribeClusterRequest(endpoint_type=2), None, [(3001, "c", False)]),
    ],
    ids=["brokers", "fenced ones too", "no such listener", "controllers"],
)
def test_describes_a_cluster(request_: DescribeClusterRequest, listener: str | None, expected: list[Any]) -> None:
    command = describe_cluster(request_, cluster_id=CLUSTER_ID, controller_id=3001, listener=listener)
    response = described().decide(command).response

    assert (CLUSTER_ID, 3001, request_.endpoint_type) == (
        response.cluster_id,
        response.controller_id,
        response.endpoint_type,
    )
    assert expected == [(node.broker_id, node.host, node.is_fenced) for node in response.brokers]


def test_refuses_an_endpoint_type_that_does_not_exist() -> None:
    command = describe_cluster(DescribeClusterRequest(endpoint_type=3), cluster_id=CLUSTER_ID, controller_id=1)

    assert Cluster(25).refusal(command).code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def listed() -> Cluster:
    """Three topics of 3, 1 and 2 partitions."""
    cluster = Cluster(25).brokers(1, 2)
    for name, count in (("b", 1), ("c", 2), ("a", 3)):
        cluster.topic(name, *[[1, 2]] * count)
    return cluster


def told(response: DescribeTopicPartitionsResponse) -> tuple[list[tuple[Any, ...]], tuple[str, int] | None]:
    rows = [
        (topic.name, topic.error_code, tuple(p.partition_index for p in topic.partitions)) for topic in response.topics
    ]
    cursor = response.next_cursor
    return rows, cursor and (cursor.topic_name, cursor.partition_index)


UNKNOWN, INVALID = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), int(ErrorCode.INVALID_TOPIC_EXCEPTION)
ALL = [("a", 0, (0, 1, 2)), ("b", 0, (0,)), ("c", 0, (0, 1))]
PAGES: dict[str, tuple[list[str], int, Cursor | None, list[tuple[Any, ...]], tuple[str, int] | None]] = {
    "all": ([], 2000, None, ALL, None),
    "all that fit exactly": ([], 6, None, ALL, None),
    "a page that ends inside a topic": ([], 2, None, [("a", 0, (0, 1))], ("a", 2)),
    "a page that ends with a topic": ([], 3, None, [("a", 0, (0, 1, 2))], ("b", 0)),
    "from a cursor": ([], 2, Cursor("a", 2), [("a", 0, (2,)), ("b", 0, (0,))], ("c", 0)),
    "from a cursor at a topic that has gone": ([], 9, Cursor("aa", 5), ALL[1:], None),
    "from a cursor beyond the partitions": ([], 9, Cursor("c", 7), [("c", 0, ())], None),
    "no room is room for one": ([], 0, None, [("a", 0, (0,))], ("a", 1)),
    "by name, sorted, once": (["c", "b", "c"], 9, None, ALL[1:], None),
    "a stranger": (["b", "x"], 9, None, [("b", 0, (0,)), ("x", UNKNOWN, ())], None),
    "a stranger with an impossible name": (["b", "/"], 9, None, [("/", INVALID, ()), ("b", 0, (0,))], None),
}


@pytest.mark.parametrize(("names", "limit", "cursor", "rows", "following"), PAGES.values(), ids=PAGES)
def test_tells_a_page(
    names: list[str], limit: int, cursor: Cursor | None, rows: list[Any], following: tuple[str, int] | None
) -> None:
    """KIP-966."""
    request = DescribeTopicPartitionsRequest(tuple(TopicRequest(name) for name in names), limit, cursor)

    assert (rows, following) == told(listed().decide(describe_topic_partitions(request)).response)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
def test_the_pages_together_are_everything(limit: int) -> None:
    cluster, cursor, seen = listed(), None, []
    while True:
        request = DescribeTopicPartitionsRequest((), limit, cursor)
        response = cluster.decide(describe_topic_partitions(request)).response
        seen += [(topic.name, p.partition_index) for topic in response.topics for p in topic.partitions]
        if response.next_cursor is None:
            break
        cursor = Cursor(response.next_cursor.topic_name, response.next_cursor.partition_index)

    assert [(name, index) for name, _, indexes in ALL for index in indexes] == seen


def test_the_server_has_a_limit_of_its_own() -> None:
    response = (
        listed().decide(describe_topic_partitions(DescribeTopicPartitionsRequest(), partitions_per_page=1)).response
    )

    assert told(response) == ([("a", 0, (0,))], ("a", 1))


def test_refuses_a_cursor_at_a_negative_partition() -> None:
    request = DescribeTopicPartitionsRequest(cursor=Cursor("a", -1))

    assert listed().refusal(describe_topic_partitions(request)).code == ErrorCode.INVALID_REQUEST


def test_tells_what_a_partition_has_lost() -> None:
    cluster = Cluster(25, elr=True).brokers(1, 2)
    cluster.topic("t", [1, 2], min_insync_replicas="2")
    cluster.change(2, ControlState.FENCED)
    cluster.change(1, ControlState.FENCED)
    request = DescribeTopicPartitionsRequest()
    (partition,) = cluster.decide(describe_topic_partitions(request)).response.topics[0].partitions

    assert (
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
    ) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 1)
    assert (
        partition.replica_nodes,
        partition.isr_nodes,
        partition.eligible_leader_replicas,
        partition.last_known_elr,
        partition.offline_replicas,
    ) == ((1, 2), (), (1, 2), (1,), (1, 2))
