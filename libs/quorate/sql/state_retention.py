"""Drops the oldest past of a state database, and notes from which offset on the rest is whole."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import sqlalchemy as sa

from quorate.nouns import Offset
from quorate.sql.state_tables import GAPS, NOUN_TABLES, TO

__all__ = ["drop_past", "note_beginning"]

ROWS_AT_ONCE: Final = 10_000
"""Rows of one table that are dropped in one transaction, and others that the same record ended."""


def drop_past(connection: sa.Connection, before_ms: int) -> bool:
    """Drops rows of the past that ended before `before_ms` (ms since 1970), the oldest first. The caller commits.

    Returns whether there may be more of them: a call drops about `ROWS_AT_ONCE` rows of a table.

    It ends at the first row, by offset, that is younger: so rows of a leader whose clock is behind may stay longer.
    A gap from the log's start takes the place of gaps that it covers: the states at offsets above it are all there, and
    those at times from its end on.
    """
    until, until_ms, is_more = -1, -1, False
    for tables in NOUN_TABLES.values():
        ended, ms = tables.past.c[TO[0]], tables.past.c[TO[2]]
        oldest = connection.execute(sa.select(ended, ms).order_by(ended).limit(ROWS_AT_ONCE))
        old = list(takewhile(lambda row: row[1] < before_ms, oldest.all()))
        if old:
            last = old[-1][0]
            connection.execute(sa.delete(tables.past).where(ended <= last))
            until, is_more = max(until, last), is_more or len(old) == ROWS_AT_ONCE
            until_ms = max(until_ms, *(ms for _, ms in old))
    if until >= 0:
        note_beginning(connection, until, until_ms, before_ms=before_ms)
    return is_more


def note_beginning(connection: sa.Connection, until: Offset, until_ms: int, *, before_ms: int) -> None:
    """Notes that the history begins after offset `until`: writes a gap from the log's start to there. Times are ms
    since 1970.

    It takes the place of the gaps that end by then, and of an earlier one from the log's start; it ends at the highest
    offset, and at the latest time, of all of these. The time of a gap that has none is `before_ms`.
    """
    covered = (GAPS.c.until_offset <= until) | (GAPS.c.after_offset < 0)
    for offset, ms in connection.execute(sa.select(GAPS.c.until_offset, GAPS.c.until_ms).where(covered)):
        until, until_ms = max(until, offset), max(until_ms, before_ms if ms is None else ms)
    connection.execute(sa.delete(GAPS).where(covered))
    connection.execute(sa.insert(GAPS), {"after_offset": -1, "until_offset": until, "until_ms": until_ms})
