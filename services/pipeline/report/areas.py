"""Counts over an axis: step charts of how many there were over time, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from services.pipeline.report.parts import Plot
from services.pipeline.report.times import duration, moment

__all__ = ["Level", "LogBin", "histogram", "levels"]

_WRITES: Final = "serving"
"""The look of a histogram's bins."""


class Level(NamedTuple):
    """The maximum of each count in an interval; times in ms since 1970."""

    begin_ms: int
    end_ms: int
    counts: Sequence[int]


class LogBin(NamedTuple):
    """A bin of a histogram: how many writes took so long, and its bounds in seconds."""

    writes: int
    begin: float
    end: float


def levels(
    rows: Sequence[Level], looks: Sequence[tuple[str, str]], period: tuple[int, int], title: str, *, group: str
) -> Plot:
    """Makes a step chart over a period in ms since 1970.

    `looks` has a CSS class and its meaning for each count of a row, in their order; the first is the area at the back.
    """
    assert all(len(row.counts) == len(looks) for row in rows), looks
    data = [
        {
            "begin": row.begin_ms,
            "end": row.end_ms,
            "count": row.counts[place],
            "look": look,
            "title": f"{row.counts[place]:,}: {meaning}, at most, from {moment(row.begin_ms)} on",
        }
        for place, (look, meaning) in enumerate(looks)
        for row in rows
        if row.counts[place]
    ]
    return _plot("levels", title, period, [look for look, _ in looks], data, group=group, looks=looks)


def histogram(bins: Sequence[LogBin], title: str, *, group: str) -> Plot:
    """Makes a histogram of at least one bin, in ascending order, over a logarithmic axis of seconds."""
    data = [
        {
            "begin": begin,
            "end": end,
            "count": count,
            "look": _WRITES,
            "title": f"{count:,} from {duration(begin)} to {duration(end)}",
        }
        for count, begin, end in bins
        if count
    ]
    return _plot("histogram", title, (bins[0].begin, bins[-1].end), [_WRITES], data, group=group)


def _plot(
    kind: str,
    title: str,
    domain: tuple[float, float],
    drawn: Sequence[str],
    rows: Sequence[dict[str, object]],
    *,
    group: str,
    looks: Sequence[tuple[str, str]] = (),
) -> Plot:
    data = {"kind": kind, "title": title, "domain": domain, "looks": drawn, "datasets": {"areas": rows}}
    return Plot(title=title, data=data, group=group, looks=looks)
