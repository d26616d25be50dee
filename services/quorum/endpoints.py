"""The addresses of other quorum nodes: from the voter set in the log, the configuration, or other nodes' answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.history import History
from quorate.raft.voters import Voter, VoterSet
from quorate.runtime.setting_types import ConfiguredVoter as ConfiguredVoter
from quorate.runtime.setting_types import Endpoint as ConfiguredEndpoint
from services.quorum.translate import Address

FIRST_BOOTSTRAP_ID: Final = -2
"""The node id of the first bootstrap server, counting down; -1 means no node."""
HEARD_MAX: Final = 1_000
"""Most addresses that are kept from other nodes' answers; any client may send some, so memory needs a bound."""


def static_voters(configured: Sequence[ConfiguredVoter]) -> VoterSet:
    """Returns `controller.quorum.voters` as a voter set without directory ids (kraft.version 0)."""
    return VoterSet(tuple(Voter(key=ReplicaKey(voter.id)) for voter in configured))


class NodeEndpoints(Mapping[NodeId, Address]):
    """The address of each known node by id: from other nodes, the voter set in force (KIP-853), or the configuration.

    An answer that names a leader has its address, as this node may lack the records that have it: the leader has moved
    or become a voter. Such an address counts until the voter set in force changes its entry for that node.

    Bootstrap servers have negative ids, as in Kafka, since their real ids are not known.
    """

    def __init__(
        self, configured: Sequence[ConfiguredVoter], bootstrap: Sequence[ConfiguredEndpoint], voters: History[VoterSet]
    ) -> None:
        self._configured = {voter.id: Address(voter.endpoint.host, voter.endpoint.port) for voter in configured}
        self.bootstrap: Final = {
            FIRST_BOOTSTRAP_ID - at: Address(server.host, server.port) for at, server in enumerate(bootstrap)
        }
        self._heard: dict[NodeId, tuple[Address, Address | None]] = {}
        """Addresses from other nodes, each with the voter set's address at that time."""
        self._voters = voters

    def hear(self, node_id: NodeId, address: Address) -> None:
        """Notes a node's address from another node's message; only the last `HEARD_MAX` are kept."""
        if node_id < 0:
            return
        self._heard.pop(node_id, None)
        self._heard[node_id] = address, self._voting(node_id)
        if len(self._heard) > HEARD_MAX:
            del self._heard[next(iter(self._heard))]

    def hear_of(self, nodes: Iterable[Any]) -> None:
        """Notes the addresses in the NodeEndpoints of an answer."""
        for node in nodes:
            self.hear(node.node_id, Address(node.host, node.port))

    def _voting(self, node_id: NodeId) -> Address | None:
        """Returns the node's address in the voter set in force; None if it has none."""
        voter = self._voters.latest.by_id(node_id)
        if voter is None or not voter.endpoints:
            return None
        return Address(voter.endpoints[0].host, voter.endpoints[0].port)

    def __getitem__(self, node_id: NodeId) -> Address:
        voting = self._voting(node_id)
        heard, overruled = self._heard.get(node_id, (None, None))
        if heard is not None and overruled == voting:
            return heard
        if voting is not None:
            return voting
        return self._configured.get(node_id) or self.bootstrap[node_id]

    def __iter__(self) -> Iterator[NodeId]:
        """Yields the ids of voters and configured nodes in order, as DescribeQuorum lists them."""
        reached = {voter.key.id for voter in self._voters.latest.voters if voter.endpoints}
        return iter(sorted(reached | self._configured.keys()))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, node_id: object) -> bool:
        try:
            self[node_id]  # type: ignore[index]  # an id or not: it is not there then
        except KeyError:
            return False
        return True
