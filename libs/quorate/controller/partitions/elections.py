"""Leader election of partitions: preferred, clean (from ISR or ELR), or, if allowed, unclean. KIP-460, KIP-966.

A clean election chooses from the ISR, or if that is empty from the ELR (KIP-966): these have every committed record.
Next comes the last known leader, if no other replica is left (KIP-966, balanced recovery), and last, if unclean
election is allowed, any available replica. A leader chosen by the last two rules is marked unclean: it may lack
records.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from quorate.metadata.partitions import NO_LEADER
from quorate.nouns import NodeId

__all__ = ["Candidates", "Elected", "Election", "elect"]


class Election(Enum):
    """The types of leader election: by ElectLeaders or by the controller itself. KIP-460."""

    PREFERRED = "preferred"
    """Elects the first replica if it is eligible; else the present leader stays."""
    ONLINE = "online"
    """Keeps the present leader if it is eligible; else elects the next eligible replica."""
    UNCLEAN = "unclean"
    """Elects as ONLINE does; if no replica is eligible, elects any available one, which may lack records."""


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """A partition before an election. `last_known_leader` is None if it must not be elected."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_leader: NodeId | None
    leader: NodeId
    is_acceptable: Callable[[NodeId], bool]
    """Returns whether a broker may lead: it is active, and the replica's directory is online."""

    def may_lead(self, replica: NodeId) -> bool:
        """Returns whether the replica is acceptable, and in the ISR, or in the ELR if the ISR is empty.

        Such a replica has every committed record.
        """
        complete = self.isr or self.elr
        return replica in complete and self.is_acceptable(replica)


class Elected(msgspec.Struct, frozen=True, gc=False):
    """The elected leader, or NO_LEADER; `unclean` if it may lack committed records."""

    leader: NodeId
    unclean: bool = False


def elect(candidates: Candidates, election: Election) -> Elected:
    """Elects a partition's leader: the present one if it may lead, else the first replica that may. KIP-460, KIP-966.

    PREFERRED tries the first replica before. If nobody may lead: the last known leader, if it is acceptable and ISR and
    ELR are empty; then for UNCLEAN the first acceptable replica; both are `unclean`. Else NO_LEADER.
    """
    for replica in _in_order(candidates, election):
        if candidates.may_lead(replica):
            return Elected(replica)
    last = candidates.last_known_leader
    if last is not None and not candidates.isr and not candidates.elr and candidates.is_acceptable(last):
        return Elected(last, unclean=True)
    if election is Election.UNCLEAN:
        for replica in candidates.replicas:
            if candidates.is_acceptable(replica):
                return Elected(replica, unclean=True)
    return Elected(NO_LEADER)


def _in_order(candidates: Candidates, election: Election) -> tuple[NodeId, ...]:
    if election is Election.PREFERRED:
        return (*candidates.replicas[:1], candidates.leader, *candidates.replicas)
    return (candidates.leader, *candidates.replicas)
