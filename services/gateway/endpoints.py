"""Puts addresses into answers that brokers and Kafka clients can reach: of gateways, and of Kafka controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from kraft import Message
from kraft.api.describe_cluster import DescribeClusterResponse
from kraft.api.describe_quorum import DescribeQuorumResponse
from kraft.api.fetch import FetchResponse
from kraft.api.update_raft_voter import UpdateRaftVoterResponse
from quorate.nouns import NOBODY, EndpointType, NodeId
from quorate.protocol.apis import all_apis
from quorate.runtime.access.passing_on import LISTENER
from quorate.runtime.settings.setting_types import Endpoint

__all__ = ["Endpoints"]

M = TypeVar("M", bound=Message)

NODES: Final = "node_endpoints"
"""The field of a raft answer that says where the leader is. KIP-853."""


class Endpoints:
    """Where each node's gateway is at the listener on which a request came, by node id, as Kafka answers it (KIP-103).

    Kafka controllers may be among them. In raft answers the quorum node beside the gateway also names those that
    are not, by the name of the listener. Any other node is left out of an answer: at its own address nobody speaks
    Kafka's protocol, or not by this listener's security protocol. DescribeQuorum alone names all listeners of a node.
    """

    def __init__(self, gateways: Mapping[str, Mapping[NodeId, Endpoint]], listener: str) -> None:
        """`gateways` has the nodes of each listener by its name."""
        self._by_listener = gateways
        self._gateways = gateways[listener]
        self.metadata: Final = ((LISTENER, listener),)
        """The metadata of a call to the quorum node: the listener."""

    def reachable(self, response: M) -> M:
        """Returns the response with addresses that brokers and clients can reach; nodes without one are left out."""
        moved = _MOVED.get(type(response))
        return response if moved is None else moved(self, response)

    def _described(self, response: DescribeQuorumResponse) -> DescribeQuorumResponse:
        described = (replace(each, listeners=self._listeners(each.node_id)) for each in response.nodes)
        return replace(response, nodes=tuple(each for each in described if each.listeners))

    def _cluster(self, response: DescribeClusterResponse) -> DescribeClusterResponse:
        if response.endpoint_type != EndpointType.CONTROLLERS:
            return response
        known = ((each, self._gateways.get(each.broker_id)) for each in response.brokers)
        nodes = tuple(replace(each, host=at.host, port=at.port) for each, at in known if at is not None)
        return replace(response, brokers=nodes)

    def _raft(self, response: Any) -> Any:
        """Says where the leader is: at its gateway, or where the quorum node says."""
        node = type(response).NodeEndpoint
        told = {each.node_id: each for each in response.node_endpoints}
        ids = told.keys() | {_leader_of(response)}
        moved = {
            node_id: node(node_id=node_id, host=at.host, port=at.port)
            for node_id, at in self._gateways.items()
            if node_id in ids
        }
        return replace(response, **{NODES: tuple((told | moved).values())})

    def _voter(self, response: UpdateRaftVoterResponse) -> UpdateRaftVoterResponse:
        leader = response.current_leader
        at = self._gateways.get(leader.leader_id)
        return response if at is None else replace(response, current_leader=replace(leader, host=at.host, port=at.port))

    def _listeners(self, node_id: NodeId) -> tuple[DescribeQuorumResponse.Node.Listener, ...]:
        return tuple(
            DescribeQuorumResponse.Node.Listener(name, nodes[node_id].host, nodes[node_id].port)
            for name, nodes in self._by_listener.items()
            if node_id in nodes
        )


_MOVED: Final[Mapping[type[Message], Callable[[Endpoints, Any], Any]]] = {
    DescribeQuorumResponse: Endpoints._described,
    DescribeClusterResponse: Endpoints._cluster,
    UpdateRaftVoterResponse: Endpoints._voter,
    **{api.response: Endpoints._raft for api in all_apis().values() if NODES in api.response.__struct_fields__},
}
"""By the class of an answer, the method that puts reachable addresses into it; the other classes have none."""


def _leader_of(response: Any) -> NodeId:
    """Returns the leader that a raft answer names in its only partition; -1 for none."""
    topics = response.responses if isinstance(response, FetchResponse) else response.topics
    if not topics or not topics[0].partitions:
        return NOBODY
    partition: Any = topics[0].partitions[0]
    leader: NodeId = getattr(partition, "current_leader", partition).leader_id
    return leader
