"""A follower serves the committed part of its log to observers that ask for it, so that they are no load on the leader.

Not in Kafka, whose clients go on to the leader when they are refused; so only a request that says `from_any` is
served, and never a voter's: the leader must hear that. What is committed is the same everywhere, so all that a relay
may be is behind; and how long it has not heard the leader it says, so that two that ask each other notice.
"""

from __future__ import annotations

from quorate.errors import ErrorCode
from quorate.raft import holding, reading
from quorate.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest
from quorate.raft.roles import Follower
from quorate.raft.turn import Fault, Turn


def relay_fetch(turn: Turn, role: Follower, request: FetchRequest) -> None:
    """Answers as a leader whose log ends at our high watermark."""
    if not _may_serve(turn, role, request):
        turn.refuse(role, request, Fault(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return
    misfit = _misfit(turn, role, request)
    is_listed = request.replica.id >= 0 and (
        request.replica in role.parked or len(role.parked) < turn.settings.observers_max
    )
    if misfit is not None:
        turn.answer(request, misfit)
    elif _has_news(turn, request) or request.max_wait_ms == 0 or not is_listed:
        turn.answer(request, _records(turn, role, request))
    else:
        answer = _answer(turn, role)
        holding.park(turn, role, request.replica, request, wait_ms=request.max_wait_ms, answer=answer)


def relay_snapshot(turn: Turn, role: Follower, request: FetchSnapshotRequest) -> None:
    """Answers with a piece of a snapshot: all of it is committed."""
    if _may_serve(turn, role, request):
        reading.answer_snapshot(turn, role, request, silent_ms=_silent_ms(turn, role))
    else:
        turn.refuse(role, request, Fault(ErrorCode.NOT_LEADER_OR_FOLLOWER))


def answer_parked(turn: Turn, role: Follower) -> None:
    """Answers the held fetches for which something was committed, or whose time is over."""
    told = (turn.log.high_watermark, turn.log.high_watermark)
    has_changed, role.told = told != role.told, told
    if not has_changed and not holding.is_due(turn, role):
        return
    for key, parked in list(role.parked.items()):
        # While it was held, a snapshot may have taken our log's place.
        misfit = _misfit(turn, role, parked.request)
        if misfit is not None or _has_news(turn, parked.request) or parked.expires_ms <= turn.now_ms:
            del role.parked[key]
            turn.answer(parked.request, misfit or _records(turn, role, parked.request))
    holding.wait_on(turn, role)


def _may_serve(turn: Turn, role: Follower, request: FetchRequest | FetchSnapshotRequest) -> bool:
    """Does the asker want it from us, though we do not lead, and have we heard the leader ourselves?"""
    return request.from_any and role.has_fetched and not turn.voters.has(request.replica)


def _silent_ms(turn: Turn, role: Follower) -> int:
    assert role.heard_ms is not None, role
    return turn.now_ms - role.heard_ms


def _misfit(turn: Turn, role: Follower, request: FetchRequest) -> FetchResponse | None:
    """Where the logs part, or the snapshot to fetch; None as far as we know of nothing like that."""
    log = turn.log
    # What others have beyond our high watermark may be as good as what we have there: only the leader knows.
    is_ahead = request.fetch_offset > log.high_watermark
    if is_ahead and log.end_offset_for(request.last_fetched_epoch).offset >= log.high_watermark:
        return None
    return reading.misfit(log, request, _answer(turn, role))


def _has_news(turn: Turn, request: FetchRequest) -> bool:
    return turn.log.high_watermark > min(request.fetch_offset, request.high_watermark)


def _answer(turn: Turn, role: Follower) -> FetchResponse:
    """An answer without records."""
    return FetchResponse(
        epoch=role.epoch,
        leader_id=role.leader_id,
        high_watermark=turn.log.high_watermark,
        log_start_offset=turn.log.start,
        silent_ms=_silent_ms(turn, role),
    )


def _records(turn: Turn, role: Follower, request: FetchRequest) -> FetchResponse:
    end = turn.log.high_watermark
    return reading.records(request, _answer(turn, role), end=end, below=end)
