"""Reads the observer's trace store if it is a PostgreSQL database: the same table `spans`, through SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

__all__ = ["SpanExtent", "look", "place_of", "rows"]

ROWS_AT_ONCE: Final = 8_192
CONNECT_TIMEOUT_S: Final = 10
BACKENDS: Final = ("postgresql",)


class SpanExtent(NamedTuple):
    """The lowest and highest `seq` of a store (inclusive) and its number of spans; 0, -1 and 0 if it is empty."""

    low: int
    high: int
    spans: int


def place_of(url: str) -> str:
    """Returns a database's address without user and password, for messages. Raises ValueError.

    >>> place_of("postgresql+psycopg://observer:secret@db:5432/traces?sslmode=require")
    'postgresql://db:5432/traces'

    """
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise ValueError(
            "what has :// in it is a database's URL, as postgresql://host/database; this is none"
        ) from None
    if parsed.get_backend_name() not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise ValueError(f"a trace store is read from {known} and from files of SQLite, not from {parsed.drivername}")
    port = "" if parsed.port is None else f":{parsed.port}"
    return f"{parsed.get_backend_name()}://{parsed.host or ''}{port}/{parsed.database or ''}"


def look(url: str) -> SpanExtent:
    """Queries the store's extent. Raises OSError, naming the database, if it cannot be read."""
    place = place_of(url)
    try:
        with _connected(url) as connection:
            found = connection.execute(sa.text("select min(seq), max(seq), count(*) from spans")).one()
    except ModuleNotFoundError as missing:
        raise OSError(f"{place}: its driver is not installed: {missing.name}") from None
    except sa.exc.DBAPIError as problem:
        raise OSError(f"{place}: it can not be read, or is no trace store: {_words(problem)}") from None
    low, high, count = found
    return SpanExtent(low or 0, -1 if high is None else high, count)


def rows(url: str, columns: Sequence[str], *, low: int, high: int) -> Iterator[Sequence[Sequence[Any]]]:
    """Yields the spans with `seq` from `low` to `high` (exclusive) in chunks; columns are text, except booleans.

    Raises sqlalchemy.exc.DBAPIError; Spark then retries the task, as the failure may be temporary.
    """
    shown = ", ".join(name if name == "error" else f"cast({name} as text)" for name in columns)
    query = sa.text(f"select {shown} from spans where seq >= :low and seq < :high")
    with _connected(url) as connection:
        streamed = connection.execution_options(yield_per=ROWS_AT_ONCE)
        yield from streamed.execute(query, {"low": low, "high": high}).partitions()


@contextmanager
def _connected(url: str) -> Iterator[sa.Connection]:
    """Opens a connection that can only read, and closes it at the end."""
    engine = sa.create_engine(
        url,
        poolclass=sa.NullPool,
        connect_args={"connect_timeout": CONNECT_TIMEOUT_S, "options": "-c default_transaction_read_only=on"},
    )
    with engine.connect() as connection:
        yield connection


def _words(problem: sa.exc.DBAPIError) -> str:
    """Returns the message of the server or the driver on one line."""
    return " ".join(str(problem.orig).split())
