"""Makes tables of rows; cells may be bars, so that numbers can be compared at a glance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.pipeline.report.parts import Bar, Cell, Row, Table, Words

__all__ = ["Column", "bar", "count", "table"]

T = TypeVar("T")
LEAST = 0.015
"""The shortest bar that is visible, as a share of the longest."""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A table column: its heading, the function that makes a row's cell, and its CSS class."""

    heading: str
    cell: Callable[[T], Cell]
    look: str = "text"


def _plain(_: object) -> str:
    """Gives a row no CSS class."""
    return ""


def table(
    rows: Sequence[T],
    columns: Sequence[Column[T]],
    row_look: Callable[[T], str] = _plain,
    *,
    only: str = "",
) -> Table:
    """Makes a table; `row_look` returns a row's CSS class, `only` labels a checkbox that hides rows without one."""
    made = [Row([column.cell(row) for column in columns], row_look(row)) for row in rows]
    return Table([(column.heading, column.look) for column in columns], made, only)


def count(number: int) -> Words:
    """Returns a count as the text of a cell; 0 has the CSS class `zero`, which is not shown on a phone."""
    return Words(f"{number:,}", "" if number else "zero")


def bar(value: float, most: float, words: str, look: str) -> Bar:
    """Makes a bar whose length is `value` relative to `most`, with `words` beside it."""
    return Bar(max(value / most, LEAST) if value and most else 0.0, words, look)
