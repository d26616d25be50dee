"""Event durations of the controller: count, total and slowest, to find what blocked other requests."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Performance", "Period"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The events since the last call of `take`; `slowest` is None if there were none."""

    count: int = 0
    total_ns: int = 0
    slowest: str | None = None
    slowest_ns: int = 0

    @property
    def average_ns(self) -> int:
        """The average duration in ns; 0 if there were no events."""
        return self.total_ns // self.count if self.count else 0


class Performance:
    """Counts the events of one controller and their durations; an event blocks all others while it runs.

    >>> performance = Performance()
    >>> performance.note("CreateTopics", 3_000_000)
    >>> performance.note("AlterPartition", 1_000_000)
    >>> performance.take()
    Period(count=2, total_ns=4000000, slowest='CreateTopics', slowest_ns=3000000)
    >>> performance.take().average_ns
    0
    """

    __slots__ = ("_count", "_slowest", "_slowest_ns", "_total_ns")

    def __init__(self) -> None:
        self._count = 0
        self._total_ns = 0
        self._slowest: str | None = None
        self._slowest_ns = 0

    def note(self, name: str, took_ns: int) -> None:
        """Counts an event. Of several equally slow events the first is kept as the slowest."""
        self._count += 1
        self._total_ns += took_ns
        if self._slowest is None or took_ns > self._slowest_ns:
            self._slowest, self._slowest_ns = name, took_ns

    def take(self) -> Period:
        """Returns the statistics of the period and starts the next one."""
        count, self._count = self._count, 0
        total_ns, self._total_ns = self._total_ns, 0
        slowest, self._slowest = self._slowest, None
        slowest_ns, self._slowest_ns = self._slowest_ns, 0
        assert (slowest is None) == (count == 0), (slowest, count)
        return Period(count=count, total_ns=total_ns, slowest=slowest, slowest_ns=slowest_ns)
