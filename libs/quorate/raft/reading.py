"""The three answers of a log to a replica that fetches: records, the log divergence, or a snapshot (KIP-595,
KIP-630)."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import Offset
from quorate.raft.log import LogView, Read, SnapshotRead
from quorate.raft.messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from quorate.raft.roles import Follower, Leader
from quorate.raft.step_context import Refused, StepContext


def misfit(log: LogView, request: FetchRequest, answer: FetchResponse) -> FetchResponse | None:
    """Returns `answer` with a snapshot id or the log divergence for a fetch that does not continue this log, else None.

    A snapshot, if there is one and the fetch is at offset 0 (a snapshot fills an empty log faster), below the log
    start, at the log start with another epoch than the snapshot's, or of an epoch before the earliest snapshot's. A
    divergence, if this log's largest epoch not above the replica's last one is another epoch, or ends before the fetch
    offset (KIP-320). The rules are Kafka's.
    """
    offset, epoch = request.fetch_offset, request.last_fetched_epoch
    earliest = log.earliest_snapshot
    if earliest is not None and (
        offset == 0  # an empty log: a snapshot is faster than records
        or offset < log.start
        or (offset == log.start and epoch != earliest.epoch)
        or epoch < earliest.epoch
    ):
        return replace(answer, snapshot_id=log.latest_snapshot)
    if offset == 0:
        return None
    end = log.end_offset_for(epoch)
    assert end.offset <= log.leo, (end, log.leo)
    if end.epoch == epoch and end.offset >= offset:
        return None
    return replace(answer, diverging=end)


def records(request: FetchRequest, answer: FetchResponse, *, end: Offset, below: Offset | None = None) -> FetchResponse:
    """Returns `answer` with `read`, which tells the driver to read from the fetch offset on, if the log goes on there.

    `end` is the end (exclusive) of what may be read. No batch that ends after `below` is read.
    """
    # An answer has records, the log divergence or a snapshot id.
    assert answer.diverging is None, answer
    assert answer.snapshot_id is None, answer
    assert below is None or below <= end, (below, end)
    if request.fetch_offset >= end:
        return answer
    return replace(answer, read=Read(offset=request.fetch_offset, max_bytes=request.max_bytes, below=below))


def answer_snapshot(
    context: StepContext, role: Leader | Follower, request: FetchSnapshotRequest, *, silent_ms: int
) -> None:
    """Answers with a chunk of a snapshot, or SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE. KIP-630."""
    size = context.log.snapshots.get(request.snapshot_id)
    # The bootstrap checkpoint (0, 0) has the voters that a node was formatted with; it is each node's own, as in Kafka.
    if size is None or request.snapshot_id.offset == 0:
        context.refuse(role, request, Refused(ErrorCode.SNAPSHOT_NOT_FOUND))
        return
    if not 0 <= request.position < size:
        context.refuse(role, request, Refused(ErrorCode.POSITION_OUT_OF_RANGE))
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
    context.answer(request, response)
