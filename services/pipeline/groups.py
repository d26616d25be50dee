"""Rows of many keys in one pass: what window functions compute, over sorted numpy and Arrow arrays.

Rows of one key are neighbours, in their order; an index of -1 means that there is no such row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "NONE",
    "Array",
    "Groups",
    "codes",
    "contained",
    "different_lists",
    "grouped",
    "has_value",
    "items",
    "lengths",
    "taken",
]

Array = Any
"""A numpy array: numpy's own types say little about the kind of its numbers."""
NONE: Final = -1
"""The index of a row that does not exist."""


class Groups:
    """Rows that are sorted by their keys: `first` marks the first row of each key, `last` the last one."""

    def __init__(self, *keys: Array) -> None:
        """Finds the groups by the columns of the key, arrays of equal length in the rows' order."""
        self.count = len(keys[0])
        # An array of one item would be compared with all rows, and not be noticed.
        assert {self.count} == set(map(len, keys)), [*map(len, keys)]
        self.first = np.ones(self.count, bool)
        if self.count > 1:
            self.first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
        self.last = np.append(self.first[1:], True)[: self.count]
        self._rows = np.arange(self.count)
        self._starts = np.maximum.accumulate(np.where(self.first, self._rows, 0))

    def only(self, rows: Array) -> Groups:
        """Returns the groups of these rows alone, given by ascending index."""
        assert (np.diff(rows) > 0).all(), rows
        return Groups((np.cumsum(self.first) - 1)[rows])

    def before(self) -> Array:
        """Returns for each row the index of the row before it; -1 for the first row of a key."""
        return np.where(self.first, NONE, self._rows - 1)

    def after(self) -> Array:
        """Returns for each row the index of the row behind it; -1 for the last row of a key."""
        return np.where(self.last, NONE, self._rows + 1)

    def latest(self, holds: Array) -> Array:
        """Returns for each row the index of the last row of its key, up to this one, where `holds`; -1 for none."""
        assert len(holds) == self.count, (len(holds), self.count)
        found = np.maximum.accumulate(np.where(holds, self._rows, NONE))
        return np.where(found >= self._starts, found, NONE)

    def earlier(self, at: Array) -> Array:
        """Returns for each row the index that `at` has for the row before it; -1 for the first row of a key."""
        return np.where(self.first, NONE, np.roll(at, 1))

    def numbers(self) -> Array:
        """Returns for each row the number of its key, from 0 on."""
        return np.cumsum(self.first) - 1

    def highest(self, numbers: Array) -> Array:
        """Returns for each row the highest of the numbers of its key up to it."""
        if not np.any((numbers[1:] < numbers[:-1]) & ~self.first[1:]):
            return numbers
        # Ranks are small, so those of a later key can be made higher than all of an earlier one.
        values, ranks = np.unique(numbers, return_inverse=True)
        above = self.numbers() * len(values)
        found = values[np.maximum.accumulate(ranks + above) - above]
        assert (found[self.first] == numbers[self.first]).all(), (found, numbers)
        return found

    def since(self, holds: Array) -> Array:
        """Returns for each key, in their order, the index of the row from which on it `holds` to the key's end.

        It is -1 if it does not hold in the key's last row.
        """
        last = np.flatnonzero(self.last)
        failed = self.latest(~holds)[last]
        return np.where(holds[last], np.where(failed == NONE, self._starts[last], failed + 1), NONE)

    def cumulated(self, numbers: Array) -> Array:
        """Returns for each row the sum of the numbers of its key up to it."""
        sums = np.cumsum(numbers, dtype=np.int64)
        return sums - (sums - numbers)[self._starts]


def grouped(rows: pa.Table, key: Sequence[str], order: str) -> tuple[pa.Table, Groups]:
    """Returns the rows sorted by a key and then by `order`, and their groups; the order of the keys has no meaning."""
    keys = [codes(rows[name]) for name in key]
    sorting = [*keys, rows[order].to_numpy()]
    if not _is_sorted(sorting):
        at = np.lexsort(sorting[::-1])
        rows, keys = rows.take(pa.array(at)), [each[at] for each in keys]
        assert _is_sorted([*keys, rows[order].to_numpy()]), (key, order)
    return rows.combine_chunks(), Groups(*keys)


def _is_sorted(columns: Sequence[Array]) -> bool:
    same = np.ones(max(len(columns[0]) - 1, 0), bool)
    for values in columns:
        if np.any(same & (values[1:] < values[:-1])):
            return False
        same &= values[1:] == values[:-1]
    return True


def codes(values: pa.ChunkedArray) -> Array:
    """Returns a number for each value: equal ones for equal values."""
    return values.combine_chunks().dictionary_encode().indices.to_numpy()


def taken(values: pa.Array, at: Array) -> pa.Array:
    """Returns the values at these indices, null for -1."""
    return values.take(pa.array(at, mask=at == NONE))


def has_value(values: pa.Array) -> Array:
    """Returns whether each value is there, not null."""
    return values.is_valid().to_numpy(zero_copy_only=False)


def lengths(lists: pa.Array) -> Array:
    """Returns the number of items of each list; 0 of null."""
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)


def different_lists(lists: pa.Array, one: Array, other: Array) -> Array:
    """Returns whether the lists at `one` and at `other` differ; all these indices are of lists that are not null."""
    a, b = lists.take(pa.array(one)), lists.take(pa.array(other))
    assert not a.null_count + b.null_count, (a.null_count, b.null_count)
    sizes, others = lengths(a), lengths(b)
    found = sizes != others
    same = np.flatnonzero(~found & (sizes > 0))
    if len(same):
        left, right = (each.take(pa.array(same)).flatten() for each in (a, b))
        unequal = pc.not_equal(left, right).to_numpy(zero_copy_only=False)
        begins = np.concatenate([[0], np.cumsum(sizes[same])[:-1]])
        found[same] = np.logical_or.reduceat(unequal, begins)
    return found


def items(lists: pa.Array) -> tuple[Array, Array]:
    """Returns for each item of lists of numbers the index of its list, and the item; null has none."""
    return np.repeat(np.arange(len(lists)), lengths(lists)), lists.flatten().to_numpy(zero_copy_only=False)


def contained(lists: pa.Array, numbers: Array) -> Array:
    """Returns whether each list contains the number of the same index."""
    owners, values = items(lists)
    found = np.zeros(len(lists), bool)
    found[owners[values == numbers[owners]]] = True
    return found
