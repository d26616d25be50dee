"""HTML tables whose cells may contain bars, so that numbers can be compared at a glance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.pipeline.report.markup import Child, Html, tag

__all__ = ["Column", "bar", "table"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A table column: its heading, the function that makes a row's cell, and its CSS class."""

    heading: str
    cell: Callable[[T], Child]
    look: str = "text"


def _plain(_: object) -> None:
    """Gives a row no CSS class."""


def table(
    rows: Sequence[T], columns: Sequence[Column[T]], look: str = "", row_look: Callable[[T], str | None] = _plain
) -> Html:
    """Builds a table with a sticky heading; `row_look` returns the CSS class of a row."""
    head = tag("tr", *(tag("th", column.heading, class_=column.look, scope="col") for column in columns))
    body = [
        tag("tr", *(tag("td", column.cell(row), class_=column.look) for column in columns), class_=row_look(row))
        for row in rows
    ]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_=f"wide {look}".strip())


def bar(value: float, most: float, words: str, look: str) -> Html:
    """Builds a bar whose length is `value` relative to `most`, with `words` beside it."""
    share = 100 * value / most if most else 0.0
    drawn = tag("i", class_=look, style=f"width:{max(share, 1.5):.1f}%") if value else None
    return tag("span", tag("b", drawn), words, class_="bar")
