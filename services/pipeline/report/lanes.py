"""Timelines: a lane with coloured segments for each thing, all on one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.report.parts import Plot, clean
from services.pipeline.report.specs import LABELS, SEEN, Spec, clipped, colour, specification, x_time
from services.pipeline.report.times import clock, duration, moment

__all__ = ["LaneSegment", "TimelineLane", "TimelineMark", "lanes", "leader_look", "leader_looks"]

WIDE_LANE: Final = 23
NARROW_LANE: Final = 38
"""Heights of a lane in px; on a narrow page its label is above it."""
FOOT_SHARE: Final = 0.17
LOW: Final = 0.6
"""Below this share of the lane's height a segment's text is drawn in the colour for the background."""
LETTER: Final = 6.6
"""Approximate width of a letter in a segment, in px."""
_BASE: Final = "datum.lane + (narrow ? 0.97 : 0.9)"
_TALL: Final = "(narrow ? 0.47 : 0.8)"
_BEGIN: Final = "max(+datum.begin, +domain[0])"
_EDGE: Final = "+datum.begin === +datum.end ? 4 : 1.5"
"""Half of an edge may be where the plot ends."""
_WIDE: Final = "scale('x', min(+datum.end, +domain[1])) - scale('x', max(+datum.begin, +domain[0]))"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSegment:
    """A segment of a lane: `look` is its colour's name, `share` is its height as a share of the lane's.

    A `grave` segment is drawn on top and is visible however short it is; `foot` is the look of a line at its bottom.
    """

    begin_ms: int
    end_ms: int
    look: str
    title: str
    words: str = ""
    share: float = 1.0
    foot: str | None = None
    grave: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineLane:
    """A lane with its latest segments.

    If earlier ones are left out, `first_shown_ms` is where the first drawn one begins (ms since 1970), else None.
    """

    label: str
    segments: Sequence[LaneSegment]
    first_shown_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineMark:
    """A moment that is marked by a line through all lanes."""

    ms: int
    look: str
    title: str


def lanes(
    rows: Sequence[TimelineLane],
    period: tuple[int, int],
    title: str,
    looks: Sequence[tuple[str, str]],
    *,
    group: str,
    marks: Sequence[TimelineMark] = (),
) -> Plot:
    """Makes a timeline over a period in ms since 1970; `looks` are those in it with their meanings, for the legend."""
    segments = [datum for number, row in enumerate(rows) for datum in _lane(row, number, period[0])]
    used = sorted({str(datum["look"]) for datum in segments} | {mark.look for mark in marks})
    datasets: dict[str, list[Spec]] = {
        "lanes": [{"lane": number, "label": clean(row.label)} for number, row in enumerate(rows)],
        "segments": segments,
        "marks": [
            {"begin": mark.ms, "look": mark.look, "title": clean(f"{clock(mark.ms)} {mark.title}")} for mark in marks
        ],
    }
    layers = [_margin(), _ground(len(rows)), _boxes(used), _words(), _fences(used), _labels()]
    heights = (len(rows) * WIDE_LANE, len(rows) * NARROW_LANE)
    spec = specification(title, period, datasets, layers, heights=heights)
    shown = [(look, meaning) for look, meaning in looks if look in used]
    return Plot(title=title, spec=spec, group=group, looks=shown)


def leader_look(node_id: int) -> str:
    """Returns the name of a node's colour; nodes share eight."""
    return f"n{node_id % 8}"


def leader_looks(node_ids: Iterable[int], what: str) -> list[tuple[str, str]]:
    """Returns each colour of these nodes with the nodes that have it.

    >>> leader_looks([1, 2, 9], "node")
    [('n1', 'node 1, 9'), ('n2', 'node 2')]

    """
    found: dict[str, list[int]] = {}
    for node_id in node_ids:
        found.setdefault(leader_look(node_id), []).append(node_id)
    return [(look, f"{what} {', '.join(map(str, ids))}") for look, ids in found.items()]


def _lane(row: TimelineLane, number: int, begin_ms: int) -> list[Spec]:
    made: list[Spec] = []
    if row.first_shown_ms is not None:
        title = clean(f"{row.label}: earlier changes are not drawn")
        made.append(_datum(number, begin_ms, row.first_shown_ms, "omitted", title=title))
    for each in sorted(row.segments, key=lambda each: each.grave):
        lasted = duration((each.end_ms - each.begin_ms) / 1_000)
        title = clean(f"{each.title} · {moment(each.begin_ms)}, for {lasted}")
        more: Spec = {"words": clean(each.words)} if each.words else {}
        if each.grave:
            more["grave"] = True
        made.append(_datum(number, each.begin_ms, each.end_ms, each.look, each.share, title=title, **more))
        if each.foot is not None:
            made.append(_datum(number, each.begin_ms, each.end_ms, each.foot, FOOT_SHARE, title=title))
    return made


def _datum(
    lane: int, begin_ms: int, end_ms: int, look: str, share: float = 1.0, /, *, title: str, **more: object
) -> Spec:
    return {
        "lane": lane,
        "begin": begin_ms,
        "end": end_ms,
        "look": look,
        "share": round(share, 3),
        "title": title,
        **more,
    }


def _y(field: str, count: int) -> Spec:
    scale = {"domain": [0, count], "nice": False, "zero": False, "reverse": True}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": None}


def _margin() -> Spec:
    """Takes the space for the labels: an invisible rule at its left end."""
    return {
        "data": {"values": [{}]},
        "mark": {"type": "rule", "opacity": 0, "aria": False},
        "encoding": {"x": {"value": {"expr": f"narrow ? 0 : -{LABELS}"}}},
    }


def _ground(count: int) -> Spec:
    return {
        "data": {"name": "lanes"},
        "transform": [
            {"calculate": _BASE, "as": "base"},
            {"calculate": f"datum.base - {_TALL}", "as": "top"},
        ],
        "mark": {"type": "rect", "color": "var(--ground)", "aria": False},
        "encoding": {"x": {"value": 0}, "x2": {"value": "width"}, "y": _y("top", count), "y2": {"field": "base"}},
    }


def _boxes(looks: Sequence[str]) -> Spec:
    least = "max(datum.share, 0.17)"
    return {
        "data": {"name": "segments"},
        "transform": [
            {"filter": SEEN},
            {"calculate": _BASE, "as": "base"},
            {"calculate": f"datum.base - {_TALL} * {least}", "as": "top"},
        ],
        "mark": clipped("rect", strokeDash={"expr": "datum.look === 'silent' ? [3, 2] : [1, 0]"}),
        "encoding": {
            "x": x_time("begin"),
            "x2": {"field": "end"},
            "y": {"field": "top", "type": "quantitative"},
            "y2": {"field": "base"},
            "color": colour(looks),
            "stroke": {
                "condition": {"test": "datum.look === 'silent'", "value": "var(--grave)"},
                **colour(looks),
            },
            "strokeWidth": {"condition": {"test": "datum.grave", "value": {"expr": _EDGE}}, "value": 0},
            "tooltip": {"field": "title", "type": "nominal"},
            "description": {"field": "title", "type": "nominal"},
        },
    }


def _words() -> Spec:
    """Writes a segment's words where they fit, which they do more often the closer one looks."""
    return {
        "data": {"name": "segments"},
        "transform": [
            {"filter": f"datum.words && {SEEN}"},
            {"calculate": _BEGIN, "as": "left"},
            {"calculate": f"{_BASE} - {_TALL} * (datum.share > {LOW} ? datum.share / 2 : 0.68)", "as": "middle"},
        ],
        "mark": clipped("text", align="left", baseline="middle", dx=4, fontSize=11, tooltip=None, aria=False),
        "encoding": {
            "x": x_time("left"),
            "y": {"field": "middle", "type": "quantitative"},
            "color": {
                "condition": {"test": f"datum.share > {LOW}", "value": "var(--in)"},
                "value": "var(--ink)",
            },
            "text": {
                "condition": {"test": f"{_WIDE} > {LETTER} * length(datum.words) + 7", "field": "words"},
                "value": "",
            },
        },
    }


def _fences(looks: Sequence[str]) -> Spec:
    return {
        "data": {"name": "marks"},
        "transform": [{"filter": SEEN}],
        "mark": clipped("rule", strokeDash=[2, 3], strokeWidth=1.5, opacity=0.8),
        "encoding": {
            "x": x_time("begin"),
            "color": colour(looks),
            "tooltip": {"field": "title", "type": "nominal"},
            "description": {"field": "title", "type": "nominal"},
        },
    }


def _labels() -> Spec:
    """Writes the lanes' names: to the left, on a narrow page above."""
    return {
        "data": {"name": "lanes"},
        "transform": [{"calculate": "datum.lane + (narrow ? 0.28 : 0.53)", "as": "middle"}],
        "mark": {
            "type": "text",
            "baseline": "middle",
            "fontSize": 12,
            "align": {"expr": "narrow ? 'left' : 'right'"},
            "dx": {"expr": "narrow ? 0 : -10"},
            "limit": {"expr": f"narrow ? width : {LABELS - 14}"},
            "color": "var(--ink)",
        },
        "encoding": {
            "x": {"value": 0},
            "y": {"field": "middle", "type": "quantitative"},
            "text": {"field": "label", "type": "nominal"},
            "tooltip": {"field": "label", "type": "nominal"},
        },
    }
