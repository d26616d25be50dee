"""Snapshot upload (KIP-630): checks and stores a snapshot that the controller sends, as a whole or not at all.

A snapshot must end at the end of a batch, at or below the high watermark and after the log start; its epoch and its
header's timestamp are those of the record before its end, so they are the same on every node.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Final

from kraft.service.quorum_pb2 import CreateSnapshotRequest
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import OffsetAndEpoch
from quorate.raft.log import LogView
from quorate.runtime.logging.logs import logger
from quorate.storage.files import NO_SPACE
from quorate.storage.snapshots import BATCH_BYTES_MAX, SnapshotReader
from services.quorum.appends import check_values
from services.quorum.checkpoints import StateSnapshot
from services.quorum.driver import QuorumDriver

log = logger(__name__)

VALUE_BYTES_MAX: Final = BATCH_BYTES_MAX - 1024
"""Largest record of a snapshot: a batch, less 1 KiB for the headers of the batch and the record."""


async def take_snapshot(driver: QuorumDriver, requests: AsyncIterable[CreateSnapshotRequest]) -> int:
    """Receives a snapshot, writes it and puts it in place; returns its size in bytes.

    Raises ApiError: OFFSET_OUT_OF_RANGE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or INVALID_REQUEST for a snapshot
    that does not fit this log or is incomplete; INVALID_RECORD or RECORD_LIST_TOO_LARGE for its values;
    DUPLICATE_RESOURCE for one that exists; KAFKA_STORAGE_ERROR if the disk is full. After an error, or if the stream
    breaks, no file is left.
    """
    writing: StateSnapshot | None = None
    count = 0
    try:
        async for request in requests:
            if writing is None:
                writing = _begin(driver, request)
            elif not request.values:
                return await _finish(driver, writing, count)
            _check(request)
            writing.write(request.values)
            count += len(request.values)
        # gRPC ends the request stream of a cancelled call like a complete one, so the last message must be empty.
        raise ApiError(ErrorCode.INVALID_REQUEST, "a snapshot ends with a piece without values; none has come")
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the snapshot cannot be kept: {error.strerror}") from None
    finally:
        if writing is not None and not writing.is_finishing:
            _abandon(driver, writing)


def refusal(known: LogView, snapshot: OffsetAndEpoch) -> ApiError | None:
    """Returns the error of a snapshot that this log cannot take; None if it can.

    It cannot if the snapshot ends beyond the high watermark or not after the log start, exists already, or has another
    epoch than the record before its end.
    """
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


def _check(request: CreateSnapshotRequest) -> None:
    """Raises ApiError for a value that is not a record, or too large for a batch."""
    check_values("values", request.values)
    largest = max(map(len, request.values), default=0)
    if largest > VALUE_BYTES_MAX:
        why = f"a record of {largest} bytes; a batch holds {BATCH_BYTES_MAX}, and its header"
        raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, why)


def _begin(driver: QuorumDriver, request: CreateSnapshotRequest) -> StateSnapshot:
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


async def _finish(driver: QuorumDriver, writing: StateSnapshot, count: int) -> int:
    """Finishes the snapshot, even if the caller has gone; the disk is waited for in a thread. Raises ApiError."""
    if count == 0:
        why = f"a snapshot at offset {writing.id.offset} without records; no state is empty, it has a metadata.version"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    writing.is_finishing = True
    return await asyncio.shield(asyncio.ensure_future(_put_in_place(driver, writing)))


async def _put_in_place(driver: QuorumDriver, writing: StateSnapshot) -> int:
    try:
        reader = await asyncio.to_thread(_finished, writing)
    finally:
        driver.disk.making.discard(writing.id)
    why = refusal(driver.core.log, writing.id)
    if why is not None:  # a snapshot of the leader was installed meanwhile
        reader.remove()
        raise why
    size = driver.disk.add_snapshot(writing.id, reader)
    driver.core.snapshot_taken(writing.id, size)
    log.info("took a snapshot", end_offset=writing.id.offset, epoch=writing.id.epoch, size=size)
    return size


def _finished(writing: StateSnapshot) -> SnapshotReader:
    """Finishes the snapshot; after an error no file is left. Blocks."""
    try:
        return writing.finish()
    except BaseException:
        writing.abandon()
        raise


def _abandon(driver: QuorumDriver, writing: StateSnapshot) -> None:
    writing.abandon()
    driver.disk.making.discard(writing.id)
