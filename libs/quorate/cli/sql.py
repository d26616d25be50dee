"""`quorate sql`: one query on the state that files or a live quorum amount to, as text, documents or rows."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, Final  # Any: what SQLite has as values

from quorate.cli.documents import TableOutput, is_document, print_document
from quorate.cli.failures import Failed
from quorate.cli.image import columns
from quorate.cli.offline import Offline
from quorate.cli.printable import printable
from quorate.cli.tables import plain, print_rows
from quorate.doubles import Double
from quorate.nouns import Offset
from quorate.sql.database import Database
from quorate.sql.guarded import Answer, Caps, QueryRefused
from quorate.sql.nouns import Image

__all__ = ["ask", "print_answer"]

MEMORY_BYTES_MAX: Final = 4 << 30
"""Of all tables and the query: a cluster of 1,000,000 partitions takes less than one of them."""
NULL: Final = "-"


def ask(found: Offline, query: str, *, output: str, rows_max: int, seconds_max: float) -> None:
    """Prints the answer to a query by SQL on the state `found`: at most `rows_max` rows, in `seconds_max` (s).

    Raises Failed for a query that is wrong, would write, or is beyond a cap.
    """
    caps = Caps(rows=rows_max, seconds=seconds_max, memory_bytes=MEMORY_BYTES_MAX)
    database = Database(Image(state=found.state, voters=found.voters), now_s=time.monotonic, caps=caps)
    try:
        print_answer(database.ask(query), output, as_of_offset=found.as_of_offset, notes=found.notes)
    except QueryRefused as refusal:
        raise Failed(str(refusal)) from None
    finally:
        database.close()


def print_answer(answer: Answer, output: str, *, as_of_offset: Offset, notes: Sequence[str]) -> None:
    """Prints the rows of an answer, as text, a document, CSV or Arrow.

    Raises QueryRefused for two columns of one name in a document, and if the query is refused while its rows are read.
    """
    if is_document(output):
        _print_document(answer, output, as_of_offset, notes)
    elif output == TableOutput.TEXT:
        _print_text(answer, as_of_offset, notes)
    else:
        print_rows(answer.columns, answer.rows, output, as_of_offset=as_of_offset)


def _print_text(answer: Answer, as_of_offset: Offset, notes: Sequence[str]) -> None:
    rows = [[NULL if value is None else plain(value) for value in row] for row in answer.rows]
    for line in columns([answer.columns, *rows]):
        sys.stdout.write(line + "\n")
    sys.stdout.write(f"{len(rows)} row{'s' * (len(rows) != 1)}, as of offset {as_of_offset}\n")
    for note in notes:
        sys.stdout.write(f"note: {printable(note)}\n")


def _print_document(answer: Answer, output: str, as_of_offset: Offset, notes: Sequence[str]) -> None:
    """Prints one document; nothing of it if an error comes while rows are read."""
    if twice := [name for name in answer.columns if answer.columns.count(name) > 1]:
        raise QueryRefused(f"two columns are called {twice[0]}, of which a JSON object has one: AS names them apart")
    rows = [dict(zip(answer.columns, map(_in_json, row), strict=True)) for row in answer.rows]
    document = {"asOfOffset": as_of_offset, "notes": notes, "columns": answer.columns, "rows": rows}
    print_document(document, output)


def _in_json(value: Any) -> Any:
    return Double(value) if isinstance(value, float) else plain(value)
