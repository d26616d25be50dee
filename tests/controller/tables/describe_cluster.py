"""DescribeCluster (60)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import EndpointType
from tests.controller.clusters import CLUSTER_ID, Cluster, uuid
from tests.controller.tables.table import Row, Table

Node = DescribeClusterResponse.DescribeClusterBroker
OfBroker = BrokerRegistrationRequest.Listener
OfController = ControllerRegistrationRequest.Listener
BROKERS, CONTROLLERS = EndpointType
ACTIVE = 3000
NOT_SAID = -(2**31)


def nobody() -> Cluster:
    """Nobody is registered."""
    return Cluster(25)


def all_kinds() -> Cluster:
    """Brokers 1, 2 (rack b, also on TLS), 3 (fenced), 4 (shutting down); controllers 3000, 3001 (also on TLS)."""
    cluster = nobody()
    listeners = (OfBroker("PLAINTEXT", "b2", 9092, 0), OfBroker("TLS", "b2", 9192, 1))
    cluster.register(2, rack="b", listeners=listeners)
    cluster.brokers(1, 4)
    cluster.unfence(2)
    cluster.register(3)
    cluster.topic("t", [4, 1])
    cluster.change(4, ControlState.CONTROLLED_SHUTDOWN)
    plain, tls = OfController("CONTROLLER", "c", 9093, 0), OfController("TLS", "c", 9193, 1)
    for controller_id, given in ((3001, (plain, tls)), (3000, (plain,))):
        cluster.write(
            register_controller(ControllerRegistrationRequest(controller_id, uuid(controller_id), listeners=given))
        )
    return cluster


def told(*nodes: Node, endpoint_type: int = BROKERS, may: int = NOT_SAID) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        endpoint_type=endpoint_type,
        cluster_id=CLUSTER_ID,
        controller_id=ACTIVE,
        brokers=nodes,
        cluster_authorized_operations=may,
    )


def broker(broker_id: int, *, fenced: bool = False) -> Node:
    return Node(broker_id, f"broker-{broker_id}", 9092, None, fenced)


def command(
    _: Cluster,
    request: DescribeClusterRequest,
    *,
    may: Sequence[AclOperation] | None = None,
) -> Command[Any]:
    """`may` is what the caller may do to the cluster; everything if it is not given."""

    def would_allow(operation: AclOperation, resource: ResourceType, name: str) -> bool:
        assert (ResourceType.CLUSTER, "kafka-cluster") == (resource, name)
        return may is None or operation in may

    def allows(operation: AclOperation, resource: ResourceType, name: str) -> bool:
        assert AclOperation.DESCRIBE == operation
        return would_allow(operation, resource, name)

    return describe_cluster(
        request,
        cluster_id=CLUSTER_ID,
        controller_id=ACTIVE,
        allows=allows,
        would_allow=would_allow,
    )


SECOND = Node(2, "b2", 9092, "b")
MAY = "AuthHelper.authorizedOperations"
ANSWER = "AuthHelper.computeDescribeClusterResponse"
LISTED = "KafkaApis.handleDescribeCluster"

TABLE = Table(
    api="DescribeCluster",
    kafka="AuthHelper.computeDescribeClusterResponse, ControllerApis.handleDescribeCluster (KIP-700, KIP-919)",
    command=command,
    given=all_kinds,
    rows=(
        Row(
            case="brokers",
            rule=f"{LISTED}: those that are not fenced, the one in controlled shutdown too, with racks (KIP-700).",
            request=DescribeClusterRequest(endpoint_type=BROKERS),
            answer=told(broker(1), SECOND, broker(4)),
        ),
        Row(
            case="brokers, fenced ones too",
            rule=f"{LISTED}: and which of them are fenced (KIP-1073).",
            request=DescribeClusterRequest(endpoint_type=BROKERS, include_fenced_brokers=True),
            answer=told(broker(1), SECOND, broker(3, fenced=True), broker(4)),
        ),
        Row(
            case="controllers",
            rule="ControllerRegistrationsPublisher.describeClusterControllers: all that are registered (KIP-919).",
            request=DescribeClusterRequest(endpoint_type=CONTROLLERS),
            answer=told(Node(3000, "c", 9093), Node(3001, "c", 9093), endpoint_type=CONTROLLERS),
        ),
        Row(
            case="controllers, fenced brokers too",
            rule=f"{ANSWER}: of controllers none is fenced.",
            request=DescribeClusterRequest(endpoint_type=CONTROLLERS, include_fenced_brokers=True),
            answer=told(Node(3000, "c", 9093), Node(3001, "c", 9093), endpoint_type=CONTROLLERS),
        ),
        Row(
            case="brokers, and what the caller may do",
            rule=f"{MAY}: bit n is the operation of that number, of those that a cluster has (KIP-430).",
            request=DescribeClusterRequest(endpoint_type=BROKERS, include_cluster_authorized_operations=True),
            beside={"may": (AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.READ)},
            answer=told(broker(1), SECOND, broker(4), may=1 << 8 | 1 << 7),
        ),
        Row(
            case="controllers, and what the caller may do, who may do everything",
            rule=f"{MAY}: without an authorizer everybody may (KIP-430).",
            request=DescribeClusterRequest(endpoint_type=CONTROLLERS, include_cluster_authorized_operations=True),
            answer=told(
                *(Node(3000, "c", 9093), Node(3001, "c", 9093)), endpoint_type=CONTROLLERS, may=0b1_1111_1010_0000
            ),
        ),
        Row(
            case="brokers, and what the caller may do, who may not see the cluster",
            rule=f"{ANSWER}: nothing that could be told (KIP-430).",
            request=DescribeClusterRequest(endpoint_type=BROKERS, include_cluster_authorized_operations=True),
            beside={"may": (AclOperation.CREATE,)},
            answer=told(broker(1), SECOND, broker(4), may=0),
        ),
        Row(
            case="brokers, nobody is registered",
            rule=f"{ANSWER}: the cluster's id is told all the same.",
            given=nobody,
            request=DescribeClusterRequest(endpoint_type=BROKERS),
            answer=told(),
        ),
        Row(
            case="a kind that there is not",
            rule=f"{ANSWER}: EndpointType.fromId knows 1 and 2 (KIP-919).",
            request=DescribeClusterRequest(endpoint_type=3),
            answer=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        ),
        Row(
            case="no kind",
            rule=f"{ANSWER}: EndpointType.fromId knows 1 and 2 (KIP-919).",
            request=DescribeClusterRequest(endpoint_type=0),
            answer=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        ),
    ),
)
