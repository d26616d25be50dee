"""Draws a histogram: one bar for each bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.pipeline.report.lanes import LEFT, RIGHT, picture
from services.pipeline.report.levels import FOOT, HEAD, TALL, heights, rounded
from services.pipeline.report.markup import Html, tag

__all__ = ["Bar", "histogram"]

WIDE_MAX: Final = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bin of the histogram: its count, its bounds as text, and the label at its left edge."""

    count: int
    begin: str
    end: str
    words: str


def histogram(bars: Sequence[Bar], title: str) -> Html:
    """Draws a histogram as an SVG."""
    top = rounded(max((bar.count for bar in bars), default=0))
    wide = min((RIGHT - LEFT) / max(len(bars), 1), WIDE_MAX)
    drawn = heights(top)
    for number, bar in enumerate(bars):
        x, tall = LEFT + number * wide, TALL * bar.count / top
        if bar.count:
            tooltip = tag("title", f"{bar.count:,} from {bar.begin} to {bar.end}")
            drawn.append(tag("rect", tooltip, class_="serving", x=x, y=HEAD + TALL - tall, width=wide - 2, height=tall))
        if bar.words:
            drawn.append(tag("text", bar.words, class_="tick", x=x, y=HEAD + TALL + 16, text_anchor="middle"))
    return picture(HEAD + TALL + FOOT, title, *drawn)
