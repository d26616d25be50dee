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
    """The functions that word the changes of a table's rows.

    `subject` names a row; the others say what is said of it: `first` once it is created, `changed` of what it was and
    is, `gone` once it is deleted, of what it was.
    """

    subject: Callable[[Values], str]
    first: Callable[[Values], str]
    changed: Callable[[Values, Values], str]
    gone: Callable[[Values], str]


def is_removed(_: Values) -> str:
    """Returns "is removed", of any row."""
    return "is removed"
