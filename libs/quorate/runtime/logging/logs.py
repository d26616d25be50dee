"""Structured logs: one line for each event, with a text, fields and the trace id, and with secrets hidden.

    log = logger(__name__)
    log.info("became leader", epoch=7, leo=42, reason="3 of 5 votes")

QUORATE_LOG_FORMAT is `logfmt` (default) or `json`; QUORATE_LOG_LEVEL is debug, info (default), warning or error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Final, TextIO

from opentelemetry import trace

from quorate.runtime.logging.hidden import shown
from quorate.runtime.settings.config import ConfigError

__all__ = ["Logger", "logger", "redact", "start_logs"]

FORMATS: Final = ("logfmt", "json")
LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

GRPC_SERVER: Final = "grpc._cython.cygrpc"
"""The logger of gRPC's asyncio server, which writes the traceback of a call that was cancelled before it began."""

_FIELDS: Final = "quorate_fields"
"""The attribute of a log record that holds our fields."""

TEXT_MAX: Final = 1_024
"""How many characters of a value a line shows: names and messages of callers may have 32,767 bytes."""
TRACEBACK_MAX: Final = 16_384
"""How many characters of a traceback a line shows."""
ITEMS_MAX: Final = 32
"""How many items of a list a line shows."""

# fmt: off
_SECRET_WORDS: Final = frozenset({
    "password", "passwd", "passphrase", "secret", "token", "credential", "credentials", "authorization", "hmac", "salt",
    "jaas",
})
# fmt: on


class Logger:
    """A logger of events with fields; `bind` returns one that adds the same fields to each event."""

    __slots__ = ("_bound", "_logger")

    def __init__(self, name: str, bound: Mapping[str, object] | None = None) -> None:
        self._logger = logging.getLogger(name)
        self._bound = dict(bound or {})

    @property
    def tells_debug(self) -> bool:
        """Whether events at debug are written: what is made for them alone need not be made else."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def bind(self, **fields: object) -> Logger:
        """Returns a logger of the same name that adds `fields` to every event."""
        return Logger(self._logger.name, {**self._bound, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """Logs an event that matters only for a search, such as a refusal or a retry."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Logs a state transition."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Logs an event that the operator should act on."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, *, exception: BaseException | None = None, **fields: object) -> None:
        """Logs a failure; `exception` is written with its traceback, in the same line."""
        self._write(logging.ERROR, event, fields, exception)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], exception: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            merged = {**self._bound, **fields} if self._bound else fields
            self._logger.log(level, "%s", event, extra={_FIELDS: merged}, exc_info=exception)


def logger(name: str) -> Logger:
    """Returns the logger of a module; call it with `__name__`."""
    return Logger(name)


def start_logs(environ: Mapping[str, str], stream: TextIO | None = None) -> None:
    """Sends every event of the process, of libraries too, to `stream` (by default standard error) alone.

    Format and level are QUORATE_LOG_FORMAT and QUORATE_LOG_LEVEL of `environ`. Raises ConfigError for other words.
    """
    form = environ.get("QUORATE_LOG_FORMAT", "logfmt").lower()
    level = environ.get("QUORATE_LOG_LEVEL", "info").lower()
    problems = [
        f"{name} = {value!r}: must be one of {', '.join(allowed)}"
        for name, value, allowed in (("QUORATE_LOG_FORMAT", form, FORMATS), ("QUORATE_LOG_LEVEL", level, LEVELS))
        if value not in allowed
    ]
    if problems:
        raise ConfigError(problems)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_LogLine(as_json=form == "json"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    # Libraries' logs below warning are not our events: they are shown at level debug only.
    for library in ("grpc", "asyncio", "opentelemetry", "sqlalchemy"):
        logging.getLogger(library).setLevel(max(LEVELS[level], logging.WARNING))
    logging.getLogger(GRPC_SERVER).addFilter(_is_no_cancelled_call)


def _is_no_cancelled_call(record: logging.LogRecord) -> bool:
    """Filters out tracebacks of cancelled calls: disconnected clients and a shutdown cancel them, which is no error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def redact(key: str, value: object) -> object:
    """Returns the value to log for a field: `***` if its key names a secret; a number, boolean or None as it is.

    All else becomes text, with the secrets in it hidden. A text of more than `TEXT_MAX` characters is cut, and says how
    long it was; of a list of more than `ITEMS_MAX` items the first are shown, and their count.

    >>> redact("ssl.keystore.password", "hunter2"), redact("url", "a?token=xyz b"), redact("epoch", 7)
    ('***', 'a?token=*** b', 7)
    >>> redact("url", "postgresql://me:hunter2@host:5432/spans")
    'postgresql://me:***@host:5432/spans'
    """
    if _is_secret(key):
        return "***"
    if isinstance(value, bool | int | float | None):
        return value
    return shown(_text(value), TEXT_MAX)


@lru_cache(maxsize=4_096)
def _is_secret(key: str) -> bool:
    """Keys are words of our code, so few; they are looked at once."""
    return not _SECRET_WORDS.isdisjoint(re.split(r"[._\-\s]", key.lower()))


def _text(value: object) -> str:
    """Returns the text of a value; of a long list, that of its first items."""
    if not isinstance(value, list | tuple | set | frozenset | Mapping) or len(value) <= ITEMS_MAX:
        return str(value)
    first = list(islice(value.items() if isinstance(value, Mapping) else value, ITEMS_MAX))
    return f"{first} … {len(value)} items"


class _LogLine(logging.Formatter):
    """Formats a log record as one line, whatever characters it holds."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._render = _json if as_json else _logfmt

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, object] = getattr(record, _FIELDS, {})
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": shown(record.getMessage(), TEXT_MAX),
        }
        # A field must not replace one of the line's own keys.
        line |= {f"field_{key}" if key in line else key: redact(key, value) for key, value in fields.items()}
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line |= {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
        if record.exc_info and record.exc_info[0]:
            text = "".join(traceback.format_exception(*record.exc_info)).rstrip()
            line["exception"] = shown(text, TRACEBACK_MAX)
        return self._render(line)


def _json(line: Mapping[str, object]) -> str:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":"))


def _logfmt(line: Mapping[str, object]) -> str:
    return " ".join(f"{key}={_word(value)}" for key, value in line.items())


def _word(value: object) -> str:
    word = (
        {None: "", True: "true", False: "false"}.get(value) if value is None or isinstance(value, bool) else str(value)
    )
    assert word is not None
    # JSON quoting keeps a value with blanks, quotes or line ends in one word of one line.
    return word if re.fullmatch(r"[^\s\"=\\\x00-\x1f\x7f]+", word) else json.dumps(word, ensure_ascii=False)
