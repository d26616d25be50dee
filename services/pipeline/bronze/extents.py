"""From which offset to which the rows of each file lie: what tells without a shuffle that no two rows can be the same.

The source reads a file forward only, so no offset comes from one reading of a file twice. Two files may share offsets
only where their extents overlap, and it takes an aggregate of a few numbers a file to see that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.nouns import Offset

__all__ = ["Extent", "bounds", "extents", "gathered", "overlapping"]


class Extent(NamedTuple):
    """The rows of one file: the first offset and the last, both inclusive, of a log or (`fingerprint`) a checkpoint."""

    cluster_id: str
    fingerprint: str | None
    source: str
    first: Offset
    last: Offset
    rows: int
    parity: int
    """All offsets, exclusive-or."""

    @property
    def owner(self) -> tuple[str, str]:
        """Whose offsets these are: a log has its own, and so has every checkpoint."""
        return self.cluster_id, self.fingerprint or ""

    @property
    def is_whole(self) -> bool:
        """Is each offset there, once? An offset that is twice, with another one missing, does not go unseen."""
        expected = _parity_below(self.last + 1) ^ _parity_below(self.first)
        return self.rows == self.last - self.first + 1 and self.parity == expected

    def meets(self, other: Extent) -> bool:
        """May both have a row of one offset?"""
        return self.owner == other.owner and self.first <= other.last and other.first <= self.last


def bounds() -> tuple[Column, ...]:
    """What of rows is gathered: `first`, `last`, `rows`, `parity`."""
    return (
        fn.min("offset").alias("first"),
        fn.max("offset").alias("last"),
        fn.count("*").alias("rows"),
        fn.bit_xor("offset").alias("parity"),
    )


def extents(rows: DataFrame) -> list[Extent]:
    """Those of all files that the rows come from, gathered here: a row a file."""
    has_fingerprint = "fingerprint" in rows.columns
    fingerprint = fn.col("fingerprint") if has_fingerprint else fn.lit(None).cast("string").alias("fingerprint")
    found = rows.groupBy("cluster_id", fingerprint, "source").agg(*bounds())
    return [Extent(*row) for row in found.collect()]


def gathered(pieces: DataFrame) -> list[Extent]:
    """The same of logs, of `bounds` that were taken of pieces of each file."""
    found = pieces.groupBy("cluster_id", fn.lit(None).cast("string").alias("fingerprint"), "source").agg(
        fn.min("first"), fn.max("last"), fn.sum("rows"), fn.bit_xor("parity")
    )
    return [Extent(*row) for row in found.collect()]


def overlapping(every: Iterable[Extent]) -> set[Extent]:
    """Those that may share an offset with another one.

    >>> ends = {"a": (0, 9), "b": (10, 19), "c": (15, 29), "d": (30, 31)}
    >>> files = [Extent("cluster", None, name, first, last, 0, 0) for name, (first, last) in ends.items()]
    >>> sorted(each.source for each in overlapping(files))
    ['b', 'c']
    """
    owners: dict[tuple[str, str], list[Extent]] = defaultdict(list)
    for each in every:
        owners[each.owner].append(each)
    found: set[Extent] = set()
    for group in owners.values():
        group.sort(key=lambda each: each.first)
        furthest = group[0]
        for each in group[1:]:
            if each.meets(furthest):
                found |= {furthest, each}
            furthest = max(furthest, each, key=lambda one: one.last)
    return found


def _parity_below(end: Offset) -> int:
    """All numbers from 0 to below `end`, exclusive-or.

    >>> [_parity_below(end) for end in range(6)] == [0, 0, 0 ^ 1, 0 ^ 1 ^ 2, 0 ^ 1 ^ 2 ^ 3, 0 ^ 1 ^ 2 ^ 3 ^ 4]
    True
    """
    last = end - 1
    return (last, 1, end, 0)[last % 4] if end else 0
