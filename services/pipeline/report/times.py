"""Formats times and durations for the report, always in UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

__all__ = ["clock", "day", "duration", "moment", "set_back"]


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

    >>> [duration(each) for each in (0, 0.00042, 0.091, 12.34, 60.42, 754, 7_512, 400_000)]
    ['0', '0.4 ms', '91 ms', '12.3 s', '1 min 0.4 s', '12 min 34 s', '2 h 5 min', '4 d 15 h']

    """
    if seconds < 1:
        ms = seconds * 1_000
        return "0" if not seconds else f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 600:
        minutes, rest = divmod(round(seconds * 10), 600)
        return f"{minutes} min {rest / 10:g} s"
    whole = round(seconds)
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def set_back(times: Iterable[int]) -> int:
    """Returns the most by which a time, in ms, is before the one before it; 0 if none is.

    >>> set_back((1_000, 4_000, 3_500, 2_000))
    1500

    """
    return max((max(before - after, 0) for before, after in pairwise(times)), default=0)


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1_000, UTC)
