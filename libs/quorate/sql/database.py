"""A state in a database of its own in memory (SQLite), and queries on it.

A statement is prepared before any row is there, which says what it reads; only these columns are filled.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Set
from typing import Final

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from quorate.sql.guarded import Answer, Caps, GuardedConnection
from quorate.sql.nouns import NOUNS, Image, Value, rows
from quorate.sql.tables import COLUMNS, METADATA, TABLES, described
from quorate.sql.views import VIEWS

__all__ = ["Database"]

NAMES: Final = TABLES.keys() | {COLUMNS.name}
"""The tables that are filled."""


class Database:
    """Answers SQL queries about one state: its tables and views are in an SQLite database in memory.

    A table is filled when a query reads it first, and only with the columns that queries read.
    """

    def __init__(self, image: Image, *, now_s: Callable[[], float], caps: Caps | None = None) -> None:
        """`now_s` is a clock that never goes back, for the cap of time."""
        self._image = image
        self._engine = create_engine("sqlite://", poolclass=StaticPool)
        self._filled: dict[str, frozenset[str]] = {}
        METADATA.create_all(self._engine)
        # SQLAlchemy makes the tables; what an authorizer, limits and a progress handler are, only the driver knows.
        connection = self._engine.raw_connection().driver_connection
        assert isinstance(connection, sqlite3.Connection), connection
        self._connection = connection
        for name, view in VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {view.query}")
        self._guarded = GuardedConnection(connection, now_s=now_s, caps=caps or Caps())

    def close(self) -> None:
        """Closes the database in memory: its tables and rows are gone, and it cannot be asked any more."""
        self._engine.dispose()

    def ask(self, query: str) -> Answer:
        """Answers one SELECT; fills the columns that it is the first to read. Raises QueryRefused, also while rows are
        taken.

        Take the rows of an answer before you ask the next query, which may fill the same table anew.
        """
        read = self._guarded.reads(query)
        for name in sorted(NAMES & read.keys()):
            self._fill(name, read[name])
        return self._guarded.ask(query)

    def _fill(self, name: str, wanted: Set[str]) -> None:
        """Has a table's rows with the columns that are wanted, besides those that it has; the others are null."""
        table, there = COLUMNS if name == COLUMNS.name else TABLES[name], self._filled.get(name)
        columns = [each.name for each in table.columns]
        chosen = frozenset(columns) & wanted or frozenset(columns[:1])  # a row has a column, if rows are but counted
        if there is not None and chosen <= there:
            return
        chosen |= there or frozenset()
        values: Iterable[tuple[Value, ...]]
        if table is COLUMNS:
            chosen, values = frozenset(columns), described()
        else:
            values = rows(NOUNS[name], self._image, chosen)
        fields = ", ".join(f'"{each}"' for each in columns if each in chosen)
        statement = f"INSERT INTO {name} ({fields}) VALUES ({', '.join('?' * len(chosen))})"
        self._connection.execute("PRAGMA query_only = OFF")
        try:
            with self._connection:
                self._connection.execute(f"DELETE FROM {name}")
                self._connection.executemany(statement, values)
        except MemoryError:
            raise self._guarded.needs_memory() from None
        self._filled[name] = chosen
