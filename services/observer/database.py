"""The database of the span store, set by an SQLAlchemy URL: checks the URL, opens it, and says what is wrong."""

from __future__ import annotations

import re
from typing import Final

import sqlalchemy as sa

from quorate.runtime.logging.logs import logger, redact
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.settings.setting_types import SettingType
from services.observer.engines import is_away
from services.observer.spans import SpanStore

__all__ = ["database_url", "is_durable", "is_refused", "open_store", "reason_of", "refusal"]

log = logger(__name__)

SETTING: Final = "observer.database.url"
BACKENDS: Final = ("sqlite", "postgresql")
RULE: Final = (
    "a URL of SQLite or PostgreSQL as SQLAlchemy spells it, sqlite:////path or postgresql+psycopg://user@host/name, "
    "with %40 for an @ in a password, and the driver that it names installed"
)

REFUSED: Final = re.compile(
    r'password authentication failed|no password supplied|no pg_hba\.conf entry|(database|role) ".*" does not exist'
    r"|permission denied for (database|schema)|server does not support SSL, but SSL was required"
)
"""The errors of PostgreSQL and libpq for an observer that is not let in, in English; in another language it counts as
away, as a connection that fails has no SQLSTATE."""


def is_durable(url: str) -> bool:
    """Returns whether a database outlives its process.

    >>> [is_durable(url) for url in ("sqlite:////var/state.db", "postgresql+psycopg://host/name", "sqlite://")]
    [True, True, False]
    """
    parsed = sa.make_url(url)
    return parsed.get_backend_name() != "sqlite" or parsed.database not in (None, "", ":memory:")


def is_refused(error: sa.exc.DBAPIError, url: str) -> bool:
    """Returns whether an error says that a database does not let us in, so that another try is of no use.

    False for a server that is away. Any error of a file, which is never away, counts.
    """
    is_server = sa.make_url(url).get_backend_name() != "sqlite"
    return not (is_away(error) and is_server and not REFUSED.search(reason_of(error)))


def reason_of(error: sa.exc.DBAPIError) -> str:
    """Returns what the database says, in one line."""
    return " ".join(str(error.orig).split())


def refusal(name: str, url: str, reason: str) -> ConfigError:
    """Returns the error that ends the start: the database of the setting `name` cannot be used, and why.

    Passwords in the URL are hidden.
    """
    return ConfigError([f"{name} = {redact('url', url)}: must be a database that we may use: {reason}"])


def database_url() -> SettingType[str]:
    """Returns the setting type of a URL of SQLite or PostgreSQL, with an installed driver. It opens no connection."""

    def parse(value: str) -> str:
        try:
            url = sa.make_url(value)
            # A password with an unescaped @ would put its rest into the host, and so into logs.
            if url.get_backend_name() not in BACKENDS or "@" in (url.host or ""):
                raise ValueError
            dialect = url.get_dialect()
            dialect.import_dbapi()
            dialect().create_connect_args(url)
        except (sa.exc.ArgumentError, ImportError):
            raise ValueError from None
        return value

    return SettingType(RULE, parse)


async def open_store(store: SpanStore, url: str) -> None:
    """Opens the span store of a URL. Raises ConfigError if the database refuses access.

    If a server is away it only warns, as the store tries again with each batch of spans; a file never is away.
    """
    try:
        await store.open()
    except sa.exc.DBAPIError as error:
        if is_refused(error, url):
            raise refusal(SETTING, url, reason_of(error)) from None
        log.warning("the database of spans is away; until it answers, spans are lost", reason=reason_of(error))
