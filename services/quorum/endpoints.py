"""The addresses of other quorum nodes: from the voter set in the log, the configuration, or other nodes' answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.history import History
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.runtime.settings.named_endpoints import NamedEndpoint, NamedVoter
from quorate.runtime.settings.setting_types import ConfiguredVoter as ConfiguredVoter
from quorate.runtime.settings.setting_types import Endpoint as ConfiguredEndpoint
from services.quorum.listeners import GRPC, ListenerProtocols, PeerAddress
from services.quorum.translate import Address

FIRST_BOOTSTRAP_ID: Final = -2
"""The node id of the first bootstrap server, counting down; -1 means no node."""
HEARD_MAX: Final = 1_000
"""Most addresses that are kept from other nodes' answers; any client may send some, so memory needs a bound."""


def static_voters(configured: Sequence[ConfiguredVoter]) -> VoterSet:
    """Returns `controller.quorum.voters` as a voter set without directory ids and listeners (kraft.version 0)."""
    return VoterSet(tuple(Voter(key=ReplicaKey(voter.id)) for voter in configured))


class NodeEndpoints(Mapping[NodeId, Address]):
    """The address of each known node by id: from other nodes, the voter set in force (KIP-853), or the configuration.

    As a mapping it has the nodes that speak gRPC; `peer` has all, with the protocol that each speaks.

    An answer that names a leader has its address, as this node may lack the records that have it: the leader has moved
    or become a voter. Such an address counts until the voter set in force changes its entry for that node.

    Bootstrap servers have negative ids, as in Kafka, since their real ids are not known.
    """

    def __init__(
        self,
        configured: Sequence[ConfiguredVoter | NamedVoter],
        bootstrap: Sequence[ConfiguredEndpoint | NamedEndpoint],
        voters: History[VoterSet],
        protocols: ListenerProtocols | None = None,
    ) -> None:
        self._protocols = protocols or ListenerProtocols()
        self._listeners = {voter.id: _listener_of(voter) for voter in configured}
        self._configured = {voter.id: self._at(voter.endpoint, _listener_of(voter)) for voter in configured}
        self.bootstrap: Final = {
            FIRST_BOOTSTRAP_ID - at: self._at(_endpoint_of(server), _listener_of(server))
            for at, server in enumerate(bootstrap)
        }
        self._heard: dict[NodeId, tuple[PeerAddress, PeerAddress | None]] = {}
        """Addresses from other nodes, each with the voter set's address at that time."""
        self._voters = voters
        self._found_in: VoterSet | None = None
        self._found: dict[NodeId, PeerAddress | None] = {}
        """Where each voter of that set is reached, as each answer says it of the leader."""

    def hear(self, node_id: NodeId, address: Address, protocol: str = GRPC) -> None:
        """Notes a node's address from another node's message; only the last `HEARD_MAX` are kept.

        An address for Kafka's wire does not replace one for gRPC: that is our node itself, and the other its gateway.
        A negative id has no effect.
        """
        if node_id < 0:
            return
        known, heard = self.peer(node_id), PeerAddress(address, protocol)
        if known is not None and known.is_grpc and not heard.is_grpc:
            return
        self._heard.pop(node_id, None)
        self._heard[node_id] = heard, self._voting(node_id)
        if len(self._heard) > HEARD_MAX:
            del self._heard[next(iter(self._heard))]

    def hear_listeners(self, node_id: NodeId, listeners: Sequence[ListenerEndpoint]) -> None:
        """Notes the address of a leader among the listeners that it has announced; none, if this node can use none."""
        if (reached := self.reached(listeners)) is not None:
            self.hear(node_id, reached.address, reached.protocol)

    def reached(self, listeners: Iterable[ListenerEndpoint]) -> PeerAddress | None:
        """Returns the address and protocol for a peer with these listeners; None if it has none to speak to."""
        return self._protocols.reached((each.name, Address(each.host, each.port)) for each in listeners)

    def listener(self, at: PeerAddress) -> str:
        """Returns the name that this node's configuration has for listeners of an address's protocol; "" for gRPC."""
        return self._protocols.name_of(at.protocol)

    @property
    def discovery_addresses(self) -> list[Address]:
        """Our nodes' configured addresses, to ask where a Kafka leader listens; empty if all listeners are for gRPC."""
        if not self._protocols.by_name:
            return []
        known = (*self.bootstrap.values(), *self._configured.values())
        return list(dict.fromkeys(each.address for each in known if each.is_grpc))

    def peer(self, node_id: NodeId) -> PeerAddress | None:
        """Returns where a node is reached, and by which protocol; None if that is not known."""
        voting = self._voting(node_id)
        heard, overruled = self._heard.get(node_id, (None, None))
        if heard is not None and overruled == voting:
            return heard
        return voting or self._configured.get(node_id) or self.bootstrap.get(node_id)

    @property
    def voters(self) -> VoterSet:
        """The voter set in force."""
        return self._voters.latest

    def source(self, node_id: NodeId) -> str:
        """Returns where the address of a node is from, in words for an operator; "" if none is known."""
        voting = self._voting(node_id)
        heard, overruled = self._heard.get(node_id, (None, None))
        if heard is not None and overruled == voting:
            return "another node's answer"
        if voting is not None:
            return "the voters record in the log"
        if node_id in self._configured:
            return "controller.quorum.voters"
        return "controller.quorum.bootstrap.servers" if node_id in self.bootstrap else ""

    def configured_listener(self, node_id: NodeId) -> list[ListenerEndpoint]:
        """Returns where a static voter listens, at most one, under the name that its entry in the configuration has.

        An entry without a name is for the listener at which this node calls its peers, as in Kafka
        (KafkaRaftClient.initialize).
        """
        found = self.peer(node_id)
        name = self._listeners.get(node_id) or self._protocols.preferred
        return [] if found is None else [ListenerEndpoint(name, found.address.host, found.address.port)]

    def on(self, listener: str | None) -> Mapping[NodeId, Address]:
        """Returns the nodes' addresses for the answer to a request; it follows all changes.

        `listener` is the gateway's listener at which the request was received: the addresses are those of the nodes'
        listeners of this name. None is for a request by gRPC, and gives the nodes' gRPC addresses.
        """
        return self if listener is None else _OnListener(self, listener)

    def named(self, node_id: NodeId, listener: str) -> Address | None:
        """Returns the address of a node's listener of this name, if Kafka's wire is spoken there; None if not known.

        An address that an answer has given has no name: it counts if it is for the same protocol.
        """
        if self._protocols.of(listener) == GRPC:
            return None
        voter = self._voters.latest.by_id(node_id)
        if voter is not None and voter.endpoints:
            return next((Address(at.host, at.port) for at in voter.endpoints if at.name == listener), None)
        if self._listeners.get(node_id) == listener:
            return self._configured[node_id].address
        heard, _ = self._heard.get(node_id, (None, None))
        return None if heard is None or heard.protocol != self._protocols.of(listener) else heard.address

    def unannounced(self, listener: str) -> list[NodeId]:
        """Returns the ids of the log's voters that have listeners, but none of this name; none if voters are static."""
        voters = self._voters.latest.voters
        return [each.key.id for each in voters if each.endpoints and not each.listens_on(listener)]

    @property
    def ids(self) -> list[NodeId]:
        """The ids of the log's voters that have listeners and of `controller.quorum.voters`, ascending."""
        reached = {voter.key.id for voter in self._voters.latest.voters if voter.endpoints}
        return sorted(reached | self._configured.keys())

    def _voting(self, node_id: NodeId) -> PeerAddress | None:
        """Returns the node's address in the voter set in force; None if it has none."""
        voters = self._voters.latest
        if voters is not self._found_in:
            self._found_in = voters
            self._found = {each.key.id: self.reached(each.endpoints) for each in voters.voters}
        return self._found.get(node_id)

    def _at(self, endpoint: ConfiguredEndpoint, listener: str) -> PeerAddress:
        return PeerAddress(Address(endpoint.host, endpoint.port), self._protocols.of(listener))

    def __getitem__(self, node_id: NodeId) -> Address:
        found = self.peer(node_id)
        if found is None or not found.is_grpc:
            raise KeyError(node_id)
        return found.address

    def __iter__(self) -> Iterator[NodeId]:
        """Yields the ids of voters and configured nodes in order, as DescribeQuorum lists them."""
        return (node_id for node_id in self.ids if node_id in self)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, node_id: object) -> bool:
        try:
            self[node_id]  # type: ignore[index]  # an id or not: it is not there then
        except KeyError:
            return False
        return True


class _OnListener(Mapping[NodeId, Address]):
    """The nodes with a listener of one name, on which Kafka's wire is spoken, and where that is."""

    def __init__(self, endpoints: NodeEndpoints, listener: str) -> None:
        self._endpoints = endpoints
        self._listener = listener

    def __getitem__(self, node_id: NodeId) -> Address:
        found = self._endpoints.named(node_id, self._listener)
        if found is None:
            raise KeyError(node_id)
        return found

    def __iter__(self) -> Iterator[NodeId]:
        return (node_id for node_id in self._endpoints.ids if node_id in self)

    def __len__(self) -> int:
        return len(list(iter(self)))


def _listener_of(entry: ConfiguredVoter | ConfiguredEndpoint | NamedEndpoint) -> str:
    return entry.listener if isinstance(entry, NamedVoter | NamedEndpoint) else ""


def _endpoint_of(server: ConfiguredEndpoint | NamedEndpoint) -> ConfiguredEndpoint:
    return server.endpoint if isinstance(server, NamedEndpoint) else server
