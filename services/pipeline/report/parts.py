"""The parts of which the page consists, as data; a template makes the HTML of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

__all__ = [
    "Bar",
    "Cell",
    "Folded",
    "Heading",
    "Note",
    "Part",
    "Plot",
    "Row",
    "Section",
    "Table",
    "Tally",
    "Toolbar",
    "Words",
    "clean",
    "code",
]

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, including those that change text direction; names in a log may contain any."""


def clean(text: str) -> str:
    """Replaces characters that are not shown, or that change how others are shown.

    >>> clean("a\\u202eb\\n")
    'a�b�'

    """
    return _UNPRINTABLE.sub("�", text)


@dataclass(frozen=True, slots=True)
class Words:
    """A text: `look` is its CSS class, `element` its HTML element, `subject` the first words, which are bold."""

    text: str
    look: str = ""
    element: str = "span"
    subject: str = ""


def code(text: str) -> Words:
    """Returns a text that is a name: an id, a topic, a broker."""
    return Words(text, element="code")


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of `share` (0 to 1) of the column's longest, and the words beside it."""

    share: float
    words: str
    look: str


Cell: TypeAlias = str | int | Words | Bar | None


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its cells, and its CSS class."""

    cells: Sequence[Cell]
    look: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: for each column the heading and CSS class; `only` is the label of a checkbox that hides plain rows."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Row]
    only: str = ""
    kind: ClassVar = "table"


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph; `look` is its CSS class."""

    text: str
    look: str = ""
    kind: ClassVar = "note"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: `code` is a name in it, `note` its second, quiet half, `level` is 2 or 3."""

    text: str
    note: str = ""
    code: str = ""
    level: int = 3
    kind: ClassVar = "heading"


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts in a line: each a number with what was counted."""

    counts: Sequence[tuple[int, str]]
    kind: ClassVar = "tally"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot's data, and the looks in it with their meanings; each of them can be hidden.

    `templates/plots.js` draws it. Plots of one `group` show the same part of the x axis, as its toolbar says.
    """

    title: str
    data: Mapping[str, object]
    group: str
    looks: Sequence[tuple[str, str]]
    kind: ClassVar = "plot"


@dataclass(frozen=True, slots=True)
class Toolbar:
    """The buttons that zoom the plots of a group, and what part of the x axis is shown."""

    group: str
    kind: ClassVar = "toolbar"


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that are shown when a reader opens them: `text` is what is to be clicked, and says how much there is."""

    text: str
    parts: Sequence[Part]
    kind: ClassVar = "folded"


Part: TypeAlias = "Table | Note | Heading | Tally | Plot | Toolbar | Folded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section: its anchor, its name in the navigation, and its cards, each a sequence of parts."""

    anchor: str
    name: str
    cards: Sequence[Sequence[Part]]
