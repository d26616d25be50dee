"""The form in which each table's words are given, and those words that all have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from quorate.sql.nouns import Value

Values = Mapping[str, Value]
"""A row by its columns. Of one that has changed, those may be missing that are as they were."""

NOT_SET: Final = "not set"
DEFAULT: Final = "(default)"
AGAIN: Final = "is written again, unchanged"


class Wording(NamedTuple):
    """The words of a table: of a row, of what it is at first, of what becomes of it, and of its end."""

    subject: Callable[[Values], str]
    first: Callable[[Values], str]
    changed: Callable[[Values, Values], str]
    gone: Callable[[Values], str]


def is_removed(_: Values) -> str:
    """Says so of any row."""
    return "is removed"
