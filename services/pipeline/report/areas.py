"""Counts over an axis: step charts of how many there were over time, and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.report.parts import Plot
from services.pipeline.report.specs import LABELS, SEEN, Spec, clipped, colour, specification, x_time
from services.pipeline.report.times import duration, moment

__all__ = ["Level", "LogBin", "histogram", "levels"]

_HEIGHTS: Final = (140, 150)
_SECONDS: Final = (
    "datum.value < 0.001 ? round(datum.value * 1e6) + ' µs' : "
    "datum.value < 1 ? round(datum.value * 1e3) + ' ms' : datum.value + ' s'"
)
"""Expression: a moment of the logarithmic axis, in the unit that fits its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The maximum of each count in an interval; times in ms since 1970."""

    begin_ms: int
    end_ms: int
    counts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBin:
    """A bin of a histogram: its count, and its bounds in seconds."""

    count: int
    begin: float
    end: float


def levels(
    rows: Sequence[Level], looks: Sequence[tuple[str, str]], period: tuple[int, int], title: str, *, group: str
) -> Plot:
    """Makes a step chart of counts; the first of the `looks` is the area at the back."""
    data: list[Spec] = [
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
    spec = specification(title, period, {"areas": data}, [_layer(x_time("begin"), looks)], heights=_HEIGHTS)
    return Plot(title=title, spec=spec, group=group, looks=looks)


def histogram(bins: Sequence[LogBin], looks: Sequence[tuple[str, str]], title: str, *, group: str) -> Plot:
    """Makes a histogram over a logarithmic axis of seconds; `looks` is its one look with its meaning."""
    data: list[Spec] = [
        {
            "begin": each.begin,
            "end": each.end,
            "count": each.count,
            "look": looks[0][0],
            "title": f"{each.count:,} from {duration(each.begin)} to {duration(each.end)}",
        }
        for each in bins
        if each.count
    ]
    domain = (bins[0].begin, bins[-1].end)
    spec = specification(title, domain, {"areas": data}, [_layer(_x_seconds(), looks)], heights=_HEIGHTS)
    return Plot(title=title, spec=spec, group=group, looks=())


def _x_seconds() -> Spec:
    axis = {"title": None, "labelExpr": _SECONDS, "tickCount": {"expr": "max(2, floor(width / 110))"}}
    scale = {"type": "log", "domain": {"expr": "domain"}, "nice": False}
    return {"field": "begin", "type": "quantitative", "scale": scale, "axis": axis}


def _layer(x: Spec, looks: Sequence[tuple[str, str]]) -> Spec:
    extent = {"expr": f"narrow ? 34 : {LABELS}"}
    axis = {"title": None, "tickCount": 3, "tickMinStep": 1, "format": ",d", "minExtent": extent, "maxExtent": extent}
    return {
        "data": {"name": "areas"},
        "transform": [{"filter": SEEN}, {"calculate": "0", "as": "zero"}],
        "mark": clipped("rect"),
        "encoding": {
            "x": x,
            "x2": {"field": "end"},
            "y": {"field": "count", "type": "quantitative", "axis": axis},
            "y2": {"field": "zero"},
            "color": colour(look for look, _ in looks),
            "tooltip": {"field": "title", "type": "nominal"},
            "description": {"field": "title", "type": "nominal"},
        },
    }
