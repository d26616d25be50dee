"""What a log has for whoever fetches from it: records, where the logs part, or a snapshot (KIP-595, KIP-630)."""

from __future__ import annotations

from dataclasses import replace

from quorate.errors import ErrorCode
from quorate.nouns import Offset
from quorate.raft.log import LogView
from quorate.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Read,
    SnapshotRead,
)
from quorate.raft.roles import Follower, Leader
from quorate.raft.turn import Fault, Turn


def misfit(log: LogView, request: FetchRequest, answer: FetchResponse) -> FetchResponse | None:
    """`answer` for a replica whose log does not continue in ours; None if it does."""
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    earliest = log.earliest_snapshot
    if earliest is not None and (
        offset == 0  # an empty log is filled faster by a snapshot than by the records before it
        or offset < log.start
        or (offset == log.start and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        return replace(answer, snapshot_id=log.latest_snapshot)
    if offset == 0:
        return None
    end = log.end_offset_for(epoch)
    if end.epoch == epoch and end.offset >= offset:
        return None
    return replace(answer, diverging=end)


def records(request: FetchRequest, answer: FetchResponse, *, end: Offset, below: Offset | None = None) -> FetchResponse:
    """`answer` with what there is from the fetch offset to `end`, and nothing that ends after `below`."""
    if request.fetch_offset >= end:
        return answer
    return replace(answer, read=Read(offset=request.fetch_offset, max_bytes=request.max_bytes, below=below))


def answer_snapshot(turn: Turn, role: Leader | Follower, request: FetchSnapshotRequest, *, silent_ms: int) -> None:
    """Answers with a piece of a snapshot."""
    size = turn.log.snapshots.get(request.snapshot_id)
    # The snapshot (0, 0) holds the voters a node was formatted with, and is each node's own.
    if size is None or request.snapshot_id.offset == 0:
        turn.refuse(role, request, Fault(ErrorCode.SNAPSHOT_NOT_FOUND))
        return
    if not 0 <= request.position < size:
        turn.refuse(role, request, Fault(ErrorCode.POSITION_OUT_OF_RANGE))
        return
    read = SnapshotRead(snapshot_id=request.snapshot_id, position=request.position, max_bytes=request.max_bytes)
    response = FetchSnapshotResponse(
        epoch=role.epoch,
        leader_id=role.leader_id,
        snapshot_id=request.snapshot_id,
        size=size,
        position=request.position,
        silent_ms=silent_ms,
        read=read,
    )
    turn.answer(request, response)
