"""Fetch from follower: a follower serves the committed part of its log to observers, to spare the leader. Not in Kafka.

Only requests with `from_any` are served, and none of a voter: the leader must see how far voters are. Committed records
are the same on every node (I-21), so the worst that an answer of a follower can be is old. It says how long ago the
leader was last in contact (`silent_ms`), so that an observer leaves a follower that is cut off. KIP-392 has the same
for partitions; there and here the leader does not count these fetches.
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft import parked_fetches, reading
from quorate.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest
from quorate.raft.roles import Follower
from quorate.raft.step_context import Refused, StepContext


def relay_fetch(context: StepContext, role: Follower, request: FetchRequest) -> None:
    """Answers an observer's Fetch like a leader whose log ends at this follower's high watermark.

    Without news the fetch is held for its own `max_wait_ms`, with news at most for `commit_wait_ms`, so that one answer
    carries several commits; it is answered at once if `observers_max` others are held. NOT_LEADER_OR_FOLLOWER: it is
    from a voter, it does not allow any server (`from_any`), or this follower has not fetched from its leader yet.
    """
    if not _may_serve(context, role, request):
        context.refuse(role, request, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return
    misfit = _misfit(context, role, request)
    if misfit is not None:
        context.answer(request, misfit)
    elif (wait_ms := _wait_ms(context, request)) == 0 or (place := _place(context, role, request.replica)) is None:
        context.answer(request, _records(context, role, request))
    else:
        parked_fetches.park(context, role, place, request, wait_ms=wait_ms, answer=_answer(context, role))


def _place(context: StepContext, role: Follower, key: ReplicaKey) -> ReplicaKey | None:
    """Returns the key to park the fetch under; None if `observers_max` fetches of others are parked already."""
    if not key.has_id:
        return parked_fetches.place_of_reader(context, role, key)
    return key if key in role.parked or len(role.parked) < context.settings.observers_max else None


def relay_snapshot(context: StepContext, role: Follower, request: FetchSnapshotRequest) -> None:
    """Answers an observer's FetchSnapshot with one chunk: a snapshot is all committed. Refuses as `relay_fetch`."""
    if _may_serve(context, role, request):
        reading.answer_snapshot(context, role, request, silent_ms=_silent_ms(context, role))
    else:
        context.refuse(role, request, Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))


def answer_parked(context: StepContext, role: Follower) -> None:
    """Answers the held fetches whose deadline has come, and sets the timer for the next deadline.

    When the high watermark moves, a deadline is brought forward to `commit_wait_ms` from then, and a fetch that no
    longer fits this log, as after a snapshot, is answered at once.
    """
    ends = (context.log.high_watermark, context.log.high_watermark)
    has_changed, role.parked_checked_ends = ends != role.parked_checked_ends, ends
    if has_changed or parked_fetches.is_due(context, role):
        for key, parked in list(role.parked.items()):
            assert parked.request.from_any, parked.request  # a follower serves no other fetches
            # While the fetch was held, a snapshot may have replaced this log.
            misfit = _misfit(context, role, parked.request)
            parked.deadline_ms = min(parked.deadline_ms, context.now_ms + _wait_ms(context, parked.request))
            if misfit is not None or parked.deadline_ms <= context.now_ms:
                del role.parked[key]
                context.answer(parked.request, misfit or _records(context, role, parked.request))
        parked_fetches.find_deadline(role)
    parked_fetches.set_timer(context, role)


def _may_serve(context: StepContext, role: Follower, request: FetchRequest | FetchSnapshotRequest) -> bool:
    """Returns whether a follower may answer the request, this one has its leader, and the sender is no voter."""
    return request.from_any and role.has_fetched and not context.voters.has(request.replica)


def _silent_ms(context: StepContext, role: Follower) -> int:
    """Returns for how many ms this follower has had no contact with the leader."""
    assert role.leader_contact_at_ms is not None, role
    assert role.leader_contact_at_ms <= context.now_ms, (role.leader_contact_at_ms, context.now_ms)
    return context.now_ms - role.leader_contact_at_ms


def _misfit(context: StepContext, role: Follower, request: FetchRequest) -> FetchResponse | None:
    """Returns the answer to a fetch that does not continue this log; None if it does, as far as this node can know."""
    log = context.log
    # Beyond this follower's high watermark, the observer's records may be the right ones: only the leader knows.
    is_ahead = request.fetch_offset > log.high_watermark
    if is_ahead and log.end_offset_for(request.last_fetched_epoch).offset >= log.high_watermark:
        return None
    return reading.misfit(log, request, _answer(context, role))


def _has_news(context: StepContext, request: FetchRequest) -> bool:
    """Returns whether records are committed, or a high watermark is known, that the observer does not have."""
    return context.log.high_watermark > min(request.fetch_offset, request.high_watermark)


def _wait_ms(context: StepContext, request: FetchRequest) -> int:
    """Returns for how many ms the fetch may be held from now on."""
    wait_ms = request.max_wait_ms
    return min(wait_ms, context.settings.commit_wait_ms) if _has_news(context, request) else wait_ms


def _answer(context: StepContext, role: Follower) -> FetchResponse:
    """Returns a Fetch answer without records."""
    return FetchResponse(
        epoch=role.epoch,
        leader_id=role.leader_id,
        high_watermark=context.log.high_watermark,
        log_start_offset=context.log.start,
        silent_ms=_silent_ms(context, role),
    )


def _records(context: StepContext, role: Follower, request: FetchRequest) -> FetchResponse:
    """Returns a Fetch answer with the committed records from the fetch offset on."""
    end = context.log.high_watermark
    return reading.records(request, _answer(context, role), end=end, below=end)
