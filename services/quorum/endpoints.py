"""Where other nodes listen: from the voter set in the log, from the configuration, or as others tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

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
    """Each known node's address by its id: as the voter set in force says (KIP-853), the configuration, or others.

    Bootstrap servers have no id until they are asked; they go by negative ones, as in Kafka.
    """

    def __init__(
        self, configured: Sequence[ConfiguredVoter], bootstrap: Sequence[ConfiguredEndpoint], voters: History[VoterSet]
    ) -> None:
        self._configured = {voter.id: Address(voter.endpoint.host, voter.endpoint.port) for voter in configured}
        self.bootstrap: Final = {
            FIRST_BOOTSTRAP_ID - at: Address(server.host, server.port) for at, server in enumerate(bootstrap)
        }
        self._heard: dict[NodeId, Address] = {}
        self._voters = voters

    def hear(self, node_id: NodeId, address: Address) -> None:
        """Another node says where this one listens."""
        self._heard[node_id] = address

    def __getitem__(self, node_id: NodeId) -> Address:
        voter = self._voters.latest.by_id(node_id)
        if voter is not None and voter.endpoints:
            return Address(voter.endpoints[0].host, voter.endpoints[0].port)
        for known in (self._configured, self._heard, self.bootstrap):
            if node_id in known:
                return known[node_id]
        raise KeyError(node_id)

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
