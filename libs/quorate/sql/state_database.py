"""A database of a log's state and history: rows, and the offset that they have reached, move in one transaction.

SQLite in a file, or PostgreSQL. One process writes at a time: it holds a lock, on a file beside SQLite's or in the
server, which ends with it; and each transaction begins only where the one before it ended.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from quorate.nouns import Epoch, Offset
from quorate.sql.following import Changed, Place
from quorate.sql.nouns import Image, rows
from quorate.sql.state_retention import drop_past, note_beginning
from quorate.sql.state_schema import make
from quorate.sql.state_tables import APPLIED, GAPS, NOUN_TABLES, whole_at
from quorate.sql.state_writes import Missing, insert_rows, merge_rows, prepared, write_changes

__all__ = ["Applied", "StateDatabase", "Superseded"]

WRITER_LOCK: Final = 0x51756F72
"""The first number of PostgreSQL's advisory lock of who writes: "Quor"; the second one is made from the schema."""
LOCK_MODE: Final = 0o644
IDLE_S: Final = 10
INTERVAL_S: Final = 5
PROBES: Final = 3
"""Probes (INTERVAL_S apart, the first after IDLE_S) without an answer after which a connection has ended."""
ALIVE: Final = {
    "tcp_keepalives_idle": IDLE_S,
    "tcp_keepalives_interval": INTERVAL_S,
    "tcp_keepalives_count": PROBES,
    "tcp_user_timeout": (IDLE_S + INTERVAL_S * PROBES) * 1_000,
}
"""The server's settings of that, by name; the last one since PostgreSQL 12."""


WAS: Final = "was_{}"
"""The parameter of what a column of `applied` was before."""


class Superseded(Exception):
    """Raised if the database is not where this process has left it: another one has written."""


class Applied(NamedTuple):
    """How much of which log a database has: the records below `next_offset`; epoch and time are those of the last."""

    cluster_id: str
    next_offset: Offset
    epoch: Epoch
    timestamp_ms: int

    @property
    def place(self) -> Place:
        """Where the last record is."""
        return Place(self.next_offset - 1, self.epoch, self.timestamp_ms)


MOVED: Final = sa.update(APPLIED).where(
    *(APPLIED.c[name] == sa.bindparam(WAS.format(name)) for name in Applied._fields)
)
"""Moves `applied` from where it was: prepared once, as it is a part of each transaction."""


class StateDatabase:
    """Writes a state and its history to a database. `lock` comes first: all else but `close` needs the lock.

    Callers call one method at a time, from whichever thread.
    """

    def __init__(self, engine: sa.Engine) -> None:
        """`engine` is for this alone: on SQLite its transactions are made to begin with the right to write."""
        self._engine = engine
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._connection: sa.Connection | None = None
        self._lock: int | None = None
        self.is_grown = False
        """Whether rows may lack values of columns that this release has, until `replace` has written them.

        So it is after `lock` where another release has written last, or its tables have grown; a mark in the database
        says so, as a process may end before `replace`.
        """
        self.is_replaced = False
        """Whether a whole state was written last, and no record of the log: the time there is that of a checkpoint."""
        self.left_views: Sequence[str] = ()
        """Views that `lock` has left as another release made them, as they could not be replaced."""
        if self._is_sqlite:
            sa.event.listen(engine, "connect", _begin_nothing_by_itself)
            sa.event.listen(engine, "begin", _begin_immediate)

    def lock(self) -> bool:
        """Takes the writer's lock, until `close`. Returns False at once if another process holds it.

        Tables, columns and views that are missing are made, and `is_grown`, `is_replaced` and `left_views` are set.
        Raises Missing if no schema of PostgreSQL is there for the tables, sqlalchemy.exc.DBAPIError, and OSError for
        the lock's file.
        """
        if self._connection is not None:
            return True
        if self._is_sqlite and not self._lock_file():
            return False
        connection = self._engine.connect()
        try:
            with connection.begin():
                is_ours = self._is_sqlite or _lock_server(connection)
                if is_ours:
                    self.left_views = make(connection)
                    found = connection.execute(sa.select(APPLIED.c.next_offset, APPLIED.c.whole)).one_or_none()
                    self.is_grown = found is not None and found.whole != whole_at(found.next_offset)
                    self.is_replaced = found is not None and _ends_with_gap(connection, found.next_offset)
        except BaseException:
            connection.close()
            raise
        if is_ours:
            self._connection = connection
        else:
            connection.close()
        return is_ours

    def close(self) -> None:
        """Lets go of the lock and of the connections. It may be locked again."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
        self._engine.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def applied(self) -> Applied | None:
        """Returns up to where the database has the log; None if nothing was ever written. Raises DBAPIError."""
        columns = [APPLIED.c[name] for name in Applied._fields]
        with self._transaction() as connection:
            found = connection.execute(sa.select(*columns)).one_or_none()
        return None if found is None else Applied(*found)

    def write(self, changes: Sequence[Changed], *, before: Applied | None, after: Applied) -> None:
        """Writes changes in the order of the log, and `after` in place of `before` (see `applied`), and commits.

        Raises Superseded if the database is not at `before`, Missing if a row that has changed is not there, and
        DBAPIError; nothing is written then.
        """
        with self._transaction() as connection:
            _move(connection, before, after, is_whole=not self.is_grown)
            write_changes(connection, changes)
        self.is_replaced = False

    def replace(self, image: Image, *, before: Applied | None, after: Applied) -> None:
        """Makes the present rows those of a whole state, as of a checkpoint, and commits.

        Rows that differ change at the last record of `after`; a gap of the history says so of the offsets from `before`
        to there. If tables have grown, the history begins there, as no earlier row has all values. Raises Superseded if
        the database is not at `before`, and DBAPIError; nothing is written then.
        """
        with self._transaction() as connection:
            _move(connection, before, after, is_whole=True)
            had = -1 if before is None else before.place.offset
            if self.is_grown:
                note_beginning(connection, after.place.offset, after.timestamp_ms, before_ms=after.timestamp_ms)
            elif after.place.offset > had:
                gap = {"after_offset": had, "until_offset": after.place.offset, "until_ms": after.timestamp_ms}
                connection.execute(sa.insert(GAPS), gap)
            for tables in NOUN_TABLES.values():
                found = rows(tables.noun, image)
                if before is None:
                    insert_rows(connection, tables.present, found, after.place)
                else:
                    merge_rows(connection, tables, found, after.place)
        self.is_grown, self.is_replaced = False, True

    def drop_past(self, before_ms: int) -> bool:
        """Drops rows of the past that ended before `before_ms` (ms since 1970): the oldest, some 10,000 of each table.

        Returns whether there may be more, for another call. A gap says where the history begins now. Raises DBAPIError.
        """
        with self._transaction() as connection:
            return drop_past(connection, before_ms)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        assert self._connection is not None, "it is not locked"
        with self._connection.begin():
            yield self._connection

    def _lock_file(self) -> bool:
        """Returns whether we hold the lock of the file. POSIX lets go of it when this process ends."""
        if self._lock is not None:
            return True
        descriptor = os.open(f"{self._engine.url.database}.lock", os.O_RDWR | os.O_CREAT, LOCK_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True


def _lock_server(connection: sa.Connection) -> bool:
    """Takes PostgreSQL's advisory lock of the schema for this session; returns False if another session holds it.

    Raises Missing if no schema of the search_path is there. The lock ends with the session: within 25 s if our host
    dies without a word, where the server would take hours.
    """
    settings = sa.text("SELECT set_config(name, :value, false) FROM pg_settings WHERE name = :name")
    for name, value in ALIVE.items():
        connection.execute(settings, {"name": name, "value": str(value)})
    if connection.scalar(sa.select(sa.func.current_schema())) is None:
        path = connection.scalar(sa.text("SHOW search_path"))
        raise Missing(f"has no schema for our tables: its search_path is {path}, and names none that is there")
    schema = sa.func.hashtext(sa.func.current_schema())
    return bool(connection.scalar(sa.select(sa.func.pg_try_advisory_lock(WRITER_LOCK, schema))))


def _ends_with_gap(connection: sa.Connection, next_offset: Offset) -> bool:
    return bool(connection.scalar(sa.select(sa.exists().where(GAPS.c.until_offset == next_offset - 1))))


def _move(connection: sa.Connection, before: Applied | None, after: Applied, *, is_whole: bool) -> None:
    values: Mapping[str, Any] = {**after._asdict(), "whole": whole_at(after.next_offset) if is_whole else None}
    if before is None:
        if connection.scalar(sa.select(sa.func.count()).select_from(APPLIED)):
            raise Superseded(f"the database was empty, and is not any more; {after} was to be written")
        connection.execute(sa.insert(APPLIED), {"only": 1, **values})
        return
    values = {**values, **{WAS.format(name): value for name, value in before._asdict().items()}}
    text, order = prepared(MOVED, connection.dialect, tuple(values))
    told = values if order is None else tuple(values[name] for name in order)
    if not connection.exec_driver_sql(text, told).rowcount:
        raise Superseded(f"the database is not at {before} any more; {after} was to be written")


# SQLAlchemy has no type of the driver's connection.
def _begin_nothing_by_itself(connection: Any, _: object) -> None:
    """Python's driver would begin a transaction only before a write, and end it where it sees fit."""
    connection.isolation_level = None


def _begin_immediate(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
