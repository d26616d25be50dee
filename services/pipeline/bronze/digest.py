"""Computes Spark's `xxhash64` of many rows with numpy, so that Python workers identify records as bronze does.

Spark hashes one column after the other, each with the hash before as seed, and leaves nulls out. A value is hashed
by XXH64: a number as its 4 or 8 bytes, little-endian, a boolean as an int of 0 or 1, text as its UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

__all__ = ["xxhash64"]

Array = Any
"""A numpy array: numpy's own types say little about the kind of its numbers."""

SEED: Final = 42
"""With which Spark begins."""
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE: Final = 32
_PAD: Final = bytes(16)


def xxhash64(columns: Iterable[pa.Array]) -> Array:
    """Returns the hash of each row as an int64: what Spark's `xxhash64` of these columns is.

    The columns are timestamps in us, numbers of 32 or 64 bits, booleans, strings and binaries, of equal length.
    """
    hashes: Array | None = None
    for column in columns:
        if hashes is None:
            hashes = np.full(len(column), SEED, np.uint64)
        assert len(column) == len(hashes), (len(column), len(hashes))
        if column.null_count == len(column):
            continue
        if column.null_count:
            there = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            hashes[there] = _hashed(column.drop_null(), hashes[there])
        else:
            hashes = _hashed(column, hashes)
    assert hashes is not None, "a row has columns"
    return hashes.view(np.int64)


def _hashed(column: pa.Array, seeds: Array) -> Array:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _of_bytes(column, seeds)
    if pa.types.is_timestamp(kind) or pa.types.is_int64(kind):
        return _avalanche(_word(seeds + _P5 + np.uint64(8), column.cast(pa.int64()).to_numpy().view(np.uint64)))
    assert pa.types.is_int32(kind) or pa.types.is_boolean(kind), kind
    numbers = column.cast(pa.int32()).to_numpy().view(np.uint32)
    return _avalanche(_half(seeds + _P5 + np.uint64(4), numbers.astype(np.uint64)))


def _of_bytes(column: pa.Array, seeds: Array) -> Array:
    """Hashes texts, the longest first, so that those with a next stripe or word are always the first so many."""
    _, positions, content = column.buffers()
    bounds = np.frombuffer(positions, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    lengths = np.diff(bounds)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths, seeds = bounds[:-1][order], lengths[order], seeds[order]
    data = _Words(memoryview(content or b"")[bounds[0] : bounds[-1]], starts - bounds[0])
    hashes = seeds + _P5
    long = _count(lengths, _STRIPE)
    if long:
        hashes[:long] = _stripes(data, lengths[:long], seeds[:long])
    hashes += lengths.astype(np.uint64)

    # The rest behind the stripes: up to three words, half a word, and up to three bytes.
    at, left = lengths - lengths % _STRIPE, lengths % _STRIPE
    for _ in range(_STRIPE // 8 - 1):
        rows = np.flatnonzero(left >= 8)
        hashes[rows] = _word(hashes[rows], data.words(rows, at[rows]))
        at[rows] += 8
        left[rows] -= 8
    rows = np.flatnonzero(left >= 4)
    hashes[rows] = _half(hashes[rows], data.words(rows, at[rows]) & np.uint64(0xFFFFFFFF))
    at[rows] += 4
    left[rows] -= 4
    for _ in range(3):
        rows = np.flatnonzero(left > 0)
        byte = data.words(rows, at[rows]) & np.uint64(0xFF)
        hashes[rows] = _turned(hashes[rows] ^ byte * _P5, 11) * _P1
        at[rows] += 1
        left[rows] -= 1
    assert (at == lengths).all(), (at, lengths)

    found = np.empty_like(hashes)
    found[order] = _avalanche(hashes)
    return found


def _stripes(data: _Words, lengths: Array, seeds: Array) -> Array:
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for at in range(0, int(lengths[0]) - _STRIPE + 1, _STRIPE):
        some = slice(0, _count(lengths, at + _STRIPE))
        for number, lane in enumerate(lanes):
            lane[some] = _turned(lane[some] + data.words(some, at + 8 * number) * _P2, 31) * _P1
    hashes = _turned(lanes[0], 1) + _turned(lanes[1], 7) + _turned(lanes[2], 12) + _turned(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ _turned(lane * _P2, 31) * _P1) * _P1 + _P4
    return hashes


class _Words:
    """Texts one behind the other, read eight bytes at a time from any place."""

    def __init__(self, content: memoryview, starts: Array) -> None:
        padded = np.frombuffer(bytes(content) + _PAD[: 16 - len(content) % 8], np.uint64)
        self._low, self._high = padded[:-1], padded[1:]
        self._starts = starts

    def words(self, rows: Array | slice, at: Array | int) -> Array:
        """Returns the eight bytes at `at` of these texts; what is behind a text's end is of no meaning."""
        begin = self._starts[rows] + at
        index, shift = begin >> 3, (begin.astype(np.uint64) & np.uint64(7)) << np.uint64(3)
        # Shifted twice, because a shift by all 64 bits is none.
        above = (self._high[index] << (np.uint64(63) - shift)) << np.uint64(1)
        return self._low[index] >> shift | above


def _count(lengths: Array, least: int) -> int:
    """Returns how many texts have at least so many bytes; the longest are the first."""
    return int(np.searchsorted(-lengths, -least, side="right"))


def _word(hashes: Array, words: Array) -> Array:
    return _turned(hashes ^ _turned(words * _P2, 31) * _P1, 27) * _P1 + _P4


def _half(hashes: Array, numbers: Array) -> Array:
    return _turned(hashes ^ numbers * _P1, 23) * _P2 + _P3


def _turned(words: Array, by: int) -> Array:
    return words << np.uint64(by) | words >> np.uint64(64 - by)


def _avalanche(hashes: Array) -> Array:
    hashes = (hashes ^ hashes >> np.uint64(33)) * _P2
    hashes = (hashes ^ hashes >> np.uint64(29)) * _P3
    return hashes ^ hashes >> np.uint64(32)
