"""Queries on SQLite that nobody may change anything by: read only by construction, and bounded.

SQLite asks an authorizer about each thing that a statement does: reading tables and calling functions are granted, all
else is refused, so there is no way to another file.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

__all__ = ["Answer", "Caps", "GuardedConnection", "QueryRefused", "is_damaged"]

_REFUSED: Final = {
    sqlite3.SQLITE_INSERT: "a write to {}",
    sqlite3.SQLITE_UPDATE: "a write to {}",
    sqlite3.SQLITE_DELETE: "a write to {}",
    sqlite3.SQLITE_ATTACH: "ATTACH",
    sqlite3.SQLITE_PRAGMA: "PRAGMA {}",
    sqlite3.SQLITE_TRANSACTION: "{}",
}
"""The words for each refused action of a statement, by the number of the action."""
GRANTED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
FORBIDDEN_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "edit", "readfile", "writefile"})
"""Functions that reach outside the database, in builds of SQLite that have them."""
SQL_BYTES_MAX: Final = 100_000
STEPS_BETWEEN_LOOKS: Final = 10_000
"""Instructions of SQLite's machine between two looks at the clock: some tenths of a millisecond."""

DAMAGED_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
PRIMARY: Final = 0xFF
"""The bits of a code of SQLite that say its kind."""

Row: TypeAlias = tuple[Any, ...]  # Any: what SQLite has as values: int, float, str, bytes, None
Reads: TypeAlias = defaultdict[str, set[str]]
"""The columns that a query reads, by table or view."""


class QueryRefused(Exception):
    """Raised for a query that is wrong, would do more than read, or is beyond a cap; the message says which."""


def is_damaged(problem: BaseException | None) -> bool:
    """Returns whether an error is SQLite's for a file that is damaged, or no database; False for None."""
    return getattr(problem, "sqlite_errorcode", 0) & PRIMARY in DAMAGED_CODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of one query."""

    rows: int = 1_000_000
    characters: int = 256 << 20
    """Of the answer's values as text."""
    seconds: float = 60.0
    value_bytes: int = 16 << 20
    """Of the longest text that a query may make."""
    memory_bytes: int | None = None
    """Of all tables and queries of this process together, as SQLite counts it; once set it is only ever lowered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The names of the answer's columns, and its rows: they can be taken once, and are read while they are taken.

    To take a row may raise QueryRefused: a cap may be passed only then.
    """

    columns: tuple[str, ...]
    rows: Iterator[Row]


class GuardedConnection:
    """Answers queries by a connection of SQLite: they may read its database and nothing else, up to caps.

    It sets limits of the connection, and leaves it with PRAGMA query_only on.
    """

    def __init__(self, connection: sqlite3.Connection, *, now_s: Callable[[], float], caps: Caps) -> None:
        """`now_s` is a clock that never goes back, for the cap of time."""
        self._connection = connection
        self._now_s = now_s
        self._caps = caps
        connection.execute("PRAGMA temp_store = MEMORY")  # so that what is sorted counts as memory, and fills no disk
        # SQLite declares the table of a function of rows when it meets one first, which the authorizer would refuse.
        connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
        if caps.memory_bytes is not None:
            connection.execute(f"PRAGMA hard_heap_limit = {caps.memory_bytes}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, caps.value_bytes)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, SQL_BYTES_MAX)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)

    def reads(self, query: str) -> Reads:
        """Returns the tables and views that a query would read, each with its columns; the query is not carried out.

        Raises QueryRefused for one that is wrong, or would do more than read.
        Where rows are only counted, the columns are none, or the empty name.
        """
        try:
            size = len(query.encode())
        except UnicodeEncodeError:
            raise QueryRefused("the query is no UTF-8") from None
        if size > SQL_BYTES_MAX - len("EXPLAIN "):
            raise QueryRefused(f"the query is longer than {SQL_BYTES_MAX:,} bytes")
        read: Reads = defaultdict(set)
        with self._guarded(self._now_s() + self._caps.seconds, read):
            # The statement is prepared, and not carried out.
            self._connection.execute(query if _is_explained(query) else f"EXPLAIN {query}").close()
        return read

    def ask(self, query: str) -> Answer:
        """Answers one SELECT. Raises QueryRefused, and sqlite3.DatabaseError for a damaged file.

        Both may also be raised while rows are taken. The cap of time counts from the call on, and with it the time that
        the caller takes between two rows.
        """
        ends_s = self._now_s() + self._caps.seconds
        with self._guarded(ends_s):
            cursor = self._connection.execute(query)
        return Answer(tuple(each[0] for each in cursor.description or ()), self._rows(cursor, ends_s))

    def needs_memory(self) -> QueryRefused:
        """Returns the error to raise where SQLite needs more memory than the cap; it names the cap in MiB."""
        most = (self._caps.memory_bytes or 0) >> 20
        return QueryRefused(f"tables and query need more than {most:,} MiB of memory, the cap")

    def _rows(self, cursor: sqlite3.Cursor, ends_s: float) -> Iterator[Row]:
        caps, size = self._caps, 0
        for count, row in enumerate(self._guarded_rows(cursor, ends_s), 1):
            size += sum(len(str(value)) for value in row)
            if count > caps.rows:
                raise QueryRefused(f"the answer has more than {caps.rows:,} rows, the cap: LIMIT takes fewer")
            if size > caps.characters:
                most = f"{caps.characters:,} characters, the cap"
                raise QueryRefused(f"the answer has more than {most}: fewer columns or rows do")
            yield row

    def _guarded_rows(self, cursor: sqlite3.Cursor, ends_s: float) -> Iterator[Row]:
        with self._guarded(ends_s):
            yield from cursor

    @contextmanager
    def _guarded(self, ends_s: float, read: Reads | None = None) -> Iterator[None]:
        """Has SQLite refuse all but reading in the block, and stop at `ends_s`; what is read is added to `read`.

        Raises QueryRefused for what SQLite raises, but for a file that is damaged.
        """
        connection, refused = self._connection, list[str]()

        def may(action: int, first: str | None, second: str | None, *_: object) -> int:
            if action == sqlite3.SQLITE_READ and read is not None and first is not None:
                read[first].add(second or "")
            if action in GRANTED and not (action == sqlite3.SQLITE_FUNCTION and second in FORBIDDEN_FUNCTIONS):
                return sqlite3.SQLITE_OK
            if action == sqlite3.SQLITE_FUNCTION:
                refused.append(f"the function {second}")
            refused.append(_REFUSED.get(action, "this statement").format(first))
            return sqlite3.SQLITE_DENY

        connection.execute("PRAGMA query_only = ON")
        connection.set_authorizer(may)
        connection.set_progress_handler(lambda: self._now_s() >= ends_s, STEPS_BETWEEN_LOOKS)
        try:
            yield
        except MemoryError:
            raise self.needs_memory() from None
        except (sqlite3.Error, sqlite3.Warning) as problem:
            if is_damaged(problem):
                raise
            if self._now_s() >= ends_s:
                raise QueryRefused(f"the query takes longer than {self._caps.seconds:g} s, the cap") from None
            raise QueryRefused(self._reason(problem, refused)) from None
        finally:
            connection.set_progress_handler(None, 0)
            connection.set_authorizer(None)

    def _reason(self, problem: Exception, refused: Sequence[str]) -> str:
        """Returns SQLite's words, and what they lack for who asks."""
        said = str(problem)
        if refused:
            return f"a query reads tables and views, and does nothing else: {refused[0]} is refused"
        if said.startswith("no such table"):
            named = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY rowid"
            self._connection.set_authorizer(None)
            return f"{said}; there are {', '.join(name for (name,) in self._connection.execute(named))}"
        return said


def _is_explained(query: str) -> bool:
    return query.lstrip()[:8].upper() == "EXPLAIN "
