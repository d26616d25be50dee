"""Puts addresses that a Kafka can reach in place of the gRPC addresses in answers: those of the gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kraft import Message
from kraft.api.describe_cluster import DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumResponse
from kraft.api.update_raft_voter import UpdateRaftVoterResponse
from quorate.nouns import NodeId
from quorate.runtime.setting_types import Endpoint

__all__ = ["Endpoints"]

M = TypeVar("M", bound=Message)

NODES: Final = "node_endpoints"
"""The field of a raft answer that says where the leader is. KIP-853."""
CONTROLLERS: Final = 2
"""The endpoint type of DescribeCluster for controllers. KIP-919."""


class Endpoints:
    """Where each node's gateway is, by node id, and the name of the listener.

    A node that is not among them is left out of an answer: at its own address nobody speaks Kafka's protocol.
    """

    def __init__(self, gateways: Mapping[NodeId, Endpoint], listener: str) -> None:
        self._gateways = dict(gateways)
        self._listener = listener

    def reachable(self, response: M) -> M:
        """Returns the response with the gateways' addresses."""
        if isinstance(response, DescribeQuorumResponse):
            nodes = tuple(self._listening(each) for each in response.nodes if each.node_id in self._gateways)
            return replace(response, nodes=nodes)
        if isinstance(response, DescribeClusterResponse):
            return self._cluster(response)  # type: ignore[return-value]  # M is this class here
        if isinstance(response, UpdateRaftVoterResponse):
            return replace(response, current_leader=self._leader(response.current_leader))
        if NODES in response.__struct_fields__:
            return replace(response, **{NODES: self._moved(getattr(response, NODES), "node_id")})
        return response

    def _cluster(self, response: DescribeClusterResponse) -> DescribeClusterResponse:
        if response.endpoint_type != CONTROLLERS:
            return response
        return replace(response, brokers=self._moved(response.brokers, "broker_id"))

    def _moved(self, nodes: tuple[Any, ...], key: str) -> tuple[Any, ...]:
        known = ((each, self._gateways.get(getattr(each, key))) for each in nodes)
        return tuple(replace(each, host=at.host, port=at.port) for each, at in known if at is not None)

    def _leader(self, leader: UpdateRaftVoterResponse.CurrentLeader) -> UpdateRaftVoterResponse.CurrentLeader:
        at = self._gateways.get(leader.leader_id)
        return replace(leader, host="", port=0) if at is None else replace(leader, host=at.host, port=at.port)

    def _listening(self, node: DescribeQuorumResponse.Node) -> DescribeQuorumResponse.Node:
        at = self._gateways[node.node_id]
        return replace(node, listeners=(DescribeQuorumResponse.Node.Listener(self._listener, at.host, at.port),))
