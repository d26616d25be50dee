"""The leader's answers to Fetch and FetchSnapshot: at once, or when there is news (KIP-595, KIP-630, KIP-1166)."""

from __future__ import annotations

from quorate.nouns import ReplicaKey
from quorate.raft import parked_fetches, progress, reading
from quorate.raft.messages import HIGH_WATERMARK_UNKNOWN, FetchRequest, FetchResponse, FetchSnapshotRequest
from quorate.raft.roles import Leader
from quorate.raft.step_context import StepContext

OBSERVER_WAIT_MAX_MS = 100
"""The longest time for which an observer's fetch is held although there is news."""


def serve_fetch(context: StepContext, role: Leader, request: FetchRequest) -> None:
    """Answers a Fetch with records, the log divergence or a snapshot id; holds it if there is no news.

    A fetch that fits this log acknowledges everything below its offset as flushed by the replica, and so may move the
    high watermark. As in Kafka, uncommitted records are sent too.
    """
    key = progress.tracked_key(context, request.replica)
    progress.record_fetch(context, role, key)
    progress.compare_with_acknowledged(context, role, key, request.fetch_offset)
    misfit = _misfit(context, role, request)
    if misfit is not None:
        context.answer(request, misfit)
        return
    progress.take_fetch_offset(context, role, key, request.fetch_offset)
    # This fetch may move the high watermark, which is then news for the replica that sent it.
    progress.advance(context, role)
    wait_ms = _wait_ms(context, role, key, request)
    place = _place(context, role, key)
    if wait_ms == 0 or place is None:
        context.answer(request, _records(context, role, request))
    else:
        parked_fetches.park(context, role, place, request, wait_ms=wait_ms, answer=_answer(context, role))


def _place(context: StepContext, role: Leader, key: ReplicaKey) -> ReplicaKey | None:
    """Returns the key under which the fetch may be parked, as that of a tracked replica may; None if it may not."""
    if key.has_id:
        return key if key in role.replicas else None
    return parked_fetches.place_of_reader(context, role, key)


def _misfit(context: StepContext, role: Leader, request: FetchRequest) -> FetchResponse | None:
    """Returns the answer to a fetch that does not continue this log; None if it does."""
    return reading.misfit(context.log, request, _answer(context, role))


def _answer(context: StepContext, role: Leader) -> FetchResponse:
    """Returns a Fetch answer without records."""
    high_watermark = HIGH_WATERMARK_UNKNOWN if role.high_watermark is None else role.high_watermark
    assert high_watermark <= context.log.leo, (high_watermark, context.log.leo)  # I-20
    return FetchResponse(
        epoch=role.epoch, leader_id=role.leader_id, high_watermark=high_watermark, log_start_offset=context.log.start
    )


def _records(context: StepContext, role: Leader, request: FetchRequest) -> FetchResponse:
    """Returns a Fetch answer with the records from the fetch offset on, committed and flushed or not."""
    return reading.records(request, _answer(context, role), end=context.log.leo)


def _wait_ms(context: StepContext, role: Leader, key: ReplicaKey, request: FetchRequest) -> int:
    """Returns for how many ms the fetch may be held from now on; 0 if it has news that cannot wait.

    A voter's fetch is answered at once when there are records: a commit waits for it. A high watermark alone may wait
    for records (`commit_wait_ms`). An observer's fetch waits for its share of the leader's time (`observer_wait_ms`).
    """
    has_records = request.fetch_offset < context.log.leo
    has_commit = role.high_watermark is not None and role.high_watermark > request.high_watermark
    if not has_records and not has_commit:
        return request.max_wait_ms
    if not context.voters.has(key):
        return min(request.max_wait_ms, _observer_wait_ms(context, role))
    return 0 if has_records else min(request.max_wait_ms, context.settings.commit_wait_ms)


def _observer_wait_ms(context: StepContext, role: Leader) -> int:
    """Returns how long an observer waits for news, in ms: in proportion to the number of observers, up to a limit."""
    observers = len(role.replicas) - len(context.other_voters)
    return min(OBSERVER_WAIT_MAX_MS, context.settings.observer_wait_ms * max(1, observers))


def answer_parked(context: StepContext, role: Leader) -> None:
    """Answers the held fetches (the long poll) whose deadline has come. News moves a deadline to an earlier time first.

    That is now for a voter if there are records; with a new high watermark alone it waits for `commit_wait_ms`. An
    observer waits for `observer_wait_ms` times the number of observers, at most OBSERVER_WAIT_MAX_MS. The fetches are
    looked at only if the log end or the high watermark has moved since the last call, or a deadline has come. The timer
    for the next deadline is set.
    """
    ends = (context.log.leo, role.high_watermark)
    has_changed, role.parked_checked_ends = ends != role.parked_checked_ends, ends
    if has_changed or parked_fetches.is_due(context, role):
        observers_at_ms = context.now_ms + _observer_wait_ms(context, role)
        for key, parked in list(role.parked.items()):
            if parked.deadline_ms > observers_at_ms or context.voters.has(key):  # an observer's wait is set once
                parked.deadline_ms = min(
                    parked.deadline_ms, context.now_ms + _wait_ms(context, role, key, parked.request)
                )
            if parked.deadline_ms <= context.now_ms:
                del role.parked[key]
                # While the fetch was held, the log start may have moved beyond its offset.
                context.answer(
                    parked.request, _misfit(context, role, parked.request) or _records(context, role, parked.request)
                )
        parked_fetches.find_deadline(role)
    parked_fetches.set_timer(context, role)


def serve_snapshot(context: StepContext, role: Leader, request: FetchSnapshotRequest) -> None:
    """Answers a FetchSnapshot with one chunk. It counts for check quorum like a fetch. KIP-630."""
    progress.record_fetch(context, role, progress.tracked_key(context, request.replica))
    reading.answer_snapshot(context, role, request, silent_ms=0)
