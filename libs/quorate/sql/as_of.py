"""A question about the state at an offset, as one of a database that keeps the past: its tables and views are shadowed.

Each table of the query is what `X_history` had at the offset, and each view stands on these.
"""

from __future__ import annotations

import re
from typing import Final

from quorate.nouns import Offset
from quorate.sql.nouns import NOUNS, column_names
from quorate.sql.views import VIEWS

__all__ = ["query_as_of"]

BLANK: Final = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)"
"""The text that SQLite passes over between two words."""
EXPLAIN: Final = re.compile(rf"{BLANK}*EXPLAIN{BLANK}+(?:QUERY{BLANK}+PLAN{BLANK}+)?", re.IGNORECASE | re.DOTALL)
WITH: Final = re.compile(rf"{BLANK}*WITH{BLANK}+(?:RECURSIVE{BLANK}+)?", re.IGNORECASE | re.DOTALL)


def query_as_of(query: str, offset: Offset) -> str:
    """Returns the query with a WITH clause before it, which makes it one about the state at an offset.

    Each table and view has then the rows of the state of all records below the offset. For SQLite; nothing is checked.

    >>> query_as_of("SELECT name FROM topics", 7).endswith("SELECT name FROM topics")
    True
    """
    held = f"valid_from_offset < {offset} AND (valid_to_offset IS NULL OR valid_to_offset >= {offset})"
    tables = (
        f"{name} AS (SELECT {', '.join(column_names(name))} FROM main.{name}_history WHERE {held})" for name in NOUNS
    )
    views = (f"{name} AS ({view.query})" for name, view in VIEWS.items())
    shadows = ", ".join([*tables, *views])
    explained = "" if (found := EXPLAIN.match(query)) is None else found[0]
    query = query[len(explained) :]
    if (own := WITH.match(query)) is not None:
        return f"{explained}WITH RECURSIVE {shadows}, {query[own.end() :]}"
    return f"{explained}WITH {shadows} {query}"
