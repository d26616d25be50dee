"""Draws a step chart: how many of something there were over time, as areas in front of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.report.lanes import LEFT, RIGHT, axis_marks, picture
from services.pipeline.report.markup import Html, joined, tag
from services.pipeline.report.times import Axis

__all__ = ["FOOT", "HEAD", "TALL", "Level", "heights", "levels", "rounded"]

TALL: Final = 120.0
FOOT: Final = 24.0
HEAD: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The maximum of each count in an interval; times in ms since 1970."""

    begin_ms: int
    end_ms: int
    counts: Sequence[int]


def levels(rows: Sequence[Level], looks: Sequence[str], axis: Axis, title: str) -> Html:
    """Draws a step chart of counts; the first of the `looks` (CSS classes) is the area at the back."""
    top = max((count for row in rows for count in row.counts), default=0)
    high = rounded(top)
    drawn = [axis_marks(axis, HEAD + TALL), *heights(high)]
    for place, look in enumerate(looks):
        drawn.append(tag("path", class_=look, d=_area([(row, row.counts[place]) for row in rows], axis, high)))
    return picture(HEAD + TALL + FOOT, title, *drawn)


def _area(rows: Sequence[tuple[Level, int]], axis: Axis, top: int) -> str:
    """Builds the SVG path of an area, one rectangle for each interval."""
    parts: list[str] = []
    for row, count in rows:
        if not count:
            continue
        left = axis.x(row.begin_ms)
        wide = max(axis.x(row.end_ms) - left, 1.5)
        tall = TALL * count / top
        parts.append(f"M{left:.1f} {HEAD + TALL:.1f}v{-tall:.1f}h{wide:.1f}v{tall:.1f}z")
    return "".join(parts)


def heights(top: int) -> list[Html]:
    """Draws grid lines with their numbers at zero, half of `top`, and `top`."""
    marks = sorted({0, top // 2, top})
    lines = []
    for count in marks:
        y = HEAD + TALL * (1 - count / top)
        words = tag("text", f"{count:,}", class_="label", x=LEFT - 10, y=y + 4)
        lines.append(joined((tag("line", class_="grid", x1=LEFT, x2=RIGHT, y1=y, y2=y), words)))
    return lines


def rounded(most: int) -> int:
    """Returns the smallest even round number that is at least `most`.

    >>> [rounded(each) for each in (0, 1, 3, 17, 940)]
    [2, 2, 4, 20, 1000]

    """
    size = 1
    while True:
        for step in (2, 4, 6, 8, 10):
            if step * size >= most:
                return step * size
        size *= 10
