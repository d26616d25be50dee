"""Who leads a partition next: the preferred, any that has all the data, or, if so wished, any at all.

A clean choice is from the ISR, or where that is empty from the ELR (KIP-966): those have every committed record.
After them comes the last leader known, if nobody else is left (KIP-966, balanced recovery), and last, where unclean
election is on, whoever is there. The latter two may have lost records, and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from quorate.metadata.partitions import NO_LEADER
from quorate.nouns import NodeId

__all__ = ["Candidates", "Elected", "Election", "elect"]


class Election(Enum):
    """What is asked for. KIP-460."""

    PREFERRED = "preferred"
    """The first replica, if it may; the present leader stays otherwise."""
    ONLINE = "online"
    """The present leader stays if it may; the next replica that may, otherwise."""
    UNCLEAN = "unclean"
    """As ONLINE, and at the last any replica that is there."""


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """A partition before an election. `last_known_leader` only where it may be resorted to."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    elr: tuple[NodeId, ...]
    last_known_leader: NodeId | None
    leader: NodeId
    is_acceptable: Callable[[NodeId], bool]
    """May this broker lead at all: is it active, and the replica's directory online?"""

    def may_lead(self, replica: NodeId) -> bool:
        """Is it there, and has it every committed record?"""
        complete = self.isr or self.elr
        return replica in complete and self.is_acceptable(replica)


class Elected(msgspec.Struct, frozen=True, gc=False):
    """Who leads, NO_LEADER for nobody. `unclean`: it may lack committed records."""

    leader: NodeId
    unclean: bool = False


def elect(candidates: Candidates, election: Election) -> Elected:
    """The leader of a partition, by the order of its replicas. KIP-460, KIP-966."""
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
