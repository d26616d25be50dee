"""What control records have set, by the offset of the record: in force on append, undone by truncation (KIP-853)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Generic, TypeVar

from quorate.nouns import Offset

T = TypeVar("T")


class History(Generic[T]):
    """Values by the offset of the record that brought each, over the one known before the log.

    >>> versions = History(0, [(5, 1)])
    >>> versions.latest, versions.before(5), versions.latest_offset
    (1, 0, 5)
    >>> versions.truncate(to=5)
    >>> versions.latest, versions.latest_offset
    (0, None)
    """

    __slots__ = ("_base", "_offsets", "_values")

    def __init__(self, base: T, changes: Iterable[tuple[Offset, T]] = ()) -> None:
        self._base = base
        self._offsets: list[Offset] = []
        self._values: list[T] = []
        for offset, value in changes:
            self.append(offset, value)

    @property
    def latest(self) -> T:
        """The value in force."""
        return self._values[-1] if self._values else self._base

    @property
    def latest_offset(self) -> Offset | None:
        """Offset of the record that brought the value in force; None if it comes from before the log."""
        return self._offsets[-1] if self._offsets else None

    @property
    def changes(self) -> tuple[tuple[Offset, T], ...]:
        """(offset, value) of every record, oldest first."""
        return tuple(zip(self._offsets, self._values, strict=True))

    def before(self, offset: Offset) -> T:
        """The value in force for a log that ends at `offset`."""
        at = bisect_left(self._offsets, offset)
        return self._values[at - 1] if at else self._base

    def append(self, offset: Offset, value: T) -> None:
        """A record at `offset` was written."""
        assert not self._offsets or offset > self._offsets[-1], (offset, self._offsets[-1])
        self._offsets.append(offset)
        self._values.append(value)

    def truncate(self, *, to: Offset) -> None:
        """Records at `to` and after are gone, and what they set with them."""
        at = bisect_left(self._offsets, to)
        del self._offsets[at:], self._values[at:]

    def start_at(self, offset: Offset) -> None:
        """Records below `offset` were removed; the value they left in force stays."""
        self._base = self.before(offset)
        at = bisect_left(self._offsets, offset)
        del self._offsets[:at], self._values[:at]

    def restart_with(self, value: T | None) -> None:
        """The log was replaced by a snapshot whose header has `value`; None if it has none: the base stands."""
        self._base = self._base if value is None else value
        self._offsets.clear()
        self._values.clear()
