"""Formats times and durations for the report, always in UTC, and maps times to positions on a chart's axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

__all__ = ["Axis", "clock", "day", "duration", "moment"]

_SECOND: Final = 1_000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_STEPS: Final = (
    *(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(step * _SECOND for step in (1, 2, 5, 10, 15, 30)),
    *(step * _MINUTE for step in (1, 2, 5, 10, 15, 30)),
    *(step * _HOUR for step in (1, 2, 3, 6, 12)),
    *(step * _DAY for step in (1, 2, 5, 10, 30, 90, 365, 3_650)),
)
TICKS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A horizontal time axis: ms since 1970 from left to right."""

    begin_ms: int
    end_ms: int
    left: float
    right: float

    def x(self, ms: int) -> float:
        """Returns the x position of a moment; moments outside the axis are placed on its edge.

        >>> Axis(begin_ms=0, end_ms=100, left=10, right=20).x(50)
        15.0

        """
        share = (ms - self.begin_ms) / max(self.end_ms - self.begin_ms, 1)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yields the positions and labels of at most TICKS_MAX round moments.

        >>> [words for _, words in Axis(begin_ms=500, end_ms=61_000, left=0, right=1).ticks()]
        ['00:00:10', '00:00:20', '00:00:30', '00:00:40', '00:00:50', '00:01:00']

        """
        wide = max(self.end_ms - self.begin_ms, 1)
        step = next((step for step in _STEPS if wide / step <= TICKS_MAX), _STEPS[-1])
        first = -(-self.begin_ms // step) * step
        for ms in range(first, self.end_ms + 1, step):
            yield self.x(ms), _words(ms, step)


def moment(ms: int) -> str:
    """Formats a moment, in ms since 1970, as date and time of day.

    >>> moment(1_795_262_400_123)
    '2026-11-21 12:00:00.123'

    """
    return f"{day(ms)} {clock(ms)}"


def clock(ms: int) -> str:
    """Formats the time of day of a moment in ms since 1970, with milliseconds."""
    return f"{_at(ms):%H:%M:%S}.{ms % 1_000:03d}"


def day(ms: int) -> str:
    """Formats the date of a moment in ms since 1970."""
    return f"{_at(ms):%Y-%m-%d}"


def duration(seconds: float) -> str:
    """Formats a duration in seconds, in the units that fit its size.

    >>> [duration(each) for each in (0, 0.00042, 0.091, 12.34, 754, 7_512, 400_000)]
    ['0', '0.4 ms', '91 ms', '12.3 s', '12 min 34 s', '2 h 5 min', '4 d 15 h']

    """
    if seconds < 1:
        ms = seconds * 1_000
        return "0" if not seconds else f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def _words(ms: int, step: int) -> str:
    if step >= _DAY:
        return day(ms)
    if step >= _MINUTE:
        return f"{_at(ms):%H:%M}" if ms % _DAY else day(ms)
    return f"{_at(ms):%H:%M:%S}" if step >= _SECOND else clock(ms)


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1_000, UTC)
