"""A picture of what was so from when to when: a lane for each thing, all on one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.report.markup import Html, joined, tag
from services.pipeline.report.times import Axis, clock, duration, moment

__all__ = ["LEFT", "RIGHT", "WIDTH", "Lane", "Mark", "Segment", "axis_marks", "lanes", "picture"]

WIDTH: Final = 1160.0
LEFT: Final = 190.0
RIGHT: Final = WIDTH - 10
LANE: Final = 18.0
GAP: Final = 5.0
FOOT: Final = 24.0
FOOT_LINE: Final = 3.0
LOW: Final = 0.6
"""A segment lower than this has its words on the ground, not on its colour."""
LETTER: Final = 6.4
"""About the width of a letter in a segment."""
LABEL_LETTERS: Final = 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of one lane. `look` is its class in the style sheet, `share` of the lane's height it fills.

    What is `grave` is drawn last and never too narrow to be seen; `foot` is the class of a line below.
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
class Lane:
    """One thing and its stretches, of which the latest are here; `untold_ms` is until when they are not."""

    label: str
    segments: Sequence[Segment]
    untold_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment, drawn through all lanes."""

    ms: int
    look: str
    title: str


def lanes(rows: Sequence[Lane], axis: Axis, title: str, marks: Sequence[Mark] = ()) -> Html:
    """The picture; `title` is what it shows, for those who cannot see it."""
    height = len(rows) * (LANE + GAP)
    drawn = [axis_marks(axis, height)]
    drawn += [_lane(row, axis, number * (LANE + GAP)) for number, row in enumerate(rows)]
    for mark in marks:
        line = {"x1": axis.x(mark.ms), "x2": axis.x(mark.ms), "y1": 0, "y2": height}
        drawn.append(tag("line", tag("title", f"{clock(mark.ms)} {mark.title}"), class_=f"mark {mark.look}", **line))
    return picture(height + FOOT, title, *drawn)


def picture(height: float, title: str, *drawn: Html) -> Html:
    """An SVG as wide as the page."""
    head = tag("title", title)
    return tag("svg", head, *drawn, viewBox=f"0 0 {WIDTH:.0f} {height:.0f}", role="img", aria_label=title)


def axis_marks(axis: Axis, height: float) -> Html:
    """A thin line for each round moment, and its time below."""
    drawn = []
    for x, words in axis.ticks():
        drawn.append(tag("line", class_="grid", x1=x, x2=x, y1=0, y2=height + 4))
        anchor = "end" if x > axis.right - 24 else "middle"
        drawn.append(tag("text", words, class_="tick", x=x, y=height + 16, text_anchor=anchor))
    return joined(drawn)


def _lane(row: Lane, axis: Axis, top: float) -> Html:
    label = row.label if len(row.label) <= LABEL_LETTERS else f"{row.label[: LABEL_LETTERS - 9]}…{row.label[-8:]}"
    name = tag("text", tag("title", row.label), label, class_="label", x=LEFT - 10, y=top + LANE - 5)
    ground = tag("rect", class_="ground", x=axis.left, y=top, width=axis.right - axis.left, height=LANE)
    drawn = [name, ground]
    if row.untold_ms is not None:
        told = tag("title", f"{row.label}: earlier changes are not drawn")
        wide = axis.x(row.untold_ms) - axis.left
        drawn.append(tag("rect", told, class_="untold", x=axis.left, y=top, width=wide, height=LANE))
    drawn += [_segment(each, axis, top) for each in sorted(row.segments, key=lambda each: each.grave)]
    return joined(drawn)


def _segment(segment: Segment, axis: Axis, top: float) -> Html:
    left, right = axis.x(segment.begin_ms), axis.x(segment.end_ms)
    wide = max(right - left, 2.0 if segment.grave else 0.5)
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
