"""Engines of SQLAlchemy for the observer's databases, by URL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from quorate.sql.guarded import PRIMARY, is_damaged
from quorate.sql.state_database import IDLE_S, INTERVAL_S, PROBES

__all__ = ["engine_of", "is_away", "is_broken", "reading_engine_of"]

CONNECT_TIMEOUT_S: Final = 10
"""How long (s) a connection to PostgreSQL may take; psycopg waits 130 s by itself, and others for ever."""
ALIVE: Final = {
    "keepalives_idle": IDLE_S,
    "keepalives_interval": INTERVAL_S,
    "keepalives_count": PROBES,
    "tcp_user_timeout": (IDLE_S + INTERVAL_S * PROBES) * 1_000,
}
"""By what libpq notices within 25 s that a server's host has died; by itself the system takes hours."""
LIBPQ: Final = ("psycopg", "psycopg2")
"""Drivers that know these options."""
AWAY_STATES: Final = ("08", "25006", "40", "53", "55P03", "57", "58")
"""How the SQLSTATE of a server begins that takes nothing now: no connection, a standby, a conflict, no memory or space,
a lock, an operator or a restart, its disk. All others are of the statement, and come again with it."""
AWAY_CODES: Final = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
)
"""The same of SQLite."""
DAMAGED_STATES: Final = ("XX001", "XX002")
"""PostgreSQL's errors for a table or an index that is damaged."""


def is_away(error: Exception) -> bool:
    """Returns whether an error says that a database takes nothing now, so that the same may be tried again.

    False for any other error, such as that of a statement.
    """
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if state is not None:
        return state.startswith(AWAY_STATES)
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & PRIMARY in AWAY_CODES
    # A connection that fails has no SQLSTATE: libpq has no result yet.
    return isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)


def is_broken(error: sa.exc.DBAPIError) -> bool:
    """Returns whether a database is damaged, so that no later try reads it."""
    return getattr(error.orig, "sqlstate", None) in DAMAGED_STATES or is_damaged(error.orig)


def reading_engine_of(url: str) -> sa.Engine:
    """Returns an engine to read with: a file of SQLite is opened for reading alone, and is not made.

    For another database it is that of `engine_of`, which may also write. It connects with its first use.
    """
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database is None:
        return engine_of(url, synchronous="NORMAL")
    file = Path(parsed.database).absolute().as_uri()
    return sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(f"{file}?mode=ro", uri=True, check_same_thread=False),
        poolclass=sa.QueuePool,
    )


def engine_of(url: str, *, synchronous: str) -> sa.Engine:
    """Returns the engine of a URL, which connects with its first use.

    `synchronous` is SQLite's: what a commit to a file waits for.
    """
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        limits = {"connect_timeout": CONNECT_TIMEOUT_S, **ALIVE} if parsed.get_driver_name() in LIBPQ else {}
        limits = {name: value for name, value in limits.items() if name not in parsed.query}
        return sa.create_engine(parsed, pool_pre_ping=True, connect_args=limits)
    if parsed.database in (None, "", ":memory:"):
        return sa.create_engine(parsed, poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    engine = sa.create_engine(parsed, connect_args={"check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def tune(connection: Any, _: object) -> None:  # the driver's connection, of which SQLAlchemy has no type
        # WAL: readers do not wait for the writer.
        for pragma in ("journal_mode = WAL", f"synchronous = {synchronous}", "busy_timeout = 5000"):
            connection.execute(f"PRAGMA {pragma}")

    return engine
