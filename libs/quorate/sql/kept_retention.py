"""Drops the oldest past of a kept database, and notes from which offset on the rest is whole."""

from __future__ import annotations

from itertools import takewhile
from typing import Final

import sqlalchemy as sa

from quorate.sql.kept_tables import GAPS, KEPT, TO

__all__ = ["drop_past"]

ROWS_AT_ONCE: Final = 10_000
"""Rows of one table that are dropped in one transaction, and others that the same record ended."""


def drop_past(connection: sa.Connection, before_ms: int) -> bool:
    """Drops rows that ended before a time, the oldest first. Returns whether there may be more of them.

    It ends at the first row, by offset, that is younger: so rows of a leader whose clock is behind may stay longer.
    A gap from the log's start takes the place of gaps that it covers: the states at offsets above it are all there.
    """
    until, is_more = -1, False
    for kept in KEPT.values():
        ended, ms = kept.past.c[TO[0]], kept.past.c[TO[2]]
        oldest = connection.execute(sa.select(ended, ms).order_by(ended).limit(ROWS_AT_ONCE))
        old = list(takewhile(lambda row: row[1] < before_ms, oldest.all()))
        if old:
            last = old[-1][0]
            connection.execute(sa.delete(kept.past).where(ended <= last))
            until, is_more = max(until, last), is_more or len(old) == ROWS_AT_ONCE
    begins = connection.scalar(sa.select(sa.func.max(GAPS.c.until_offset)).where(GAPS.c.after_offset < 0))
    if until > (-1 if begins is None else begins):
        connection.execute(sa.delete(GAPS).where(GAPS.c.until_offset <= until))
        connection.execute(sa.insert(GAPS), {"after_offset": -1, "until_offset": until})
    return is_more
