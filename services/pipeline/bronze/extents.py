"""Offset extents of files: they show, without a shuffle, which files cannot hold the same record.

The source reads a file only forward, so one reading never returns an offset twice. Two files can share offsets only
if their extents overlap. An aggregate of a few numbers for each file is enough to see that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.nouns import Offset

__all__ = ["OffsetExtent", "bounds", "combined", "extents", "gathered", "overlapping"]


class OffsetExtent(NamedTuple):
    """The first and last offset (both inclusive) of one file's rows, of a log or of the checkpoint `fingerprint`."""

    cluster_id: str
    fingerprint: str | None
    source: str
    first: Offset
    last: Offset
    rows: int
    parity: int
    """The exclusive-or of all offsets."""

    @property
    def owner(self) -> tuple[str, str]:
        """Returns the offset space: each cluster's log has one, and so has each checkpoint."""
        return self.cluster_id, self.fingerprint or ""

    @property
    def is_whole(self) -> bool:
        """Returns whether every offset from `first` to `last` occurs once, by their number and their exclusive-or."""
        expected = _parity_below(self.last + 1) ^ _parity_below(self.first)
        return self.rows == self.last - self.first + 1 and self.parity == expected

    def meets(self, other: OffsetExtent) -> bool:
        """Returns whether both may hold a row of the same offset."""
        return self.owner == other.owner and self.first <= other.last and other.first <= self.last


def combined(pieces: Iterable[OffsetExtent]) -> list[OffsetExtent]:
    """Combines the extents of pieces of files into an extent for each file.

    >>> [combined([OffsetExtent("c", None, "a", 0, 1, 2, 1), OffsetExtent("c", None, "a", 2, 2, 1, 2)])]
    [[OffsetExtent(cluster_id='c', fingerprint=None, source='a', first=0, last=2, rows=3, parity=3)]]

    """
    found: dict[tuple[str, str | None, str], OffsetExtent] = {}
    for each in pieces:
        other = found.get(each[:3])
        found[each[:3]] = (
            each
            if other is None
            else other._replace(
                first=min(other.first, each.first),
                last=max(other.last, each.last),
                rows=other.rows + each.rows,
                parity=other.parity ^ each.parity,
            )
        )
    return list(found.values())


def bounds() -> tuple[Column, ...]:
    """Returns the aggregates over `offset` that make an extent: `first`, `last`, `rows`, `parity`."""
    return (
        fn.min("offset").alias("first"),
        fn.max("offset").alias("last"),
        fn.count("*").alias("rows"),
        fn.bit_xor("offset").alias("parity"),
    )


def extents(rows: DataFrame) -> list[OffsetExtent]:
    """Computes the extent of every file that the rows come from, and collects them on the driver."""
    has_fingerprint = "fingerprint" in rows.columns
    fingerprint = fn.col("fingerprint") if has_fingerprint else fn.lit(None).cast("string").alias("fingerprint")
    found = rows.groupBy("cluster_id", fingerprint, "source").agg(*bounds())
    return [OffsetExtent(*row) for row in found.collect()]


def gathered(pieces: DataFrame) -> list[OffsetExtent]:
    """Combines `bounds` of pieces of log files into an extent for each file, and collects these on the driver."""
    found = pieces.groupBy("cluster_id", fn.lit(None).cast("string").alias("fingerprint"), "source").agg(
        fn.min("first"), fn.max("last"), fn.sum("rows"), fn.bit_xor("parity")
    )
    return [OffsetExtent(*row) for row in found.collect()]


def overlapping(every: Iterable[OffsetExtent]) -> set[OffsetExtent]:
    """Returns the extents that overlap another one of the same log or checkpoint.

    >>> ends = {"a": (0, 9), "b": (10, 19), "c": (15, 29), "d": (30, 31)}
    >>> files = [OffsetExtent("cluster", None, name, first, last, 0, 0) for name, (first, last) in ends.items()]
    >>> sorted(each.source for each in overlapping(files))
    ['b', 'c']

    """
    owners: dict[tuple[str, str], list[OffsetExtent]] = defaultdict(list)
    for each in every:
        owners[each.owner].append(each)
    found: set[OffsetExtent] = set()
    for group in owners.values():
        group.sort(key=lambda each: each.first)
        furthest = group[0]
        for each in group[1:]:
            if each.meets(furthest):
                found |= {furthest, each}
            furthest = max(furthest, each, key=lambda one: one.last)
    return found


def _parity_below(end: Offset) -> int:
    """Returns the exclusive-or of the numbers from 0 to `end` (exclusive).

    >>> [_parity_below(end) for end in range(6)] == [0, 0, 0 ^ 1, 0 ^ 1 ^ 2, 0 ^ 1 ^ 2 ^ 3, 0 ^ 1 ^ 2 ^ 3 ^ 4]
    True

    """
    last = end - 1
    return (last, 1, end, 0)[last % 4] if end else 0
