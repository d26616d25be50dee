"""Where the voters listen: from the configuration, or from the voter set in the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.core import Raft
from quorate.raft.voters import Voter, VoterSet
from quorate.runtime.kinds import Voter as ConfiguredVoter
from services.quorum.translate import Address


def static_voters(configured: Sequence[ConfiguredVoter]) -> VoterSet:
    """`controller.quorum.voters` as a voter set: no directory ids (kraft.version 0)."""
    return VoterSet(tuple(Voter(key=ReplicaKey(voter.id)) for voter in configured))


class VoterEndpoints(Mapping[NodeId, Address]):
    """Each voter's address by its id. The voter set in force wins over the configuration (KIP-853)."""

    def __init__(self, configured: Sequence[ConfiguredVoter], core: Raft) -> None:
        self._configured = {voter.id: Address(voter.endpoint.host, voter.endpoint.port) for voter in configured}
        self._core = core

    def __getitem__(self, node_id: NodeId) -> Address:
        for voter in self._core.log.voters.latest.voters:
            if voter.key.id == node_id and voter.endpoints:
                _, host, port = voter.endpoints[0]  # type: ignore[index]  # as `voter_set` made them
                return Address(host, port)
        return self._configured[node_id]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(sorted(self._core.log.voters.latest.ids | self._configured.keys()))

    def __len__(self) -> int:
        return len(list(iter(self)))
