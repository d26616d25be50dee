"""Where spans are kept: a database that the operator names by SQLAlchemy's URL, and what is wrong with it in words."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from quorate.runtime.config import ConfigError
from quorate.runtime.kinds import Kind
from quorate.runtime.logs import redact
from services.observer.spans import SpanStore

__all__ = ["database_url", "open_store"]

SETTING: Final = "observer.database.url"
BACKENDS: Final = ("sqlite", "postgresql")
RULE: Final = (
    "a URL of SQLite or PostgreSQL as SQLAlchemy spells it, sqlite:////path or postgresql+psycopg://user@host/name, "
    "with %40 for an @ in a password, and the driver that it names installed"
)


def database_url() -> Kind[str]:
    """A database whose driver is here; whether it answers is seen when it is opened."""

    def parse(value: str) -> str:
        try:
            url = sa.make_url(value)
            # Of a password with an @ in it, the rest would be taken for the host, and told.
            if url.get_backend_name() not in BACKENDS or "@" in (url.host or ""):
                raise ValueError
            dialect = url.get_dialect()
            dialect.import_dbapi()
            dialect().create_connect_args(url)
        except (sa.exc.ArgumentError, ImportError):
            raise ValueError from None
        return value

    return Kind(RULE, parse)


def open_store(url: str) -> SpanStore:
    """The store at a URL that `database_url` took. Raises ConfigError if the database does not let us in."""
    try:
        return SpanStore(url)
    except sa.exc.DBAPIError as error:
        reason = " ".join(str(error.orig).split())
        raise ConfigError([f"{SETTING} = {redact('url', url)}: must be a database that we may use: {reason}"]) from None
