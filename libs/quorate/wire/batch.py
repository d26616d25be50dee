"""Record batches, version 2: the unit that is written, checked and replicated (KIP-98).

A batch is a 61-byte header and records. The checksum covers everything after it; the leader epoch lies
before it, so that a leader can stamp a batch without computing the sum again. KRaft writes one kind of data
record, with a value and nothing else, and control records with a key and a value.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset
from quorate.wire.primitives import read_varint, varint

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
"""Everything before the first record."""
LENGTH_PREFIX_BYTES: Final = 12
"""Base offset and length: not counted by the length."""
CRC_POSITION: Final = 17
CHECKED_FROM: Final = 21
MAGIC: Final = 2
NONE: Final = -1

CONTROL: Final = 0x20
COMPRESSION: Final = 0x07
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == HEADER_BYTES


class ControlType(IntEnum):
    """What a control record says: the second number of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class BatchHeader(NamedTuple):
    """The header of a batch. `size` is that of the whole batch in bytes; timestamps in ms since 1970."""

    base_offset: Offset
    size: int
    epoch: Epoch
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # a field, not the tuple's method

    @property
    def is_control(self) -> bool:
        """Are its records raft's own?"""
        return bool(self.attributes & CONTROL)

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> str:
        """The codec of the records by name; KRaft itself writes none."""
        code = self.attributes & COMPRESSION
        return CODECS[code] if code < len(CODECS) else f"codec {code}"


class RawRecord(NamedTuple):
    """A record as it lies in its batch. `timestamp` in ms since 1970; headers as (key, value)."""

    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def peek_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, though the batch may go beyond the buffer. Raises Corrupt if it cannot be one."""
    left = len(buffer) - position
    if left < HEADER_BYTES:
        raise Corrupt(f"a batch header takes {HEADER_BYTES} bytes, {left} are left", position=position)
    base, length, epoch, magic, crc, *rest = _HEADER.unpack_from(buffer, position)
    size = length + LENGTH_PREFIX_BYTES
    if size < HEADER_BYTES:
        raise Corrupt(f"batch length {length} is less than a header takes", position=position)
    if magic != MAGIC:
        raise Corrupt(f"batch magic {magic}; only {MAGIC} is spoken", position=position)
    header = BatchHeader(base, size, epoch, crc, *rest)
    if base < 0 or header.count < 1 or header.last_offset_delta < 0:
        why = f"batch at offset {base} with {header.count} records and last offset delta {header.last_offset_delta}"
        raise Corrupt(why, position=position)
    return header


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the whole batch at `position`; its checksum is not looked at. Raises Corrupt."""
    header = peek_header(buffer, position)
    if header.size > len(buffer) - position:
        raise Corrupt(f"batch of {header.size} bytes, {len(buffer) - position} are left", position=position)
    return header


def check_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`, whose bytes are what was written. Raises Corrupt."""
    header = read_header(buffer, position)
    found = crc32c(memoryview(buffer)[position + CHECKED_FROM : position + header.size])
    if found != header.crc:
        why = f"batch at offset {header.base_offset} has checksum {header.crc:#010x}, its bytes have {found:#010x}"
        raise Corrupt(why, position=position)
    return header


def batches(buffer: Buffer, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch's position and header, from `start` to the end of the buffer. Raises Corrupt."""
    position = start
    while position < len(buffer):
        header = read_header(buffer, position)
        yield position, header
        position += header.size


def records(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[RawRecord]:
    """The records of the batch at `position`. Raises Corrupt."""
    data = bytes(memoryview(buffer)[position + HEADER_BYTES : position + header.size])
    codec = header.compression
    if codec == "gzip":
        data = zlib.decompress(data, wbits=31)
    elif codec != "none":
        raise Corrupt(f"batch at offset {header.base_offset} is compressed with {codec}", position=position)
    at = 0
    for _ in range(header.count):
        try:
            record, at = _record(data, at, header)
        except (Corrupt, IndexError, UnicodeDecodeError) as problem:
            why = f"record in the batch at offset {header.base_offset}: {problem}"
            raise Corrupt(why, position=position + HEADER_BYTES + at) from None
        yield record
    if at != len(data):
        why = f"{len(data) - at} bytes after the last record of the batch at offset {header.base_offset}"
        raise Corrupt(why, position=position + HEADER_BYTES + at)


def _record(data: bytes, at: int, header: BatchHeader) -> tuple[RawRecord, int]:
    length, at = read_varint(data, at)
    end = at + length
    if length < 1 or end > len(data):
        raise Corrupt(f"its length is {length}, {len(data) - at} bytes are left")
    at += 1  # attributes: unused
    timestamp, at = read_varint(data, at)
    offset, at = read_varint(data, at)
    key, at = _bytes(data, at, end)
    value, at = _bytes(data, at, end)
    count, at = read_varint(data, at)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes(data, at, end)
        content, at = _bytes(data, at, end)
        headers.append(((name or b"").decode(), content))
    if at != end:
        raise Corrupt(f"its length is off by {end - at}")
    return RawRecord(header.base_offset + offset, header.base_timestamp + timestamp, key, value, tuple(headers)), end


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if at + size > end:
        raise Corrupt(f"a field of {size} bytes, {end - at} are left")
    return data[at : at + size], at + size


def data_values(buffer: Buffer, position: int = 0, header: BatchHeader | None = None) -> list[bytes]:
    """The values of a data batch as KRaft writes it: one value a record and nothing else. Raises Corrupt.

    This is the way into replay, so no object is made but the values.
    """
    header = header or read_header(buffer, position)
    if header.attributes & COMPRESSION:
        return _values_one_by_one(buffer, position, header)
    data = bytes(memoryview(buffer)[position + HEADER_BYTES : position + header.size])
    values: list[bytes] = []
    at = 0
    try:
        for index in range(header.count):
            # length, attributes 0, timestamp delta 0, offset delta, no key (-1), size, value, no headers (0);
            # all numbers are zigzag varints, nearly always of one byte or two
            length = data[at]
            at += 1
            if length > 127:
                length = length & 127 | data[at] << 7
                at += 1
            end = at + (length >> 1)
            at += 2
            delta = data[at]
            at += 1
            if delta > 127:
                delta = delta & 127 | data[at] << 7
                at += 1
            no_key, size = data[at], data[at + 1]
            at += 2
            if size > 127:
                size = size & 127 | data[at] << 7
                at += 1
            last = at + (size >> 1)
            if last + 1 != end or no_key != 1 or delta != index * 2 or data[last]:
                return _values_one_by_one(buffer, position, header)
            values.append(data[at:last])
            at = end
    except IndexError:
        return _values_one_by_one(buffer, position, header)
    if at != len(data):
        return _values_one_by_one(buffer, position, header)
    return values


def _values_one_by_one(buffer: Buffer, position: int, header: BatchHeader) -> list[bytes]:
    """The same for batches that are out of the ordinary, or damaged; then it says what is wrong."""
    values = []
    for index, record in enumerate(records(buffer, position, header)):
        if record.key is not None or not record.value or record.headers:
            why = f"record {record.offset} is not one of KRaft's: it has a key, a header, or no value"
            raise Corrupt(why, position=position)
        if record.offset != header.base_offset + index or record.timestamp != header.base_timestamp:
            why = f"record {record.offset} at place {index} of the batch at offset {header.base_offset}"
            raise Corrupt(why, position=position)
        values.append(record.value)
    return values


def data_batch(*, base_offset: Offset, epoch: Epoch, timestamp_ms: int, values: Sequence[bytes]) -> bytes:
    """One batch of data records as KRaft writes them: no key, no header, all of one time. At least one value."""
    return _batch(base_offset, epoch, timestamp_ms, 0, [(None, value) for value in values])


def control_batch(
    *, base_offset: Offset, epoch: Epoch, timestamp_ms: int, records: Sequence[tuple[ControlType, bytes]]
) -> bytes:
    """One batch of control records: their types and the bytes of their values."""
    keyed = [(struct.pack(">hh", 0, kind), value) for kind, value in records]
    return _batch(base_offset, epoch, timestamp_ms, CONTROL, keyed)


def _batch(
    base_offset: Offset,
    epoch: Epoch,
    timestamp_ms: int,
    attributes: int,
    content: Sequence[tuple[bytes | None, bytes]],
) -> bytes:
    assert content, "a batch has at least one record"
    parts: list[bytes] = []
    for index, (key, value) in enumerate(content):
        named = b"\x01" if key is None else varint(len(key)) + key
        body = b"".join((b"\0\0", varint(index), named, varint(len(value)), value, b"\0"))
        parts += (varint(len(body)), body)
    body = b"".join(parts)
    length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(body)
    header = bytearray(
        _HEADER.pack(
            base_offset,
            length,
            epoch,
            MAGIC,
            0,
            attributes,
            len(content) - 1,
            timestamp_ms,
            timestamp_ms,
            NONE,
            NONE,
            NONE,
            len(content),
        )
    )
    struct.pack_into(">I", header, CRC_POSITION, crc32c(body, crc32c(memoryview(header)[CHECKED_FROM:])))
    return bytes(header) + body
