"""Finds where the records of many batches are, for all records at once: arrays of positions instead of slices.

Only what KRaft writes is found: uncompressed records with a value alone. A batch with anything else in it does not
fit, and is left to `wire.batch.data_values`, which knows all that a batch may be and says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from quorate.pipeline.batch_rows import Run
from quorate.wire.batch import COMPRESSION, HEADER_BYTES, BatchHeader

__all__ = ["PADDING", "Array", "Spans", "spans"]

Array = Any  # numpy's arrays are not typed here: it is not installed where types are checked
PADDING: Final = 256
"""Bytes behind the last record, so that a number that is cut off can be read before it is refused."""
_COUNT_MAX: Final = 1 << 13
"""The most records of a batch whose offset deltas have two bytes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Where the values of a run's records are in `content`: value k is content[starts[k]:ends[k]].

    `firsts` has the number of each batch's first record, and at its end the number of all. `fits` says of each batch
    whether it is as KRaft writes it: uncompressed, records of a value alone. The positions (int64) of another batch
    mean nothing.
    """

    content: bytes
    starts: Array
    ends: Array
    firsts: Array
    fits: Array


def spans(run: Run) -> Spans:
    """Finds where the values of a run's records are, in a copy of the bytes of its batches."""
    with memoryview(run.data) as view:
        content = b"".join(
            [*(view[at + HEADER_BYTES : at + header.size] for at, header in run.batches), bytes(PADDING)]
        )
    at, firsts, fits = _starts(content, [header for _, header in run.batches])
    return _checked(content, np.array(at, np.int64), np.array(firsts, np.int64), np.array(fits, np.bool_))


def _starts(content: bytes, headers: Iterable[BatchHeader]) -> tuple[list[int], list[int], list[bool]]:
    """Follows the lengths of records through the batches, one behind the other.

    Returns where each record begins, the number of each batch's first record, and which batches end where their
    records do; one that does not has no records here.
    """
    found: list[int] = []
    firsts, fits = [0], []
    begin = 0
    for header in headers:
        at, end, count = begin, begin + header.size - HEADER_BYTES, header.count
        if count != header.last_offset_delta + 1 or header.attributes & COMPRESSION or count > _COUNT_MAX:
            count = 0
        try:
            for _ in range(count):
                found.append(at)
                length = content[at]
                if length > 127:
                    at += 1
                    length += (content[at] << 7) - 128
                at += (length >> 1) + 1
        except IndexError:
            at = -1
        fits.append(at == end)
        if at != end:
            del found[firsts[-1] :]
        firsts.append(len(found))
        begin = end
    return found, firsts, fits


def _checked(content: bytes, at: Array, firsts: Array, fits: Array) -> Spans:
    """Compares the bytes around each value with those that KRaft writes."""
    assert len(firsts) == len(fits) + 1, (len(firsts), len(fits))
    assert firsts[-1] == len(at), (firsts[-1], len(at))
    data = np.frombuffer(content, np.uint8)
    counts = np.diff(firsts)
    index = np.arange(len(at)) - np.repeat(firsts[:-1], counts)
    delta = 2 * index  # zigzag
    is_long_delta = delta > 127
    length, body = _varint(data, at)
    good = length & 1 == 0
    good &= (data[body] == 0) & (data[body + 1] == 0)  # attributes, timestamp delta
    good &= data[body + 2] == np.where(is_long_delta, delta & 127 | 128, delta)
    key = body + 3 + is_long_delta
    good &= ~is_long_delta | (data[key - 1] == delta >> 7)
    good &= data[key] == 1  # no key
    size, start = _varint(data, key + 1)
    end = start + (size >> 1)
    good &= (size & 1 == 0) & (size > 0) & (end + 1 == body + (length >> 1))
    end = np.where(good, end, start)  # within the content
    good &= data[end] == 0  # no headers
    bad = np.flatnonzero(~good)
    fits[np.searchsorted(firsts, bad, side="right") - 1] = False
    assert end[good].max(initial=0) <= len(content) - PADDING, (end[good].max(), len(content))
    return Spans(content=content, starts=start, ends=end, firsts=firsts, fits=fits)


def _varint(data: Array, at: Array) -> tuple[Array, Array]:
    """Reads varints of one or two bytes; returns their bits and the positions behind them. Longer ones become odd."""
    low = data[at].astype(np.int64)
    is_long = low > 127
    high = data[at + 1].astype(np.int64) * is_long
    value = low + (high << 7) - (is_long << 7)
    return value | (high > 127), at + 1 + is_long
