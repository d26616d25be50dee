"""Finds a record by its time in a batch of the log, in steps: a small batch may hold very many records."""

from __future__ import annotations

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.partition_log.produced import LOG_APPEND_TIME
from quorate.wire.batch import BatchHeader, content_of
from quorate.wire.items import ITEMS_PER_STEP, Steps
from quorate.wire.primitives import read_varint

__all__ = ["first_from"]


def first_from(
    batch: bytes, header: BatchHeader, *, timestamp_ms: int, least: Offset
) -> Steps[tuple[Offset, int] | None]:
    """Returns, in steps, offset and timestamp of the first record at `least` or above of `timestamp_ms` or later.

    None if the batch has none. Times are in ms since 1970; with LogAppendTime the batch's time is that of each of its
    records. Raises Corrupt, also for a codec that is not read.
    """
    pieces: list[bytes] = []
    for piece in content_of(batch, 0, header):
        if pieces:
            yield
        pieces.append(piece)
    data, at = b"".join(pieces), 0
    is_stamped = header.attributes & LOG_APPEND_TIME
    for number in range(1, header.count + 1):
        length, begin = read_varint(data, at)
        if length < 1:
            raise Corrupt(f"a record of {length} bytes in the batch at offset {header.base_offset}", position=at)
        delta_ms, offset_at = read_varint(data, begin + 1)
        delta, _ = read_varint(data, offset_at)
        offset = header.base_offset + delta
        timestamp = header.max_timestamp if is_stamped else header.base_timestamp + delta_ms
        if timestamp >= timestamp_ms and offset >= least:
            return offset, timestamp
        at = begin + length
        if not number % ITEMS_PER_STEP:
            yield
    return None
