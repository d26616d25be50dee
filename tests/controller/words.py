"""What a table's refusals say to people: the rows say which error, and tests beside them in which words."""

from __future__ import annotations

from quorate.errors import ApiError, ErrorCode
from tests.controller.tables.table import Table, codes, decided

__all__ = ["words"]


def words(table: Table, case: str) -> str:
    """The words of the first error in what this row is answered."""
    (row,) = (row for row in table.rows if row.case == case)
    found = decided(table, row, table.cluster(row))
    if isinstance(found, ApiError):
        return found.message
    return next(said or "" for code, said in codes(found.response) if code is not ErrorCode.NONE)
