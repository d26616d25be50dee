"""Record batches, version 2: encodes, decodes and checks the unit that is written and replicated (KIP-98).

A batch is a header of 61 bytes and records. The CRC-32C covers everything after it; the leader epoch is before it, so
that a leader can set the epoch without a new checksum. KRaft writes data records with a value only, and control records
with a key and a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from mmap import mmap
from typing import Final, NamedTuple

from crc32c import crc32c

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset
from quorate.wire.common_records import common_records, common_values
from quorate.wire.inflation import inflated
from quorate.wire.primitives import read_varint, varint

Buffer = bytes | bytearray | memoryview | mmap

HEADER_BYTES: Final = 61
"""The size of a batch header in bytes; the first record follows it."""
LENGTH_PREFIX_BYTES: Final = 12
"""The size in bytes of base offset and length, the first two header fields, which the length does not count."""
CRC_POSITION: Final = 17
CHECKED_FROM: Final = 21
MAGIC: Final = 2
NONE: Final = -1
CLEANED: Final = 0
"""The least count of a partition's batch. Of a producer's last batch, and of a transaction's marker, whose records are
all superseded, Kafka's log cleaner keeps the header alone, so that sequence and epoch are known (KIP-98)."""

TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
COMPRESSION: Final = 0x07
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
INFLATED_BYTES_MAX: Final = 64 << 20
"""A batch that decompresses to more bytes than this is refused; KRaft's largest batch is 8 MiB."""
RECORD_OVERHEAD_BYTES_MAX: Final = 19
"""The largest overhead of a data record beside its value: three varints of five bytes and four of one byte."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
assert _HEADER.size == HEADER_BYTES


class ControlType(IntEnum):
    """The type of a control record: the second number of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class BatchHeader(NamedTuple):
    """The header of a batch. `size` is that of the whole batch in bytes; timestamps are in ms since 1970."""

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
        """Whether the batch holds control records, which Raft itself writes."""
        return bool(self.attributes & CONTROL)

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record (inclusive)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        """The offset after the last record (exclusive end)."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> str:
        """The name of the compression codec; KRaft itself writes uncompressed batches."""
        code = self.attributes & COMPRESSION
        return CODECS[code] if code < len(CODECS) else f"codec {code}"


class RawRecord(NamedTuple):
    """One record of a batch. `timestamp` is in ms since 1970; headers are (key, value) pairs."""

    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def peek_header(buffer: Buffer, position: int = 0, *, count_min: int = 1) -> BatchHeader:
    """Returns the header at `position`; the batch may extend beyond the buffer. Raises Corrupt if it is not valid.

    With fewer than `count_min` records it is not: the metadata log has none without any, a partition may (`CLEANED`).
    """
    assert position >= 0, position
    left = len(buffer) - position
    if left < HEADER_BYTES:
        raise Corrupt(f"a batch header takes {HEADER_BYTES} bytes, {left} are left", position=position)
    base, length, epoch, magic, crc, attributes, delta, *rest = _HEADER.unpack_from(buffer, position)
    size = length + LENGTH_PREFIX_BYTES
    if size < HEADER_BYTES:
        raise Corrupt(f"batch length {length} is less than a header takes", position=position)
    if magic != MAGIC:
        raise Corrupt(f"batch magic {magic}; only {MAGIC} is spoken", position=position)
    count = rest[-1]
    if base < 0 or count < count_min or delta < 0:
        why = f"batch at offset {base} with {count} records and last offset delta {delta}"
        raise Corrupt(why, position=position)
    return BatchHeader._make((base, size, epoch, crc, attributes, delta, *rest))


def read_header(buffer: Buffer, position: int = 0, *, count_min: int = 1) -> BatchHeader:
    """Returns the header at `position` of a batch that is complete, without a check of the checksum. Raises Corrupt."""
    header = peek_header(buffer, position, count_min=count_min)
    if header.size > len(buffer) - position:
        raise Corrupt(f"batch of {header.size} bytes, {len(buffer) - position} are left", position=position)
    return header


def check_batch(buffer: Buffer, position: int = 0, *, count_min: int = 1) -> BatchHeader:
    """Returns the header of the batch at `position` after checking its CRC-32C. Raises Corrupt."""
    header = read_header(buffer, position, count_min=count_min)
    found = crc32c(memoryview(buffer)[position + CHECKED_FROM : position + header.size])
    if found != header.crc:
        why = f"batch at offset {header.base_offset} has checksum {header.crc:#010x}, its bytes have {found:#010x}"
        raise Corrupt(why, position=position)
    return header


def batches(buffer: Buffer, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of each batch from `start` to the buffer's end; checks no checksum. Raises Corrupt."""
    position = start
    while position < len(buffer):
        header = read_header(buffer, position)
        yield position, header
        position += header.size


def fetched_batches(buffer: Buffer, *, count_min: int = 1) -> Iterator[tuple[int, BatchHeader]]:
    """Yields the position and header of each whole batch in the records of a Fetch answer. Raises Corrupt.

    A Kafka leader fills an answer up to its size limit, and so cuts the last batch anywhere (KIP-74); a cut batch is
    left out, to be fetched again. The first one is always whole, else it is Corrupt. No checksum is checked.
    """
    position = 0
    while left := len(buffer) - position:
        if position and (left < HEADER_BYTES or left < peek_header(buffer, position, count_min=count_min).size):
            return
        header = read_header(buffer, position, count_min=count_min)
        yield position, header
        position += header.size


def records(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[RawRecord]:
    """Yields the records of the batch at `position`, which is whole. Raises Corrupt, also for a codec but gzip.

    The position in the error is that of the record; in a compressed batch, that of the batch.
    """
    data = b"".join(content_of(buffer, position, header))
    begin = position if header.attributes & COMPRESSION else position + HEADER_BYTES
    step = 0 if header.attributes & COMPRESSION else 1
    at = 0
    for _ in range(header.count):
        try:
            record, end = _record(data, at, header)
        except (Corrupt, IndexError, UnicodeDecodeError) as problem:
            what = problem.reason if isinstance(problem, Corrupt) else str(problem)
            why = f"record in the batch at offset {header.base_offset}: {what}"
            raise Corrupt(why, position=begin + at * step) from None
        yield record
        at = end
    if at != len(data):
        why = f"{len(data) - at} bytes after the last record of the batch at offset {header.base_offset}"
        raise Corrupt(why, position=begin + at * step)


def content_of(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[bytes]:
    """Yields the bytes of a batch's records in pieces, decompressed if it is compressed with gzip: some 1 ms each.

    Raises Corrupt for another codec, and for more than `INFLATED_BYTES_MAX`.
    """
    data = bytes(memoryview(buffer)[position + HEADER_BYTES : position + header.size])
    codec = header.compression
    if codec == "none":
        yield data
        return
    if codec != "gzip":
        why = f"batch at offset {header.base_offset} is compressed with {codec}; only none and gzip are read"
        raise Corrupt(why, position=position)
    try:
        yield from inflated(data, INFLATED_BYTES_MAX)
    except Corrupt as damage:
        raise Corrupt(f"batch at offset {header.base_offset} is {damage.reason}", position=position) from None


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
    if not 0 <= count <= length:
        raise Corrupt(f"it has {count} headers in {length} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes(data, at, end)
        content, at = _bytes(data, at, end)
        if name is None:
            raise Corrupt("a header without a key")
        headers.append((name.decode(), content))
    if at != end:
        raise Corrupt(f"its length is off by {end - at}")
    if not 0 <= offset <= header.last_offset_delta:
        raise Corrupt(f"its offset delta is {offset}, the batch's last one {header.last_offset_delta}")
    return RawRecord(header.base_offset + offset, header.base_timestamp + timestamp, key, value, tuple(headers)), end


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = read_varint(data, at)
    if size < 0:
        if size != NONE:
            raise Corrupt(f"a field of {size} bytes; only -1 means none")
        return None, at
    if at + size > end:
        raise Corrupt(f"a field of {size} bytes, {end - at} are left")
    return data[at : at + size], at + size


def data_values(buffer: Buffer, position: int = 0, header: BatchHeader | None = None) -> list[bytes]:
    """Returns the values of a data batch as KRaft writes it: each record has a value only. Raises Corrupt.

    Replay reads all batches through this, so it creates no objects except the values (`common_values`); a batch whose
    records are framed otherwise is read record by record.
    """
    header = header or read_header(buffer, position)
    if header.count != header.last_offset_delta + 1:
        why = f"batch at offset {header.base_offset} of {header.count} records, its last is {header.last_offset_delta}"
        raise Corrupt(why, position=position)
    if not header.attributes & COMPRESSION:
        data = bytes(memoryview(buffer)[position + HEADER_BYTES : position + header.size])
        values = common_values(data, header.count)
        if values is not None:
            return values
    return _values_one_by_one(buffer, position, header)


def _values_one_by_one(buffer: Buffer, position: int, header: BatchHeader) -> list[bytes]:
    """Returns the values of an unusual batch, read record by record. Raises Corrupt for a damaged batch."""
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
    """Returns a batch of data records as KRaft writes them: no keys, no headers, one timestamp (ms since 1970).

    There is at least one value, and none is empty.
    """
    assert all(values), "a data record has a value"
    return _batch(base_offset, epoch, timestamp_ms, 0, len(values), common_records(values))


def control_batch(
    *,
    base_offset: Offset,
    epoch: Epoch,
    timestamp_ms: int,
    records: Sequence[tuple[ControlType, bytes]],
    producer: tuple[int, int] | None = None,
) -> bytes:
    """Returns a batch of control records, given their types and encoded values.

    With the id and the epoch of a `producer` it is part of its transaction (KIP-98).
    """
    parts = []
    for index, (kind, value) in enumerate(records):
        key = struct.pack(">hh", 0, kind)
        record = b"".join((b"\0\0", varint(index), varint(len(key)), key, varint(len(value)), value, b"\0"))
        parts += [varint(len(record)), record]
    attributes = CONTROL if producer is None else CONTROL | TRANSACTIONAL
    return _batch(base_offset, epoch, timestamp_ms, attributes, len(records), b"".join(parts), producer or (NONE, NONE))


def _batch(
    base_offset: Offset,
    epoch: Epoch,
    timestamp_ms: int,
    attributes: int,
    count: int,
    body: bytes,
    producer: tuple[int, int] = (NONE, NONE),
) -> bytes:
    assert count > 0, "a batch has at least one record"
    header = bytearray(
        _HEADER.pack(
            base_offset,
            HEADER_BYTES - LENGTH_PREFIX_BYTES + len(body),
            epoch,
            MAGIC,
            0,
            attributes,
            count - 1,
            timestamp_ms,
            timestamp_ms,
            *producer,
            NONE,
            count,
        )
    )
    struct.pack_into(">I", header, CRC_POSITION, crc32c(body, crc32c(memoryview(header)[CHECKED_FROM:])))
    return bytes(header) + body
