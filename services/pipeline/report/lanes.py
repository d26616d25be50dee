"""Draws a timeline: a lane with coloured segments for each thing, all on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.report.markup import Html, joined, tag
from services.pipeline.report.times import Axis, clock, duration, moment

__all__ = ["LEFT", "RIGHT", "WIDTH", "LaneSegment", "TimelineLane", "TimelineMark", "axis_marks", "lanes", "picture"]

WIDTH: Final = 1160.0
LEFT: Final = 190.0
RIGHT: Final = WIDTH - 10
LANE: Final = 18.0
GAP: Final = 5.0
FOOT: Final = 24.0
FOOT_LINE: Final = 3.0
LOW: Final = 0.6
"""Below this share of the lane's height a segment's text is drawn in the colour for the background."""
LETTER: Final = 6.4
"""Approximate width of a letter in a segment."""
LABEL_LETTERS: Final = 28
SEEN: Final = 2.0
"""Minimum width of a segment that must be visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSegment:
    """A segment of a lane: `look` is its CSS class, `share` is its height as a share of the lane's.

    A `grave` segment is drawn on top and never narrower than SEEN; `foot` is the CSS class of a line at its bottom.
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


def lanes(rows: Sequence[TimelineLane], axis: Axis, title: str, marks: Sequence[TimelineMark] = ()) -> Html:
    """Draws a timeline of lanes as an SVG; `title` is also the text for screen readers."""
    height = len(rows) * (LANE + GAP)
    drawn = [axis_marks(axis, height)]
    drawn += [_lane(row, axis, number * (LANE + GAP)) for number, row in enumerate(rows)]
    for mark in marks:
        line = {"x1": axis.x(mark.ms), "x2": axis.x(mark.ms), "y1": 0, "y2": height}
        drawn.append(tag("line", tag("title", f"{clock(mark.ms)} {mark.title}"), class_=f"mark {mark.look}", **line))
    return picture(height + FOOT, title, *drawn)


def picture(height: float, title: str, *drawn: Html) -> Html:
    """Builds an SVG as wide as the page."""
    head = tag("title", title)
    return tag("svg", head, *drawn, viewBox=f"0 0 {WIDTH:.0f} {height:.0f}", role="img", aria_label=title)


def axis_marks(axis: Axis, height: float) -> Html:
    """Draws a grid line for each round moment, with its time below."""
    drawn = []
    for x, words in axis.ticks():
        drawn.append(tag("line", class_="grid", x1=x, x2=x, y1=0, y2=height + 4))
        anchor = "end" if x > axis.right - 24 else "middle"
        drawn.append(tag("text", words, class_="tick", x=x, y=height + 16, text_anchor=anchor))
    return joined(drawn)


def _lane(row: TimelineLane, axis: Axis, top: float) -> Html:
    label = row.label if len(row.label) <= LABEL_LETTERS else f"{row.label[: LABEL_LETTERS - 9]}…{row.label[-8:]}"
    name = tag("text", tag("title", row.label), label, class_="label", x=LEFT - 10, y=top + LANE - 5)
    ground = tag("rect", class_="ground", x=axis.left, y=top, width=axis.right - axis.left, height=LANE)
    drawn = [name, ground]
    if row.first_shown_ms is not None:
        tooltip = tag("title", f"{row.label}: earlier changes are not drawn")
        wide = axis.x(row.first_shown_ms) - axis.left
        drawn.append(tag("rect", tooltip, class_="omitted", x=axis.left, y=top, width=wide, height=LANE))
    drawn += [_segment(each, axis, top) for each in sorted(row.segments, key=lambda each: each.grave)]
    return joined(drawn)


def _segment(segment: LaneSegment, axis: Axis, top: float) -> Html:
    left, right = axis.x(segment.begin_ms), axis.x(segment.end_ms)
    wide = max(right - left, SEEN if segment.grave else 0.5)
    tall = max(LANE * segment.share, 3.0)
    lasted = duration((segment.end_ms - segment.begin_ms) / 1_000)
    title = tag("title", f"{segment.title} · {moment(segment.begin_ms)}, for {lasted}")
    drawn = [tag("rect", title, class_=segment.look, x=left, y=top + LANE - tall, width=wide, height=tall)]
    if segment.foot is not None:
        drawn.append(tag("rect", class_=segment.foot, x=left, y=top + LANE - FOOT_LINE, width=wide, height=FOOT_LINE))
    if segment.words and len(segment.words) * LETTER + 6 <= wide:
        look = "in" if segment.share > LOW else "over"
        drawn.append(tag("text", segment.words, class_=look, x=left + 4, y=top + LANE - 5))
    return joined(drawn)
