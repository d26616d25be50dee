"""Parked fetches: a leader or relay holds a fetch without news, one for each replica (long poll; KIP-595, KIP-1166).

News is a record at or after the fetch offset, or a high watermark above the one in the request. A held fetch is
answered when there is news, at its deadline without, and with an error when the role changes; none outlives its wait
(I-70).
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.messages import FetchRequest, FetchResponse
from quorate.raft.roles import Follower, Leader, Parked, Role
from quorate.raft.step_context import Refused, StepContext


def park(
    context: StepContext,
    role: Leader | Follower,
    key: ReplicaKey,
    request: FetchRequest,
    *,
    wait_ms: int,
    answer: FetchResponse,
) -> None:
    """Holds the fetch of `key` for `wait_ms`. An earlier one of the same replica gets the empty `answer` at once."""
    assert wait_ms > 0, wait_ms
    before = role.parked.pop(key, None)
    if before is not None:  # a replica that fetches again no longer awaits the earlier answer
        context.answer(before.request, answer)
    deadline_ms = context.now_ms + wait_ms
    role.parked[key] = Parked(request=request, deadline_ms=deadline_ms)
    role.parked_deadline_ms = (
        deadline_ms if role.parked_deadline_ms is None else min(role.parked_deadline_ms, deadline_ms)
    )
    assert role.parked_deadline_ms <= deadline_ms, (role.parked_deadline_ms, deadline_ms)


def place_of_reader(context: StepContext, role: Leader | Follower, key: ReplicaKey) -> ReplicaKey | None:
    """Returns a free key to hold the fetch of a reader without an id under; None if `observers_max` fetches are held.

    Two such readers look the same, so neither's fetch replaces the other's; a reader that is answered at once asks
    again at once.
    """
    assert not key.has_id, key
    if len(role.parked) >= context.settings.observers_max:
        return None
    place = key
    while place in role.parked:
        place = ReplicaKey(min(place.id, -len(role.parked)) - 1, key.directory_id)
    return place


def is_due(context: StepContext, role: Leader | Follower) -> bool:
    """Returns whether the earliest deadline of a held fetch has come."""
    return role.parked_deadline_ms is not None and role.parked_deadline_ms <= context.now_ms


def find_deadline(role: Leader | Follower) -> None:
    """Sets the role's `parked_deadline_ms` to the earliest deadline of the fetches that are still held."""
    role.parked_deadline_ms = min((parked.deadline_ms for parked in role.parked.values()), default=None)


def set_timer(context: StepContext, role: Leader | Follower) -> None:
    """Sets a timer for the earliest deadline of the held fetches, if any are held. It must not have come yet."""
    if role.parked_deadline_ms is not None:
        context.wake_at(role.parked_deadline_ms)


def release_parked(context: StepContext, role: Leader | Follower, after: Role) -> None:
    """Answers all held fetches with NOT_LEADER_OR_FOLLOWER, the leader and epoch of `after`: the role has changed."""
    for parked in role.parked.values():
        context.refuse(after, parked.request, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    role.parked.clear()


def drop_parked(role: Leader | Follower, peer: NodeId) -> None:
    """Forgets the held fetches of a peer whose stream is gone: they cannot be answered.

    A peer whose id is not known yet has a negative one here; none of the readers without an id is that peer.
    """
    for key in [key for key in role.parked if key.has_id and key.id == peer]:
        del role.parked[key]
