"""The records of a data batch as KRaft writes them: a value alone, the timestamp of the batch, offsets without holes.

So everything around a value follows from its size and its place, and is compared or written whole, not field by field.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from quorate.wire.primitives import varint

__all__ = ["common_records", "common_values"]

_COMMON_BYTES: Final = 1 << 13
"""Frames of values up to this size are cached; that is about the range of a two-byte length."""
_COMMON_COUNT: Final = 1 << 13
"""Offset deltas of batches up to this size are cached; above, a delta takes three bytes."""


class _Frames(dict[int, tuple[bytes, bytes, int]]):
    """Cached framing of a data record by the size of its value: (length varint, size varint, value size).

    Everything before the value follows from its size, except the offset delta, of which only the width counts.
    """

    def __init__(self, delta_width: int) -> None:
        super().__init__()
        self._delta_width = delta_width

    def __missing__(self, size: int) -> tuple[bytes, bytes, int]:
        written = varint(size)
        # attributes, timestamp delta, offset delta, no key, size, value, no headers
        frame = varint(2 + self._delta_width + 1 + len(written) + size + 1), written, size
        if size <= _COMMON_BYTES:
            self[size] = frame
        return frame


class _Shapes(dict[int, tuple[bytes, int]]):
    """The reverse of _Frames: (size varint, value size) by the record's length varint, read as a raw number.

    Raises KeyError for a length that KRaft does not write, or of more than two bytes.
    """

    def __init__(self, frames: _Frames) -> None:
        super().__init__()
        self._frames = frames

    def __missing__(self, raw: int) -> tuple[bytes, int]:
        if raw & 1 or raw >= _TWO_BYTES_END:
            raise KeyError(raw)
        length = varint(raw >> 1)
        for size in range(max(0, (raw >> 1) - 9), max(0, (raw >> 1) - 5)):
            if self._frames[size][0] == length:
                self[raw] = shape = self._frames[size][1:]
                return shape
        raise KeyError(raw)


_FRAMES: Final = (_Frames(1), _Frames(2), _Frames(3))
_SHAPES: Final = (_Shapes(_FRAMES[0]), _Shapes(_FRAMES[1]))
_ONE_BYTE_DELTAS: Final = 64
_TWO_BYTES_END: Final = 1 << 14
_MIDDLES: Final = tuple(b"\0\0" + varint(index) + b"\x01" for index in range(_COMMON_COUNT))
"""The record bytes between length and value size, by offset delta: attributes 0, timestamp delta 0, the offset delta,
and key size -1, which means no key.
"""
_DELTA_COLUMNS: Final = tuple(bytes(middle[place] for middle in _MIDDLES[_ONE_BYTE_DELTAS:]) for place in (2, 3))
"""The first and the second bytes of the offset deltas of two bytes, from the first such delta on."""


def common_records(values: Sequence[bytes]) -> bytes:
    """Returns the records of a batch with these values, in the bytes that follow its header."""
    parts: list[tuple[bytes, ...]] = []
    for index, value in enumerate(values):
        middle = _MIDDLES[index] if index < _COMMON_COUNT else b"\0\0" + varint(index) + b"\x01"
        length, written, _ = _FRAMES[len(middle) - 4][len(value)]
        parts.append((length, middle, written, value, b"\0"))
    return b"".join(chain.from_iterable(parts))


def common_values(data: bytes, count: int) -> list[bytes] | None:
    """Returns the values of the `count` records in `data`; None if they are not framed as KRaft frames most of its own.

    The bytes around a value are not parsed but compared with those that KRaft writes.
    """
    if count > _COMMON_COUNT:
        return None
    values: list[bytes] = []
    shapes = _SHAPES[0]
    at = 0
    try:
        for index, middle in enumerate(_MIDDLES[:count]):
            if index == _ONE_BYTE_DELTAS:
                shapes = _SHAPES[1]
                if equal := _equal_values(data, at, index, count - index):
                    return values + equal
            length = data[at]
            at += 1
            if length > 127:
                length += (data[at] << 7) - 128
                at += 1
            written, size = shapes[length]
            begin = at + len(middle) + len(written)
            end = begin + size
            if data[at:begin] != middle + written or data[end] or not size:
                return None
            values.append(data[begin:end])
            at = end + 1
    except (IndexError, KeyError):
        return None
    return values if at == len(data) else None


def _equal_values(data: bytes, at: int, index: int, count: int) -> list[bytes]:
    """Returns the `count` values from `at` on, if they fill `data`, are equally long, and have deltas of two bytes.

    Returns none otherwise. The bytes around the values are compared column by column: a slice takes the same byte of
    every record, and all of them are to be as in the first record, but for the offset delta.
    """
    width = 1 if data[at] < 1 << 7 else 2
    written, size = _SHAPES[1][data[at] if width == 1 else data[at] + (data[at + 1] << 7) - 128]
    frame = data[at : at + width] + _MIDDLES[index] + written
    stride = len(frame) + size + 1
    if not size or at + count * stride != len(data):
        return []
    columns = [bytes((byte,)) * count for byte in frame]
    columns[width + 2 : width + 4] = [deltas[index - _ONE_BYTE_DELTAS :][:count] for deltas in _DELTA_COLUMNS]
    if any(data[at + place :: stride] != column for place, column in enumerate(columns)) or any(
        data[at + stride - 1 :: stride]
    ):
        return []
    return [data[begin : begin + size] for begin in range(at + len(frame), len(data), stride)]
