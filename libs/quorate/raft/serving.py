"""The leader answers fetches, at once or when there is news (KIP-595, KIP-630, KIP-1166)."""

from __future__ import annotations

from dataclasses import replace

from quorate.errors import ErrorCode
from quorate.nouns import NodeId, ReplicaKey
from quorate.raft import progress
from quorate.raft.messages import (
    HIGH_WATERMARK_UNKNOWN,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Read,
    SnapshotRead,
)
from quorate.raft.roles import Leader, Parked, Role
from quorate.raft.turn import Turn


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
    if request.max_wait_ms == 0 or _has_news(turn, role, request) or key not in role.replicas:
        turn.answer(request, _records(turn, role, request))
    else:
        _park(turn, role, key, request)


def _misfit(turn: Turn, role: Leader, request: FetchRequest) -> FetchResponse | None:
    """The answer to a replica whose log does not continue in ours; None if it does. KIP-595, KIP-630."""
    log = turn.log
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    earliest = log.earliest_snapshot
    if earliest is not None and (
        offset == 0  # an empty log is filled faster by a snapshot than by the records before it
        or offset < log.start
        or (offset == log.start and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        return replace(_answer(turn, role), snapshot_id=log.latest_snapshot)
    if offset == 0:
        return None
    end = log.end_offset_for(epoch)
    if end.epoch == epoch and end.offset >= offset:
        return None
    return replace(_answer(turn, role), diverging=end)


def _answer(turn: Turn, role: Leader) -> FetchResponse:
    """An answer without records."""
    high_watermark = HIGH_WATERMARK_UNKNOWN if role.high_watermark is None else role.high_watermark
    return FetchResponse(
        epoch=role.epoch, leader_id=role.leader_id, high_watermark=high_watermark, log_start_offset=turn.log.start
    )


def _records(turn: Turn, role: Leader, request: FetchRequest) -> FetchResponse:
    """The records from the fetch offset on, if there are any: uncommitted and unflushed ones too."""
    response = _answer(turn, role)
    if request.fetch_offset == turn.log.leo:
        return response
    return replace(response, read=Read(offset=request.fetch_offset, max_bytes=request.max_bytes))


def _has_news(turn: Turn, role: Leader, request: FetchRequest) -> bool:
    """Are there records that the replica lacks, or is more committed than it knows?"""
    if request.fetch_offset < turn.log.leo:
        return True
    return role.high_watermark is not None and role.high_watermark > request.high_watermark


def _park(turn: Turn, role: Leader, key: ReplicaKey, request: FetchRequest) -> None:
    """Holds the fetch until there is news, or for as long as it allows; one a replica."""
    before = role.parked.pop(key, None)
    if before is not None:  # its asker has given it up, or it would not have asked again
        turn.answer(before.request, _answer(turn, role))
    expires_ms = turn.now_ms + request.max_wait_ms
    role.parked[key] = Parked(request=request, expires_ms=expires_ms)
    role.parked_ms = expires_ms if role.parked_ms is None else min(role.parked_ms, expires_ms)


def answer_parked(turn: Turn, role: Leader) -> None:
    """Answers the held fetches for which something was appended or committed, or whose time is over."""
    told = (turn.log.leo, role.high_watermark)
    has_changed, role.told = told != role.told, told
    if not has_changed and (role.parked_ms is None or not turn.is_due(role.parked_ms)):
        return
    for key, parked in list(role.parked.items()):
        if parked.expires_ms <= turn.now_ms or _has_news(turn, role, parked.request):
            del role.parked[key]
            turn.answer(parked.request, _records(turn, role, parked.request))
    role.parked_ms = min((parked.expires_ms for parked in role.parked.values()), default=None)
    if role.parked_ms is not None:
        turn.is_due(role.parked_ms)


def release_parked(turn: Turn, role: Leader, after: Role) -> None:
    """Tells those who wait that `role` is over, and what we are now."""
    for parked in role.parked.values():
        turn.refuse(after, parked.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    role.parked.clear()


def drop_parked(role: Leader, peer: NodeId) -> None:
    """Forgets the held fetches of a peer that can no longer be answered."""
    for key in [key for key in role.parked if key.id == peer]:
        del role.parked[key]


def serve_snapshot(turn: Turn, role: Leader, request: FetchSnapshotRequest) -> None:
    """Answers with a piece of a snapshot. KIP-630."""
    progress.hear(turn, role, progress.tracked_key(turn, request.replica))
    size = turn.log.snapshots.get(request.snapshot_id)
    # The snapshot (0, 0) holds the voters a node was formatted with, and is each node's own.
    if size is None or request.snapshot_id.offset == 0:
        turn.refuse(role, request, ErrorCode.SNAPSHOT_NOT_FOUND)
        return
    if not 0 <= request.position < size:
        turn.refuse(role, request, ErrorCode.POSITION_OUT_OF_RANGE)
        return
    read = SnapshotRead(snapshot_id=request.snapshot_id, position=request.position, max_bytes=request.max_bytes)
    response = FetchSnapshotResponse(
        epoch=role.epoch,
        leader_id=role.leader_id,
        snapshot_id=request.snapshot_id,
        size=size,
        position=request.position,
        read=read,
    )
    turn.answer(request, response)
