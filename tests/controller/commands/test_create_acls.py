"""CreateAcls: what may be an entry, and what adds none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from kraft import Uuid
from kraft.api.create_acls import CreateAclsRequest
from quorate.controller.commands.create_acls import NETWORKS, create_acls
from quorate.errors import ErrorCode
from quorate.metadata.acls import Operation, PatternType, Permission, ResourceType
from quorate.nouns import ZERO_UUID
from quorate.records import AccessControlEntryRecord
from tests.controller.clusters import Cluster, uuid

Asked = CreateAclsRequest.AclCreation
TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
LITERAL = PatternType.LITERAL


def asked(**changes: Any) -> Asked:
    """Alice may read the topic `orders`, but for what a test says."""
    return Asked(
        **{
            "resource_type": TOPIC,
            "resource_name": "orders",
            "resource_pattern_type": LITERAL,
            "principal": "User:alice",
            "host": "*",
            "operation": Operation.READ,
            "permission_type": Permission.ALLOW,
            **changes,
        }
    )


def ids() -> Callable[[], Uuid]:
    numbers = count(1)
    return lambda: uuid(next(numbers))


def created(cluster: Cluster, *creations: Asked) -> list[ErrorCode]:
    response = cluster.write(create_acls(CreateAclsRequest(creations), new_acl_id=ids()))
    return [ErrorCode(result.error_code) for result in response.results]


def test_an_entry_is_one_record_under_a_new_id() -> None:
    decision = Cluster(25).decide(create_acls(CreateAclsRequest((asked(),)), new_acl_id=ids()))

    assert (AccessControlEntryRecord(uuid(1), 2, "orders", 3, "User:alice", "*", 3, 3),) == decision.records
    assert [(0, None)] == [(each.error_code, each.error_message) for each in decision.response.results]


def test_what_is_there_is_granted_and_adds_nothing() -> None:
    cluster = Cluster(25)
    created(cluster, asked())
    again = cluster.decide(create_acls(CreateAclsRequest((asked(), asked())), new_acl_id=ids()))

    assert [0, 0] == [each.error_code for each in again.response.results]
    assert () == again.records


def test_what_is_twice_in_a_request_is_added_once() -> None:
    cluster = Cluster(25)

    assert [ErrorCode.NONE] * 3 == created(cluster, asked(), asked(principal="User:bob"), asked())
    assert ["User:alice", "User:bob"] == sorted(entry.principal for entry in cluster.state.acls)


def test_ids_that_are_taken_or_reserved_are_passed_over() -> None:
    cluster = Cluster(25)
    created(cluster, asked())
    drawn = iter([ZERO_UUID, uuid(1), uuid(7), uuid(7), uuid(8)])
    request = CreateAclsRequest((asked(host="10.0.0.1"), asked(host="10.0.0.2")))
    cluster.write(create_acls(request, new_acl_id=lambda: next(drawn)))

    assert {uuid(1): "*", uuid(7): "10.0.0.1", uuid(8): "10.0.0.2"} == {e.id: e.host for e in cluster.state.acls}


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_type": CLUSTER, "resource_name": "kafka-cluster"},
        {"resource_name": "*"},
        {"resource_pattern_type": PatternType.PREFIXED},
        {"operation": Operation.ALL, "permission_type": Permission.DENY},
        {"principal": "User:CN=alice,O=a:b"},
        {"principal": ":"},
        {"host": "not an address"},
        {"host": "10.0.0.0/8"},
        {"host": "10.1.2.3/0"},
        {"host": "2001:db8::/32"},
    ],
    ids=str,
)
def test_grants(changes: dict[str, Any]) -> None:
    cluster = Cluster(NETWORKS)

    assert [ErrorCode.NONE] == created(cluster, asked(**changes))
    assert 1 == len(cluster.state.acls)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"resource_type": 0}, "resource type 0 (UNKNOWN) cannot be in an entry"),
        ({"resource_type": ResourceType.ANY}, "resource type 1 (ANY)"),
        ({"resource_type": 8}, "resource type 8 (UNKNOWN)"),
        ({"resource_pattern_type": PatternType.ANY}, "pattern type 1 (ANY)"),
        ({"resource_pattern_type": PatternType.MATCH}, "pattern type 2 (MATCH)"),
        ({"operation": Operation.ANY}, "operation 1 (ANY)"),
        ({"operation": 16}, "operation 16 (UNKNOWN)"),
        ({"permission_type": Permission.ANY}, "permission type 1 (ANY)"),
        ({"permission_type": -1}, "permission type -1 (UNKNOWN)"),
        ({"resource_name": ""}, "the resource has no name"),
        ({"resource_type": CLUSTER}, "the only name of the CLUSTER resource is 'kafka-cluster'"),
        ({"resource_type": CLUSTER, "resource_name": "*"}, "the only name of the CLUSTER resource"),
        ({"principal": "alice"}, "principal 'alice' has no type"),
        ({"host": ""}, "a host is needed"),
        ({"host": "10.0.0.0/33"}, "no network in CIDR notation"),
        ({"host": "10.0.0.256/8"}, "no network in CIDR notation"),
        ({"host": "10.0.0/8"}, "no network in CIDR notation"),
        ({"host": "2001:db8::/129"}, "no network in CIDR notation"),
        ({"host": "::ffff:10.0.0.1/96"}, "no network in CIDR notation"),
        ({"host": "a/b"}, "no network in CIDR notation"),
    ],
    ids=str,
)
def test_refuses_what_cannot_be_an_entry_and_takes_the_others(changes: dict[str, Any], says: str) -> None:
    """Kafka: AclControlManager.validateNewAcl, and for the cluster's name AclApis."""
    cluster = Cluster(NETWORKS)
    request = CreateAclsRequest((asked(**changes), asked(principal="User:bob")))
    response = cluster.write(create_acls(request, new_acl_id=ids()))

    assert [ErrorCode.INVALID_REQUEST, ErrorCode.NONE] == [ErrorCode(each.error_code) for each in response.results]
    assert says in (response.results[0].error_message or "")
    assert ["User:bob"] == [entry.principal for entry in cluster.state.acls]


def test_networks_wait_until_every_broker_knows_them() -> None:
    assert [ErrorCode.UNSUPPORTED_VERSION] == created(Cluster(NETWORKS - 1), asked(host="10.0.0.0/8"))
