"""`--as-of`: an offset, or a time that the log turns into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from quorate.cli.failures import Misused

__all__ = ["AsOf", "Moment", "offset_to_follow", "read_as_of", "read_range", "reader_of", "reader_of_time"]

DIGITS_MAX: Final = 19
MS_MAX: Final = 253_402_300_799_999
"""The last moment of the year 9999, the last that ISO 8601 writes with four digits."""
SHOWN_MAX: Final = 40
"""Characters of a refused value that the error shows."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in ms since 1970; as text it is ISO 8601 in UTC."""

    ms: int

    def __str__(self) -> str:
        """Returns it as `--as-of` takes it."""
        return datetime.fromtimestamp(self.ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


AsOf = int | Moment


def reader_of(option: str, what: str = "an offset") -> Callable[[str], int]:
    """Returns a parser for the value of `option`, a number of at most 19 digits; it raises Misused with the value."""

    def read(text: str) -> int:
        if not _is_offset(text):
            raise Misused(f"{option} {_shown(text)}: {what} is a number from 0 on, of {DIGITS_MAX} digits at most")
        return int(text)

    return read


def read_as_of(text: str, option: str = "--as-of") -> AsOf:
    """Reads an offset of at most 19 digits, or a time of ISO 8601, which is UTC unless it names another zone.

    Raises Misused, naming the value and the rule.

    >>> read_as_of("1000"), str(read_as_of("2026-11-27T03:00+01:00")), str(read_as_of("2026-11-27"))
    (1000, '2026-11-27T02:00:00.000Z', '2026-11-27T00:00:00.000Z')
    """
    if _is_offset(text):
        return int(text)
    try:
        if text.isascii() and "-" in text:  # 20261127 is an offset
            found = datetime.fromisoformat(text)
            ms = round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
            if 0 <= ms <= MS_MAX:
                return Moment(ms)
    except (ValueError, OverflowError):
        pass
    rule = f"an offset is a number from 0 on, of {DIGITS_MAX} digits at most; a time is like 2026-11-27T03:00:00Z"
    raise Misused(f"{option} {_shown(text)}: {rule}")


def reader_of_time(option: str) -> Callable[[str], AsOf]:
    """Returns a parser for the value of `option`, an offset or a time; it raises Misused with the value."""
    return lambda text: read_as_of(text, option)


def read_range(text: str) -> tuple[AsOf, AsOf | None]:
    """Reads `A..B`, two offsets or times, each as `read_as_of` does; without B the second is None. Raises Misused.

    >>> read_range("10..20"), read_range("10..")
    ((10, 20), (10, None))
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise Misused(f"{_shown(text)}: a range is A..B or A.., of offsets or times")
    return read_as_of(first, "A..B"), read_as_of(last, "A..B") if last else None


def offset_to_follow(since: AsOf | None, until: AsOf | None) -> int | None:
    """Returns the offset from which `history --follow` begins; None to begin with what comes next.

    Raises Misused for a time as `since`, or for any `until`.
    """
    if until is not None:
        raise Misused("--to is not for --follow, which goes on until it is ended")
    if isinstance(since, Moment):
        raise Misused(f"--from {since}: with --follow it is an offset; `history` without it tells those of a time")
    return since


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…")
