"""Reads the records of a batch that a producer sends, as Kafka's LogValidator does: a batch with anything else is not
appended.

It reads numbers only, no key and no value. Records that are compressed by a codec without a library here (snappy, lz4,
zstd) are not read: their count is bounded by what the format can make of the batch's bytes.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.wire.batch import CODECS, COMPRESSION, HEADER_BYTES, BatchHeader, Buffer
from quorate.wire.inflation import inflated
from quorate.wire.items import ITEMS_PER_STEP, Items, Steps
from quorate.wire.primitives import varint

__all__ = ["INFLATION_MAX", "Deltas", "read_in_steps"]

INFLATION_MAX: Final = 64
"""A batch may decompress to so many times max.message.bytes."""
RECORD_BYTES_MIN: Final = 7
"""A record has six numbers and its attributes, of one byte each at least."""
_RATIOS: Final = {"snappy": 22, "lz4": 256, "zstd": 32_768}
"""The bytes that one byte can become: a copy of 64 bytes takes 3, a length grows by 255 a byte, a block of 128 KiB
takes 4."""
_NULL: Final = 1
"""The length -1 as a varint."""
KEY_AND_VALUE: Final = range(2)
"""The parts that a record has once each."""


class Deltas(NamedTuple):
    """The smallest and the largest timestamp of the records read, in ms, counted from the batch's base timestamp."""

    lowest: int = 0
    highest: int = 0


def read_in_steps(batch: Buffer, header: BatchHeader, *, max_message_bytes: int, done: Items) -> Steps[Deltas]:
    """Checks a batch's records in steps, and returns the range of their timestamps. Raises ApiError.

    Of a batch of snappy, lz4 or zstd only the number of records is checked against its size: the result is Deltas().
    Others are read, and counted in `done`; gzip may give `INFLATION_MAX` times `max_message_bytes`.
    UNSUPPORTED_COMPRESSION_TYPE for a codec that Kafka does not have, else INVALID_RECORD.
    """
    code = header.attributes & COMPRESSION
    if code >= len(CODECS):
        why = f"the batch is compressed with {header.compression}; there are 0 to {len(CODECS) - 1}"
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, why)
    body_bytes, inflated_max = header.size - HEADER_BYTES, max_message_bytes * INFLATION_MAX
    content_max = min(body_bytes * _RATIOS[header.compression], inflated_max) if header.compression in _RATIOS else 0
    try:
        if header.compression in _RATIOS:
            if header.count > content_max // RECORD_BYTES_MIN:
                raise Corrupt(f"{body_bytes} bytes of {header.compression} hold no {header.count} records")
            return Deltas()
        walk = _Walk(header.count, done)
        if header.compression == "gzip":
            yield from _inflated(bytes(memoryview(batch)[HEADER_BYTES:]), walk, inflated_max)
            return walk.deltas
        left = yield from walk.on(batch if isinstance(batch, bytes) else bytes(batch), HEADER_BYTES)
        walk.check_end(len(batch) - left)
        return walk.deltas
    except Corrupt as damage:
        raise ApiError(ErrorCode.INVALID_RECORD, f"the batch's records: {damage.reason}") from None


def _inflated(body: bytes, walk: _Walk, inflated_max: int) -> Steps[None]:
    """Decompresses a batch piece by piece and reads each; no more is kept than the record that has begun."""
    pieces, kept = [b""], 0
    for number, piece in enumerate(inflated(body, inflated_max)):
        if number:
            yield
        pieces.append(piece)
        kept += len(piece)
        if kept >= walk.needed:
            data = b"".join(pieces)
            left = yield from walk.on(data, 0)
            pieces, kept = [data[left:]], len(data) - left
    walk.check_end(kept)


class _Walk:
    """A walk over the records of a batch, whose bytes may come in pieces.

    `needed` is how many bytes the record takes that has begun, as far as that is known.
    """

    __slots__ = ("_count", "_done", "_next", "deltas", "needed")

    def __init__(self, count: int, done: Items) -> None:
        self._count = count
        self._next = 0
        self._done = done
        self.deltas = Deltas()
        self.needed = 0

    def check_end(self, left: int) -> None:
        """Checks that all records were read, and that `left`, the bytes after them, are none. Raises Corrupt."""
        if self._next < self._count:
            raise Corrupt(f"the batch says that it has {self._count}, and ends in record {self._next}")
        if left:
            raise Corrupt(f"{left} bytes are left after the {self._count} that the batch says that it has")

    def on(self, data: bytes, at: int) -> Steps[int]:
        """Reads the whole records from `at` on, in steps; returns where that ends. Raises Corrupt."""
        while self._next < self._count:
            first = self._next
            to = min(self._count, first + ITEMS_PER_STEP - self._done.done % ITEMS_PER_STEP)
            try:
                at = yield from self._some(data, at, to)
            except IndexError:
                raise Corrupt(f"the fields of record {self._next} are longer than it is") from None
            self._done.done += self._next - first
            if self._next < to:
                return at
            if not self._done.done % ITEMS_PER_STEP:
                yield
        return at

    def _some(self, data: bytes, at: int, to: int) -> Steps[int]:
        """Reads records up to number `to` (exclusive), or up to one that `data` does not have whole."""
        size = len(data)
        lowest, highest = self.deltas
        index, time, before = self._next, 0, 0  # the next record; timestamp and length of the one before
        while index < to:
            self._next = index
            begin = at
            if size - begin < RECORD_BYTES_MIN:
                self.needed = RECORD_BYTES_MIN
                break
            length, at = data[begin], begin + 1
            if length > 127:
                length, at = _more(data, at, length)
            end = at + (length >> 1)
            if length & 1:
                raise Corrupt(f"record {index} has a length below 0")
            if end > size:
                self.needed, at = end - begin, begin
                break
            stamp, at = data[at + 1], at + 2
            if stamp > 127:
                stamp, at = _more(data, at, stamp)
            if stamp != time:
                time, delta = stamp, (stamp >> 1) ^ -(stamp & 1)
                lowest, highest = min(lowest, delta), max(highest, delta)
            offset, at = data[at], at + 1
            if offset > 127:
                offset, at = _more(data, at, offset)
            if offset != index << 1:
                raise Corrupt(f"record {index} has the offset delta {(offset >> 1) ^ -(offset & 1)}")
            for _ in KEY_AND_VALUE:
                field, at = data[at], at + 1
                if field > 127:
                    field, at = _more(data, at, field)
                if field != _NULL:
                    at += _length(field, index)
            headers = data[at]
            at = (yield from self._headers(data, at, end)) if headers else at + 1
            if at != end:
                raise Corrupt(f"the length of record {index} is off by {end - at} from what its fields take")
            index += 1
            if length == before and not headers:
                index, at = _shape_of(data, begin).passed(data, at, index, to)
            before = length
        else:
            self._next = to
            self.needed = 0
        self.deltas = Deltas(lowest, highest)
        return at

    def _headers(self, data: bytes, at: int, end: int) -> Steps[int]:
        count, at = _number(data, at)
        for number in range(_length(count, self._next)):
            key, at = _number(data, at)
            at += _length(key, self._next)
            value, at = _number(data, at)
            at += 0 if value == _NULL else _length(value, self._next)
            if at > end:
                raise Corrupt(f"record {self._next} has {count >> 1} headers that are longer than it is")
            if number % ITEMS_PER_STEP == ITEMS_PER_STEP - 1:
                yield
        return at


class _Shape(NamedTuple):
    """How a record without headers is framed: producers write most records as the one before, but for the offset."""

    head: bytes
    """Length, attributes and timestamp."""
    offset_bytes: int
    key_head: bytes
    key_bytes: int
    value_head: bytes
    value_bytes: int

    def passed(self, data: bytes, at: int, index: int, to: int) -> tuple[int, int]:
        """Passes the records from number `index` at `at` that are framed so; returns the first that is not, and where.

        That is a sixth of the time that it takes to read their numbers.
        """
        head, _, key_head, key_bytes, value_head, value_bytes = self
        if index >= len(_OFFSETS) or len(_OFFSETS[index]) != self.offset_bytes:  # it was written in too many bytes
            return index, at
        skipped = len(head) + self.offset_bytes + len(key_head) + key_bytes
        rest = skipped + len(value_head) + value_bytes
        to = min(to, _OFFSETS_OF_BYTES[self.offset_bytes], (len(data) - at) // (rest + 1) + index)
        for number in range(index, to):
            end = at + rest
            if (
                data[end]  # it has headers
                or not data.startswith(head + _OFFSETS[number] + key_head, at)
                or not data.startswith(value_head, at + skipped)
            ):
                return number, at
            at = end + 1
        return max(index, to), at


def _shape_of(data: bytes, begin: int) -> _Shape:
    """Returns how a record is framed that was read, and has no headers."""
    _, at = _number(data, begin)
    _, offset_at = _number(data, at + 1)
    _, key_at = _number(data, offset_at)
    key, key_end = _number(data, key_at)
    value_at = key_end + (0 if key == _NULL else key >> 1)
    value, value_end = _number(data, value_at)
    return _Shape(
        head=data[begin:offset_at],
        offset_bytes=key_at - offset_at,
        key_head=data[key_at:key_end],
        key_bytes=value_at - key_end,
        value_head=data[value_at:value_end],
        value_bytes=0 if value == _NULL else value >> 1,
    )


_OFFSETS: Final = tuple(varint(number) for number in range(1 << 10))
_OFFSETS_OF_BYTES: Final = {1: 1 << 6, 2: len(_OFFSETS)} | dict.fromkeys(range(3, 11), 0)
"""By the bytes of its varint, the bound (exclusive) of an offset delta, as far as `_OFFSETS` has it."""


def _length(number: int, index: int) -> int:
    if number & 1:
        raise Corrupt(f"record {index} has a field with a length below 0")
    return number >> 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    number = data[at]
    return (number, at + 1) if number < 128 else _more(data, at + 1, number)


def _more(data: bytes, at: int, number: int) -> tuple[int, int]:
    """Returns the varint, not yet as a signed number, whose first byte is `number`, and where it ends."""
    byte = data[at]
    number = number & 127 | (byte & 127) << 7
    at += 1
    shift = 14
    while byte > 127:
        if shift > 63:
            raise Corrupt("a number of more than ten bytes")
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
    return number, at
