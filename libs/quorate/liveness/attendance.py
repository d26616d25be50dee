"""The time in which this process could hear brokers: a monotonic clock without the process's own absences.

A process that is stopped (SIGSTOP, a frozen container, a machine that is moved) reads nothing meanwhile. When it goes
on, heartbeats wait in its sockets, and a session measured by the clock alone may be over before they are read.
"""

from __future__ import annotations

__all__ = ["Attendance"]


class Attendance:
    """A clock without the process's own absences: of a gap between two calls of `look`, at most `every_ms` count.

    The owner looks at least that often while it runs. So a session goes on, however late single looks are.

    >>> present = Attendance(every_ms=100)
    >>> [present.look(now_ms) for now_ms in (1_000, 1_050, 1_150, 31_150, 31_200)]
    [1000, 1050, 1150, 1250, 1300]
    >>> present.away_ms
    29900
    """

    __slots__ = ("_every_ms", "_looked_ms", "away_ms")

    def __init__(self, *, every_ms: int) -> None:
        assert every_ms > 0, every_ms
        self._every_ms = every_ms
        self._looked_ms: int | None = None
        self.away_ms = 0
        """How long this process was away, all times together."""

    def look(self, now_ms: int) -> int:
        """Returns the time (ms) without absences, where the monotonic clock is at `now_ms`; it never goes back."""
        if self._looked_ms is not None:
            assert now_ms >= self._looked_ms, (now_ms, self._looked_ms)
            self.away_ms += max(0, now_ms - self._looked_ms - self._every_ms)
        self._looked_ms = now_ms
        return now_ms - self.away_ms
