"""DescribeCluster (60): lists the brokers or controllers of the cluster. KIP-700, KIP-919."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec.structs import replace

from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from quorate.authorizer import CLUSTER_NAME
from quorate.controller.access.authorized_operations import authorized_operations
from quorate.controller.access.rights import Allows, allows_all
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.state import ClusterState
from quorate.nouns import EndpointType, NodeId

__all__ = ["describe_cluster"]


_Node: TypeAlias = DescribeClusterResponse.DescribeClusterBroker


def describe_cluster(
    request: DescribeClusterRequest,
    *,
    cluster_id: str,
    controller_id: NodeId,
    allows: Allows = allows_all,
    would_allow: Allows = allows_all,
) -> Command[DescribeClusterResponse]:
    """Returns the command that lists brokers (endpoint type 1) or controllers (2), each at its first listener by name.

    Fenced brokers are listed only on request. `controller_id` is the active controller, in either list. On request the
    response has the caller's authorized operations on the cluster by `would_allow`: 0 if `allows` denies DESCRIBE.

    The command raises ApiError(UNSUPPORTED_ENDPOINT_TYPE) for another type.
    """

    def command(state: ClusterState, _: Moment) -> Decision[DescribeClusterResponse]:
        match request.endpoint_type:
            case EndpointType.BROKERS:
                nodes = tuple(_brokers(state, with_fenced=request.include_fenced_brokers))
            case EndpointType.CONTROLLERS:
                nodes = tuple(_controllers(state))
            case other:
                raise ApiError(
                    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                    f"endpoint type {other} does not exist: 1 asks for brokers, 2 for controllers",
                )
        response = DescribeClusterResponse(
            endpoint_type=request.endpoint_type, cluster_id=cluster_id, controller_id=controller_id, brokers=nodes
        )
        if request.include_cluster_authorized_operations:
            response = replace(response, cluster_authorized_operations=_operations(allows, would_allow))
        return Decision(response)

    return command


def _operations(allows: Allows, would_allow: Allows) -> int:
    if not allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(would_allow, ResourceType.CLUSTER, CLUSTER_NAME)


def _brokers(state: ClusterState, *, with_fenced: bool) -> Iterator[_Node]:
    for broker in state.brokers:
        if broker.end_points and (with_fenced or not broker.fenced):
            first = broker.end_points[0]
            yield _Node(
                broker_id=broker.id, host=first.host, port=first.port, rack=broker.rack, is_fenced=broker.fenced
            )


def _controllers(state: ClusterState) -> Iterator[_Node]:
    for controller in state.controllers:
        if controller.end_points:
            first = controller.end_points[0]
            yield _Node(broker_id=controller.controller_id, host=first.host, port=first.port)
