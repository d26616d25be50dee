"""Takes in a snapshot that the controller makes of its state: checked before a byte is written, whole or not at all.

KIP-630. A snapshot ends where a batch ends, at or below the high watermark, and not before the log begins; its epoch is
that of the record before it. The time in its header is that of this record too, so every node's is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable

from kraft.service.quorum_pb2 import CreateSnapshotRequest
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import OffsetAndEpoch
from quorate.raft.log import LogView
from quorate.runtime.logs import logger
from quorate.storage.files import NO_SPACE
from services.quorum.checkpoints import StateSnapshot
from services.quorum.driver import Driver

log = logger(__name__)


async def take_snapshot(driver: Driver, requests: AsyncIterable[CreateSnapshotRequest]) -> int:
    """Write the records that come, and put the snapshot in its place; the answer is its size in bytes.

    Raises ApiError: OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or INVALID_REQUEST for a snapshot
    that this log cannot have, or that has not come whole; DUPLICATE_RESOURCE for one that it has; KAFKA_STORAGE_ERROR
    if there is no room. After an error, or if the stream breaks, nothing is left.
    """
    writing: StateSnapshot | None = None
    try:
        async for request in requests:
            if writing is None:
                writing = _begin(driver, request)
            elif not request.values:
                return await _finish(driver, writing)
            writing.write(request.values)
        # gRPC ends the requests of a call that was cancelled as if they were all: only the last piece says that it is.
        raise ApiError(ErrorCode.INVALID_REQUEST, "a snapshot ends with a piece without values; none has come")
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the snapshot cannot be kept: {error.strerror}") from None
    finally:
        if writing is not None and not writing.is_finishing:
            _abandon(driver, writing)


def refusal(known: LogView, snapshot: OffsetAndEpoch) -> ApiError | None:
    """Why a node with this log cannot have `snapshot`; None if it can."""
    offset, epoch = snapshot.offset, snapshot.epoch
    if offset > known.high_watermark:
        why = f"a snapshot at offset {offset} lies beyond the high watermark, {known.high_watermark}"
        return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
    if snapshot in known.snapshots:
        return ApiError(ErrorCode.DUPLICATE_RESOURCE, f"there is a snapshot at offset {offset} of epoch {epoch}")
    if offset <= known.start:
        why = f"a snapshot at offset {offset} does not lie after the start of the log, {known.start}"
        return ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, why)
    expected = known.epochs.epoch_at(offset - 1)
    if epoch != expected:
        is_older = epoch < expected
        code = ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH
        return ApiError(code, f"the record before offset {offset} is of epoch {expected}, not {epoch}")
    return None


def _begin(driver: Driver, request: CreateSnapshotRequest) -> StateSnapshot:
    snapshot = OffsetAndEpoch(epoch=request.epoch, offset=request.end_offset)
    driver.settle()
    if (why := refusal(driver.core.log, snapshot)) is not None:
        raise why
    if snapshot in driver.disk.making:
        raise ApiError(ErrorCode.DUPLICATE_RESOURCE, f"the snapshot at offset {snapshot.offset} is being made already")
    last = driver.disk.log.batch_before(snapshot.offset)
    if last.next_offset != snapshot.offset:
        why_not = f"offset {snapshot.offset} lies within the batch from {last.base_offset} to {last.last_offset}"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a snapshot ends where a batch does; {why_not}")
    if request.HasField("last_timestamp_ms") and request.last_timestamp_ms != last.max_timestamp:
        why_not = f"was appended at {last.max_timestamp}, not at {request.last_timestamp_ms}"
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the record before offset {snapshot.offset} {why_not}")
    writing = driver.disk.begin_snapshot(snapshot, last.max_timestamp)
    driver.disk.making.add(snapshot)
    return writing


async def _finish(driver: Driver, writing: StateSnapshot) -> int:
    """From here on it goes to its end, though the asker may go: the disk is waited for in another thread."""
    writing.is_finishing = True
    return await asyncio.shield(asyncio.ensure_future(_put_in_place(driver, writing)))


async def _put_in_place(driver: Driver, writing: StateSnapshot) -> int:
    try:
        reader = await asyncio.to_thread(writing.finish)
    except BaseException:
        writing.abandon()
        raise
    finally:
        driver.disk.making.discard(writing.id)
    why = refusal(driver.core.log, writing.id)
    if why is not None:  # the leader's snapshot came in the meantime, and the log goes on from there
        driver.disk.drop_snapshot(reader)
        raise why
    size = driver.disk.add_snapshot(writing.id, reader)
    driver.core.snapshot_taken(writing.id, size)
    log.info("took a snapshot", end_offset=writing.id.offset, epoch=writing.id.epoch, size=size)
    return size


def _abandon(driver: Driver, writing: StateSnapshot) -> None:
    writing.abandon()
    driver.disk.making.discard(writing.id)
