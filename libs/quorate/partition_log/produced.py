"""A leader's checks of the records that a producer sends, and the header fields that it writes.

A request has one batch for a partition (KIP-98): its header is checked, and its records are read (`produced_records`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

from crc32c import crc32c

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import Epoch, Offset
from quorate.partition_log.produced_records import Deltas, read_in_steps
from quorate.wire.batch import (
    CHECKED_FROM,
    CLEANED,
    CRC_POSITION,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    NONE,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
    read_header,
)
from quorate.wire.items import Items, Steps

LOG_APPEND_TIME: Final = 0x08
MAX_TIMESTAMP_POSITION: Final = 35
ATTRIBUTES_POSITION: Final = 21
MAGIC_POSITION: Final = 16
LENGTH_POSITION: Final = 8
_OFFSET: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_EPOCH: Final = struct.Struct(">i")
EPOCH_POSITION: Final = 12


class TimestampType(Enum):
    """Kafka's `message.timestamp.type`."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A topic's rules for what is appended; the names and defaults are Kafka's, times in ms, sizes in bytes."""

    max_message_bytes: int = 1_048_588
    segment_bytes: int = 1 << 30
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = 3_600_000


def check_produced_in_steps(
    records: bytes | bytearray | memoryview, limits: Limits, *, now_ms: int, done: Items
) -> Steps[BatchHeader]:
    """Checks the one batch that a producer has sent, in steps, and returns its header. `now_ms` is since 1970.

    Raises ApiError with Kafka's codes: CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
    INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE. The records are the items that are counted in `done`.
    """
    header = header_of(records)
    if header.base_offset:
        why = f"the base offset of the batch is {header.base_offset}; a producer sends 0"
        raise ApiError(ErrorCode.INVALID_RECORD, why)
    _check_sizes(header, len(records), limits)
    try:
        check_batch(records, count_min=CLEANED)
    except Corrupt as damage:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from None
    if header.is_control:
        raise ApiError(ErrorCode.INVALID_RECORD, "the batch is a control batch, which a client must not send")
    if header.count != header.last_offset_delta + 1:
        why = f"a batch of {header.count} records whose last offset delta is {header.last_offset_delta}"
        raise ApiError(ErrorCode.INVALID_RECORD, why)
    if header.producer_id != NONE and header.base_sequence < 0:
        why = f"producer {header.producer_id} sends sequence {header.base_sequence}; it must be 0 or more"
        raise ApiError(ErrorCode.INVALID_RECORD, why)
    deltas = yield from read_in_steps(records, header, max_message_bytes=limits.max_message_bytes, done=done)
    if limits.timestamp_type is TimestampType.CREATE_TIME:
        _check_time(header, deltas, limits, now_ms)
    return header


def check_produced(records: bytes | bytearray | memoryview, limits: Limits, *, now_ms: int) -> BatchHeader:
    """Does all steps of `check_produced_in_steps` at once."""
    steps = check_produced_in_steps(records, limits, now_ms=now_ms, done=Items())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            header: BatchHeader = end.value
            return header


def header_of(records: bytes | bytearray | memoryview) -> BatchHeader:
    """Decodes the header of a producer's record batch; no checksum is computed.

    Raises ApiError, as Kafka's ProduceRequest.validateRecords: INVALID_RECORD, which no producer sends again, for no
    whole batch and for magic 0 or 1; CORRUPT_MESSAGE for what is no batch.
    """
    _check_is_whole(records)
    try:
        return read_header(records, count_min=CLEANED)
    except Corrupt as damage:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from None


def _check_is_whole(records: bytes | bytearray | memoryview) -> None:
    if len(records) > MAGIC_POSITION:
        magic, size = records[MAGIC_POSITION], LENGTH_PREFIX_BYTES + _LENGTH.unpack_from(records, LENGTH_POSITION)[0]
        if magic < MAGIC:
            raise ApiError(ErrorCode.INVALID_RECORD, f"a batch of magic {magic}; a producer may send {MAGIC} alone")
        if magic > MAGIC or size < HEADER_BYTES or size <= len(records):
            return
    raise ApiError(ErrorCode.INVALID_RECORD, f"no whole batch in records of {len(records)} bytes; there must be one")


def is_transactional(records: bytes | bytearray | memoryview) -> bool:
    """Returns whether a batch says that it is part of a transaction (KIP-98); False if it is shorter than a header."""
    return len(records) >= HEADER_BYTES and bool(records[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL)


def stamped(
    records: bytes | bytearray | memoryview, *, base_offset: Offset, epoch: Epoch, limits: Limits, now_ms: int
) -> bytearray:
    """Returns a copy of the batch with the offset and the leader epoch that it gets in the log (R44).

    The checksum does not cover these. With LogAppendTime the largest timestamp becomes `now_ms` (since 1970), and the
    checksum is made anew.
    """
    batch = bytearray(records)
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, EPOCH_POSITION, epoch)
    if limits.timestamp_type is TimestampType.LOG_APPEND_TIME:
        batch[ATTRIBUTES_POSITION + 1] |= LOG_APPEND_TIME
        struct.pack_into(">q", batch, MAX_TIMESTAMP_POSITION, now_ms)
        struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_FROM:]))
    return batch


def _check_sizes(header: BatchHeader, size: int, limits: Limits) -> None:
    if header.size != size:
        why = f"a batch of {header.size} bytes in records of {size} bytes; a partition must have one batch"
        raise ApiError(ErrorCode.INVALID_RECORD, why)
    if size > limits.max_message_bytes:
        why = f"a batch of {size} bytes; max.message.bytes is {limits.max_message_bytes}"
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, why)
    if size > limits.segment_bytes:
        why = f"a batch of {size} bytes; segment.bytes is {limits.segment_bytes}"
        raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, why)


def _check_time(header: BatchHeader, deltas: Deltas, limits: Limits, now_ms: int) -> None:
    earliest, latest = now_ms - limits.timestamp_before_max_ms, now_ms + limits.timestamp_after_max_ms
    base = header.base_timestamp
    for timestamp in (base, header.max_timestamp, base + deltas.lowest, base + deltas.highest):
        if timestamp != NONE and not earliest <= timestamp <= latest:
            why = f"a record has the timestamp {timestamp}; the topic allows {max(earliest, 0)} to {latest} now"
            raise ApiError(ErrorCode.INVALID_TIMESTAMP, why)
