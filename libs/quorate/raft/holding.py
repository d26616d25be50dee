"""Fetches that are held until there is news: one a replica, for as long as its asker allows (KIP-595, KIP-1166)."""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.messages import FetchRequest, FetchResponse
from quorate.raft.roles import Follower, Leader, Parked, Role
from quorate.raft.turn import Fault, Turn


def park(
    turn: Turn, role: Leader | Follower, key: ReplicaKey, request: FetchRequest, *, wait_ms: int, answer: FetchResponse
) -> None:
    """Holds the fetch of `key` for `wait_ms`; one that it has given up gets the empty `answer`."""
    before = role.parked.pop(key, None)
    if before is not None:  # or it would not have asked again
        turn.answer(before.request, answer)
    expires_ms = turn.now_ms + wait_ms
    role.parked[key] = Parked(request=request, expires_ms=expires_ms)
    role.parked_ms = expires_ms if role.parked_ms is None else min(role.parked_ms, expires_ms)


def is_due(turn: Turn, role: Leader | Follower) -> bool:
    """Has the first of those that are held waited long enough?"""
    return role.parked_ms is not None and turn.is_due(role.parked_ms)


def wait_on(turn: Turn, role: Leader | Follower) -> None:
    """Some were answered: the core is woken for the first of the rest."""
    role.parked_ms = min((parked.expires_ms for parked in role.parked.values()), default=None)
    if role.parked_ms is not None:
        turn.is_due(role.parked_ms)


def release_parked(turn: Turn, role: Leader | Follower, after: Role) -> None:
    """Tells those who wait that `role` is over, and what we are now."""
    for parked in role.parked.values():
        turn.refuse(after, parked.request, Fault(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    role.parked.clear()


def drop_parked(role: Leader | Follower, peer: NodeId) -> None:
    """Forgets the held fetches of a peer that can no longer be answered."""
    for key in [key for key in role.parked if key.id == peer]:
        del role.parked[key]
