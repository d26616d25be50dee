"""Rows for programs: CSV (RFC 4180), or Arrow's stream of record batches."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import Any, Final

from quorate.cli.documents import TableOutput
from quorate.cli.failures import Misused
from quorate.cli.printable import printable
from quorate.nouns import Offset

__all__ = ["check_arrow", "plain", "print_rows"]

Row = Sequence[Any]  # Any: int, float, str, bytes, bool, None

BATCH_ROWS: Final = 64 << 10
"""Rows of one record batch; a reader holds one at a time."""


def check_arrow() -> None:
    """Raises Misused if rows cannot be printed as Arrow here."""
    if find_spec("pyarrow") is None:
        raise Misused("--output arrow needs pyarrow, which is not installed: pip install 'quorate[arrow]'")
    if sys.stdout.isatty():
        raise Misused("--output arrow is bytes, for a file or a pipe, and standard output is a terminal")


def print_rows(columns: Sequence[str], rows: Iterable[Row], output: str, *, as_of_offset: Offset | None = None) -> None:
    """Prints rows as CSV, each once it is taken, or as Arrow, whose schema has the offset as metadata `asOfOffset`.

    Raises what `rows` raises.
    """
    if output == TableOutput.CSV:
        _print_csv(columns, rows)
    else:
        metadata = {} if as_of_offset is None else {"asOfOffset": str(as_of_offset)}
        _print_arrow(columns, rows, metadata)


def plain(value: Any) -> Any:
    """Returns bytes in hex, all else as it is."""
    return value.hex() if isinstance(value, bytes) else value


def _print_csv(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Prints rows while they are taken, with LF; null is an empty cell. On a terminal no text controls it."""
    shown = printable if sys.stdout.isatty() else str
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow("" if value is None else shown(str(plain(value))) for value in row)


def _print_arrow(columns: Sequence[str], rows: Iterable[Row], metadata: Mapping[str, str]) -> None:
    """Prints Arrow's IPC stream once all rows are there, as their values say what type a column has."""
    import pyarrow

    taken = [tuple(row) for row in rows]
    values = list(zip(*taken, strict=True)) if taken else [() for _ in columns]
    types = [_arrow_type(pyarrow, each) for each in values]
    schema = pyarrow.schema(list(zip(columns, types, strict=True)), metadata=metadata)
    sys.stdout.flush()
    with pyarrow.ipc.new_stream(sys.stdout.buffer, schema) as stream:
        for part in _parts(taken):
            arrays = [
                pyarrow.array(_cast(pyarrow, column, of), of)
                for column, of in zip(zip(*part, strict=True), types, strict=True)
            ]
            stream.write_batch(pyarrow.record_batch(arrays, schema=schema))


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    taken = iter(rows)
    while part := list(islice(taken, BATCH_ROWS)):
        yield part


def _arrow_type(pyarrow: Any, values: Row) -> Any:
    """Returns the type that has all of a column's values: as SQLite, a query can have several in one column."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pyarrow.null()
    one = {
        frozenset({int}): pyarrow.int64(),
        frozenset({bool}): pyarrow.bool_(),
        frozenset({float}): pyarrow.float64(),
        frozenset({int, float}): pyarrow.float64(),
        frozenset({bytes}): pyarrow.binary(),
    }
    return one.get(frozenset(kinds), pyarrow.string())


def _cast(pyarrow: Any, values: Row, of: Any) -> Row:
    """Returns values as one type has them: next to texts, all else is the text that CSV has for it."""
    if of == pyarrow.string():
        return [None if value is None else str(plain(value)) for value in values]
    return [None if value is None else float(value) for value in values] if of == pyarrow.float64() else values
