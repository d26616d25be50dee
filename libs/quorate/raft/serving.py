"""The leader answers fetches, at once or when there is news (KIP-595, KIP-630, KIP-1166)."""

from __future__ import annotations

from quorate.nouns import ReplicaKey
from quorate.raft import holding, progress, reading
from quorate.raft.messages import HIGH_WATERMARK_UNKNOWN, FetchRequest, FetchResponse, FetchSnapshotRequest
from quorate.raft.roles import Leader
from quorate.raft.turn import Turn

OBSERVER_WAIT_MAX_MS = 100
"""No observer waits longer for what is new, however many there are."""


def serve_fetch(turn: Turn, role: Leader, request: FetchRequest) -> None:
    """Answers with records, or with where the logs part, or with the snapshot to fetch; parks what has no news.

    A fetch that fits our log is also the replica's word that everything below its offset is on its disk.
    """
    key = progress.tracked_key(turn, request.replica)
    progress.hear(turn, role, key)
    misfit = _misfit(turn, role, request)
    if misfit is not None:
        turn.answer(request, misfit)
        return
    progress.take_fetch_offset(turn, role, key, request.fetch_offset)
    # The fetch itself may have moved the high watermark, which is news to whoever sent it.
    progress.advance(turn, role)
    wait_ms = _wait_ms(turn, role, key, request)
    if wait_ms == 0 or not _may_be_held(turn, role, key):
        turn.answer(request, _records(turn, role, request))
    else:
        holding.park(turn, role, key, request, wait_ms=wait_ms, answer=_answer(turn, role))


def _may_be_held(turn: Turn, role: Leader, key: ReplicaKey) -> bool:
    """Is it listed; or nobody, told apart from others like it by its directory id, and is there room?"""
    if key.id >= 0:
        return key in role.replicas
    return key not in role.parked and len(role.parked) < turn.settings.observers_max


def _misfit(turn: Turn, role: Leader, request: FetchRequest) -> FetchResponse | None:
    return reading.misfit(turn.log, request, _answer(turn, role))


def _answer(turn: Turn, role: Leader) -> FetchResponse:
    """An answer without records."""
    high_watermark = HIGH_WATERMARK_UNKNOWN if role.high_watermark is None else role.high_watermark
    return FetchResponse(
        epoch=role.epoch, leader_id=role.leader_id, high_watermark=high_watermark, log_start_offset=turn.log.start
    )


def _records(turn: Turn, role: Leader, request: FetchRequest) -> FetchResponse:
    """The records from the fetch offset on, if there are any: uncommitted and unflushed ones too."""
    return reading.records(request, _answer(turn, role), end=turn.log.leo)


def _wait_ms(turn: Turn, role: Leader, key: ReplicaKey, request: FetchRequest) -> int:
    """How long the fetch may be held from now on: the less, the more news there is for the one who sent it."""
    has_records = request.fetch_offset < turn.log.leo
    has_commit = role.high_watermark is not None and role.high_watermark > request.high_watermark
    if not has_records and not has_commit:
        return request.max_wait_ms
    if not turn.voters.has(key):
        return min(request.max_wait_ms, _observer_wait_ms(turn, role))
    return 0 if has_records else min(request.max_wait_ms, turn.settings.commit_wait_ms)


def _observer_wait_ms(turn: Turn, role: Leader) -> int:
    """The more observers there are, the longer each waits for what is new."""
    observers = len(role.replicas) - len(turn.other_voters)
    return min(OBSERVER_WAIT_MAX_MS, turn.settings.observer_wait_ms * max(1, observers))


def answer_parked(turn: Turn, role: Leader) -> None:
    """Answers the held fetches for which something was appended or committed, or whose time is over."""
    told = (turn.log.leo, role.high_watermark)
    has_changed, role.told = told != role.told, told
    if not has_changed and not holding.is_due(turn, role):
        return
    soon_ms = turn.now_ms + _observer_wait_ms(turn, role)
    for key, parked in list(role.parked.items()):
        if parked.expires_ms > soon_ms or turn.voters.has(key):  # what an observer waits for is not looked at twice
            parked.expires_ms = min(parked.expires_ms, turn.now_ms + _wait_ms(turn, role, key, parked.request))
        if parked.expires_ms <= turn.now_ms:
            del role.parked[key]
            # While it was held, the log may have come to begin after its offset.
            turn.answer(parked.request, _misfit(turn, role, parked.request) or _records(turn, role, parked.request))
    holding.wait_on(turn, role)


def serve_snapshot(turn: Turn, role: Leader, request: FetchSnapshotRequest) -> None:
    """Answers with a piece of a snapshot. KIP-630."""
    progress.hear(turn, role, progress.tracked_key(turn, request.replica))
    reading.answer_snapshot(turn, role, request, silent_ms=0)
