"""Timelines: a lane with coloured segments for each thing, all on one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from services.pipeline.report.parts import Plot, clean
from services.pipeline.report.times import clock, duration, moment

__all__ = ["LaneSegment", "TimelineLane", "TimelineMark", "lanes", "leader_look", "leader_looks"]

_Datum: TypeAlias = dict[str, object]
FOOT_SHARE: Final = 0.17
_OMITTED: Final = "omitted"
"""The look of the part of a lane whose changes are not drawn; the segment itself says so."""


class LaneSegment(NamedTuple):
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


class TimelineLane(NamedTuple):
    """A lane with its latest segments.

    If earlier ones are left out, `first_shown_ms` is where the first drawn one begins (ms since 1970), else None.
    """

    label: str
    segments: Sequence[LaneSegment]
    first_shown_ms: int | None = None


class TimelineMark(NamedTuple):
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
    assert set(used) <= {_OMITTED, *(look for look, _ in looks)}, (used, looks)  # else the legend lacks a colour
    datasets: dict[str, list[_Datum]] = {
        "lanes": [{"lane": number, "label": clean(row.label)} for number, row in enumerate(rows)],
        "segments": segments,
        "marks": [
            {"begin": mark.ms, "look": mark.look, "title": clean(f"{clock(mark.ms)} {mark.title}")} for mark in marks
        ],
    }
    data = {"kind": "lanes", "title": title, "domain": period, "looks": used, "datasets": datasets}
    return Plot(title=title, data=data, group=group, looks=[each for each in looks if each[0] in used])


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


def _lane(row: TimelineLane, number: int, begin_ms: int) -> list[_Datum]:
    made: list[_Datum] = []
    if row.first_shown_ms is not None:
        title = clean(f"{row.label}: earlier changes are not drawn")
        made.append(_datum(number, begin_ms, row.first_shown_ms, _OMITTED, title=title))
    for each in sorted(row.segments, key=lambda each: each.grave):
        lasted = duration((each.end_ms - each.begin_ms) / 1_000)
        title = clean(f"{each.title} · {moment(each.begin_ms)}, for {lasted}")
        more: _Datum = {"words": clean(each.words)} if each.words else {}
        if each.grave:
            more["grave"] = True
        made.append(_datum(number, each.begin_ms, each.end_ms, each.look, each.share, title=title, **more))
        if each.foot is not None:
            made.append(_datum(number, each.begin_ms, each.end_ms, each.foot, FOOT_SHARE, title=title))
    return made


def _datum(
    lane: int, begin_ms: int, end_ms: int, look: str, share: float = 1.0, /, *, title: str, **more: object
) -> _Datum:
    return {
        "lane": lane,
        "begin": begin_ms,
        "end": end_ms,
        "look": look,
        "share": round(share, 3),
        "title": title,
        **more,
    }
