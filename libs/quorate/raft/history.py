"""The history of a value that control records set, such as the voter set: a value is in force from its append on.

A truncation of the log takes the values of the truncated records back. KIP-853.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Generic, TypeVar

from quorate.nouns import Offset

T = TypeVar("T")


class History(Generic[T]):
    """A sequence of values, each set by the record at an offset, over a base value from before the log.

    It holds the voter sets and the levels of kraft.version (I-32).

    >>> versions = History(0, [(5, 1)])
    >>> versions.latest, versions.before(5), versions.latest_offset
    (1, 0, 5)
    >>> versions.truncate(to=5)
    >>> versions.latest, versions.latest_offset
    (0, None)
    """

    __slots__ = ("_base", "_offsets", "_values", "latest")

    def __init__(self, base: T, changes: Iterable[tuple[Offset, T]] = ()) -> None:
        self._base = base
        self.latest = base
        """The value in force, committed or not. Read only."""
        self._offsets: list[Offset] = []
        self._values: list[T] = []
        for offset, value in changes:
            self.append(offset, value)

    @property
    def latest_offset(self) -> Offset | None:
        """The offset of the record that set the value in force; None if it is the base value."""
        return self._offsets[-1] if self._offsets else None

    @property
    def changes(self) -> tuple[tuple[Offset, T], ...]:
        """The (offset, value) pairs of all records, oldest first."""
        return tuple(zip(self._offsets, self._values, strict=True))

    def before(self, offset: Offset) -> T:
        """Returns the value in force for a log that ends at `offset` (exclusive)."""
        at = bisect_left(self._offsets, offset)
        return self._values[at - 1] if at else self._base

    def append(self, offset: Offset, value: T) -> None:
        """Adds the value that a record at `offset` has set; it is in force at once."""
        assert not self._offsets or offset > self._offsets[-1], (offset, self._offsets[-1])
        self._offsets.append(offset)
        self._values.append(value)
        self.latest = value

    def truncate(self, *, to: Offset) -> None:
        """Removes the values of the records at `to` and after; the one before is in force again."""
        at = bisect_left(self._offsets, to)
        del self._offsets[at:], self._values[at:]
        self.latest = self._values[-1] if self._values else self._base
        assert not self._offsets or self._offsets[-1] < to, (self._offsets, to)  # I-32
        assert len(self._offsets) == len(self._values), (self._offsets, self._values)

    def start_at(self, offset: Offset) -> None:
        """Moves the log start to `offset`: the value in force there becomes the base, and earlier ones are removed."""
        self._base = self.before(offset)
        at = bisect_left(self._offsets, offset)
        del self._offsets[:at], self._values[:at]
        assert not self._offsets or self._offsets[0] >= offset, (self._offsets, offset)

    def restart_with(self, value: T | None) -> None:
        """Starts anew from a snapshot: the value of its header is the base; None keeps the present base."""
        self.latest = self._base = self._base if value is None else value
        self._offsets.clear()
        self._values.clear()
