"""DescribeCluster (60): lists the brokers or controllers of the cluster. KIP-700, KIP-919."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from kraft.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from quorate.authorizer import CLUSTER_NAME
from quorate.controller.access.authorized_operations import authorized_operations
from quorate.controller.access.rights import Allows, allows_all
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId

__all__ = ["describe_cluster"]


class _EndpointType(IntEnum):
    """The endpoint types of a DescribeCluster request. KIP-919."""

    BROKERS = 1
    CONTROLLERS = 2


_Node: TypeAlias = DescribeClusterResponse.DescribeClusterBroker


class _EndPoint(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


E = TypeVar("E", bound=_EndPoint)


def describe_cluster(
    request: DescribeClusterRequest,
    *,
    cluster_id: str,
    controller_id: NodeId,
    listener: str | None = None,
    allows: Allows = allows_all,
    would_allow: Allows = allows_all,
) -> Command[DescribeClusterResponse]:
    """Returns the command that lists brokers (endpoint type 1) or controllers (2) with their addresses on `listener`.

    Nodes without that listener are left out; None takes each node's first listener. Fenced brokers are listed only on
    request. `controller_id` is the active controller, in either list. On request the response has the caller's
    authorized operations on the cluster by `would_allow`: 0 if `allows` denies DESCRIBE.

    Raises ApiError(UNSUPPORTED_ENDPOINT_TYPE).
    """

    def command(state: ClusterState, _: Moment) -> Decision[DescribeClusterResponse]:
        match request.endpoint_type:
            case _EndpointType.BROKERS:
                nodes = tuple(_brokers(state, listener, with_fenced=request.include_fenced_brokers))
            case _EndpointType.CONTROLLERS:
                nodes = tuple(_controllers(state, listener))
            case other:
                raise ApiError(
                    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                    f"endpoint type {other} does not exist: 1 asks for brokers, 2 for controllers",
                )
        response = DescribeClusterResponse(
            endpoint_type=request.endpoint_type, cluster_id=cluster_id, controller_id=controller_id, brokers=nodes
        )
        if request.include_cluster_authorized_operations:
            response = replace(response, cluster_authorized_operations=_operations(state, allows, would_allow))
        return Decision(response)

    return command


def _operations(state: ClusterState, allows: Allows, would_allow: Allows) -> int:
    if not allows(state, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(state, would_allow, ResourceType.CLUSTER, CLUSTER_NAME)


def _brokers(state: ClusterState, listener: str | None, *, with_fenced: bool) -> Iterator[_Node]:
    for broker in state.brokers:
        end_point = _named(broker.end_points, listener)
        if end_point is not None and (with_fenced or not broker.fenced):
            yield _Node(
                broker_id=broker.id, host=end_point.host, port=end_point.port, rack=broker.rack, is_fenced=broker.fenced
            )


def _controllers(state: ClusterState, listener: str | None) -> Iterator[_Node]:
    for controller in state.controllers:
        end_point = _named(controller.end_points, listener)
        if end_point is not None:
            yield _Node(broker_id=controller.controller_id, host=end_point.host, port=end_point.port)


def _named(end_points: Sequence[E], listener: str | None) -> E | None:
    return next((end_point for end_point in end_points if listener in (None, end_point.name)), None)
