"""Where other nodes listen: from the voter set in the log, from the configuration, or as others tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.history import History
from quorate.raft.voters import Voter, VoterSet
from quorate.runtime.kinds import Endpoint as ConfiguredEndpoint
from quorate.runtime.kinds import Voter as ConfiguredVoter
from services.quorum.translate import Address

FIRST_BOOTSTRAP_ID: Final = -2
"""-1 is nobody."""


def static_voters(configured: Sequence[ConfiguredVoter]) -> VoterSet:
    """`controller.quorum.voters` as a voter set: no directory ids (kraft.version 0)."""
    return VoterSet(tuple(Voter(key=ReplicaKey(voter.id)) for voter in configured))


class NodeEndpoints(Mapping[NodeId, Address]):
    """Each known node's address by its id: as others say, the voter set in force (KIP-853), or the configuration.

    Who names a leader says where it listens, for that may stand in records that we do not have yet: it has moved, or
    become a voter. So what was heard counts until the voter set in force says otherwise than it did then.

    Bootstrap servers have no id until they are asked; they go by negative ones, as in Kafka.
    """

    def __init__(
        self, configured: Sequence[ConfiguredVoter], bootstrap: Sequence[ConfiguredEndpoint], voters: History[VoterSet]
    ) -> None:
        self._configured = {voter.id: Address(voter.endpoint.host, voter.endpoint.port) for voter in configured}
        self.bootstrap: Final = {
            FIRST_BOOTSTRAP_ID - at: Address(server.host, server.port) for at, server in enumerate(bootstrap)
        }
        self._heard: dict[NodeId, tuple[Address, Address | None]] = {}
        """Each with what the voter set said at that time."""
        self._voters = voters

    def hear(self, node_id: NodeId, address: Address) -> None:
        """Another node says where this one listens."""
        self._heard[node_id] = address, self._voting(node_id)

    def hear_of(self, nodes: Iterable[Any]) -> None:
        """The NodeEndpoints of an answer."""
        for node in nodes:
            self.hear(node.node_id, Address(node.host, node.port))

    def _voting(self, node_id: NodeId) -> Address | None:
        """Where the voter set in force has it."""
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
        """Voters and configured ones, by id: what DescribeQuorum names."""
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
