"""A state in a database of its own in memory (SQLite), and queries on it.

A statement is prepared before any row is there, which says what it reads; only these tables are filled.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlalchemy import create_engine, insert
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import StaticPool

from quorate.sql.guarded import Answer, Caps, GuardedConnection
from quorate.sql.nouns import NOUNS, Image, Value, rows
from quorate.sql.tables import COLUMNS, METADATA, TABLES, described
from quorate.sql.views import VIEWS

__all__ = ["Database"]

NAMES: Final = TABLES.keys() | {COLUMNS.name}
"""The tables that are filled."""


class Database:
    """One state as tables and views."""

    def __init__(self, image: Image, *, now_s: Callable[[], float], caps: Caps | None = None) -> None:
        """`now_s` is a clock that never goes back, for the cap of time."""
        self._image = image
        self._engine = create_engine("sqlite://", poolclass=StaticPool)
        self._filled: set[str] = set()
        METADATA.create_all(self._engine)
        # SQLAlchemy makes the tables; what an authorizer, limits and a progress handler are, only the driver knows.
        connection = self._engine.raw_connection().driver_connection
        assert isinstance(connection, sqlite3.Connection), connection
        self._connection = connection
        for name, view in VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {view.query}")
        self._guarded = GuardedConnection(connection, now_s=now_s, caps=caps or Caps())

    def close(self) -> None:
        """Lets go of all rows."""
        self._engine.dispose()

    def ask(self, query: str) -> Answer:
        """Answers one SELECT. Raises QueryRefused, also while rows are taken."""
        for name in sorted((self._guarded.reads(query) & NAMES) - self._filled):
            self._fill(name)
        return self._guarded.ask(query)

    def _fill(self, name: str) -> None:
        table = COLUMNS if name == COLUMNS.name else TABLES[name]
        values: Sequence[tuple[Value, ...]] | Iterator[tuple[Value, ...]]
        values = described() if table is COLUMNS else rows(NOUNS[name], self._image)
        statement = insert(table).compile(dialect=sqlite.dialect(paramstyle="qmark"))
        self._connection.execute("PRAGMA query_only = OFF")
        try:
            with self._connection:
                self._connection.executemany(str(statement), values)
        except MemoryError:
            raise self._guarded.needs_memory() from None
        self._filled.add(name)
