"""A process that answers one query on the database of the state: the SQL is its input, frames are its output.

It opens the file for reading alone; memory is bounded for it alone, too: that of SQLite, which counts for a whole
process, and all that the process has.
"""

from __future__ import annotations

import resource
import sqlite3
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from kraft.service.observer_pb2 import QueryResponse
from quorate.sql.guarded import Answer, Caps, GuardedConnection, QueryRefused, is_damaged

__all__ = ["CAPS", "HEAD", "Kind"]

CAPS: Final = Caps(rows=100_000, characters=64 << 20, seconds=20.0, value_bytes=2 << 20, memory_bytes=256 << 20)
"""The limits of one query."""
PROCESS_BYTES: Final = 512 << 20
"""The address space of this process: some 30 MiB of its own, SQLite's memory, and a row that Python has a copy of, in
which a character takes up to four bytes."""
assert CAPS.memory_bytes is not None
assert 2 * CAPS.memory_bytes <= PROCESS_BYTES
PART_CHARACTERS: Final = 256 << 10
"""The characters of values after which a part of an answer is full."""
ROW_CHARACTERS_MAX: Final = 512 << 10
"""The longest row of an answer: with four bytes a character, and the part that it fills, it is less than the 4 MiB that
a gRPC client takes in a message unless it is configured otherwise."""
NUMBER_BYTES: Final = 10
PART_ROWS: Final = 1_000
"""The rows after which a part is full."""
HEAD: Final = struct.Struct(">BI")
"""The header of a frame: its kind, and how many bytes follow."""


class Kind(IntEnum):
    """The kinds of frames: a part of the answer, its end, or why there is none."""

    END = 0
    PART = 1
    REFUSED = 2
    EMPTY = 3
    DAMAGED = 4
    AWAY = 5


def frames(path: str, sql: str, caps: Caps = CAPS) -> Iterator[tuple[Kind, bytes]]:
    """Yields the answer's frames, each a kind and its bytes; the last one says that it is whole, or why not.

    Nothing is raised for SQL that is refused, or a database that cannot be read.
    """
    try:
        yield from _answered(path, sql, caps)
    except sqlite3.Error as problem:
        yield (Kind.DAMAGED if is_damaged(problem) else Kind.AWAY), str(problem).encode()


def _answered(path: str, sql: str, caps: Caps) -> Iterator[tuple[Kind, bytes]]:
    """Yields the frames. Raises sqlite3.Error for a file that cannot be read."""
    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        connection.execute("BEGIN")  # the offset and the rows are of one state
        at = connection.execute("SELECT next_offset FROM applied").fetchone()
    except sqlite3.OperationalError as problem:
        if problem.sqlite_errorcode != sqlite3.SQLITE_ERROR and Path(path).exists():
            raise
        at = None  # there is no file, or no such table in it
    if at is None:
        yield Kind.EMPTY, b""
        return
    try:
        guarded = GuardedConnection(connection, now_s=time.monotonic, caps=caps)
        guarded.reads(sql)
        for part in _parts(guarded.ask(sql), at[0]):
            yield Kind.PART, part.SerializeToString()
        yield Kind.END, b""
    except QueryRefused as refusal:
        yield Kind.REFUSED, str(refusal).encode()
    except MemoryError:
        yield Kind.REFUSED, str(guarded.needs_memory()).encode()


def _parts(answer: Answer, next_offset: int) -> Iterator[QueryResponse]:
    yield QueryResponse(columns=answer.columns, next_offset=next_offset)
    part, size = QueryResponse(), 0
    for row in answer.rows:
        length = sum(len(value) if isinstance(value, str | bytes) else NUMBER_BYTES for value in row)
        if length > ROW_CHARACTERS_MAX:
            raise QueryRefused(f"a row has more than {ROW_CHARACTERS_MAX:,} characters, the cap: substr returns a part")
        size += length
        part.rows.append(QueryResponse.Row(values=map(_value, row)))
        if size >= PART_CHARACTERS or len(part.rows) >= PART_ROWS:
            yield part
            part, size = QueryResponse(), 0
    if part.rows:
        yield part


def _value(value: Any) -> QueryResponse.Value:  # Any: what SQLite has as values
    match value:
        case int():
            return QueryResponse.Value(integer=value)
        case float():
            return QueryResponse.Value(real=value)
        case str():
            return QueryResponse.Value(text=value)
        case bytes():
            return QueryResponse.Value(blob=value)
        case _:
            return QueryResponse.Value()


def _tell(found: Iterable[tuple[Kind, bytes]]) -> None:
    for kind, content in found:
        sys.stdout.buffer.write(HEAD.pack(kind, len(content)) + content)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (PROCESS_BYTES, PROCESS_BYTES))
    _tell(frames(sys.argv[1], sys.stdin.buffer.read().decode("utf-8", "surrogatepass")))
