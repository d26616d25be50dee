"""Config values: parses and validates the text of configs as Kafka, in Java, does.

As in Java, blanks around a value are ignored, a number may have a sign, and it may not have underscores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "SHORT_MAX",
    "VALUE_CHARS_MAX",
    "Set",
    "Source",
    "ValueType",
    "Values",
    "boolean",
    "decimal",
    "gzip_level",
    "integer",
    "is_too_long",
    "is_true",
    "items",
    "java_class",
    "list_of",
    "long",
    "names",
    "one_of",
    "password",
    "split",
    "text",
    "trim",
    "whole",
]

SHORT_MAX: Final = 2**15 - 1
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class Source(IntEnum):
    """The source of a config value, by DescribeConfigs' number. KIP-226, KIP-714, KIP-848."""

    TOPIC = 1
    """Set at run time for one topic."""
    BROKER = 2
    """Set at run time for one broker."""
    CLUSTER = 3
    """Set at run time for all brokers."""
    STATIC = 4
    """Set in the broker's properties file."""
    DEFAULT = 5
    """Kafka's default."""
    CLIENT_METRICS = 7
    """Set at run time for one client metrics subscription."""
    GROUP = 8
    """Set at run time for one group."""


@dataclass(frozen=True, slots=True)
class Set:
    """A config value with its source, and the config name under which it is set there."""

    name: str
    value: str
    source: Source


class ValueType(IntEnum):
    """The type of a config value, by DescribeConfigs' number. KIP-569."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class Values:
    """The rule for a config's valid values: `takes` checks a text, `rule` describes the check in words."""

    type: ValueType
    rule: str
    takes: Callable[[str], bool]

    @property
    def is_sensitive(self) -> bool:
        """Whether the config's values are secrets: it is a password."""
        return self.type == ValueType.PASSWORD


VALUE_CHARS_MAX: Final = 32_767
"""The longest config value, in Java characters of 16 bits."""

_BLANKS: Final = "".join(map(chr, range(0x21)))
_SPACES: Final = " \t\n\v\f\r"
"""White space in Java's regular expressions, which surrounds a list's commas."""
# Values may be long and untrusted: no pattern reads a character more than a few times.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LONG_DIGITS: Final = len(str(LONG_MAX))
_DECIMAL: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)
_LOWEST: Final[Mapping[ValueType, int]] = {
    ValueType.SHORT: -SHORT_MAX - 1,
    ValueType.INT: -INT_MAX - 1,
    ValueType.LONG: -LONG_MAX - 1,
}


def trim(text: str) -> str:
    """Removes what Java's trim removes at both ends: ASCII control characters and spaces only.

    >>> trim("\\t\\x007 "), trim("\\N{NO-BREAK SPACE}7") == "7"
    ('7', False)
    """
    return text.strip(_BLANKS)


def whole(text: str) -> int:
    """Returns the integer value of a text that is known to be a valid integer.

    >>> whole(" -007 "), whole("0" * 5_000)
    (-7, 0)
    """
    # Python's int() accepts some 4,000 digits at most; Java allows any number of leading zeros.
    trimmed = trim(text)
    return int(("-" if trimmed.startswith("-") else "") + (_significant(trimmed) or "0"))


def is_true(text: str) -> bool:
    """Returns whether a config value is true, in any case, with blanks around; any other text is false."""
    return trim(text).lower() == "true"


def is_too_long(text: str) -> bool:
    """Returns whether a value exceeds `VALUE_CHARS_MAX`."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 > VALUE_CHARS_MAX


def integer(low: int | None = None, high: int | None = None, of: ValueType = ValueType.INT) -> Values:
    """Makes the rule for whole numbers from `low` to `high`, both inclusive; without them, of the whole range of `of`.

    >>> integer(1, 9).takes(" +7 "), integer(1, 9).takes("10"), integer().takes("1_0")
    (True, False, False)
    """
    lowest = _LOWEST[of] if low is None else low
    highest = -_LOWEST[of] - 1 if high is None else high
    assert _LOWEST[of] <= lowest <= highest < -_LOWEST[of], (of, low, high)

    def takes(text: str) -> bool:
        trimmed = trim(text)
        return (
            _INTEGER.fullmatch(trimmed) is not None
            and len(_significant(trimmed)) <= _LONG_DIGITS
            and lowest <= whole(trimmed) <= highest
        )

    return Values(of, f"a whole number from {lowest} to {highest}", takes)


def long(low: int | None = None, high: int | None = None) -> Values:
    """Makes the rule for whole numbers of 64 bits, from `low` to `high` if given, both inclusive."""
    return integer(low, high, ValueType.LONG)


def decimal(low: float = -math.inf, high: float = math.inf) -> Values:
    """Makes the rule for decimal numbers from `low` to `high`; as in Java, NaN is accepted in any range.

    >>> decimal(0, 1).takes("1e-1"), decimal(0, 1).takes("NaN"), decimal(0, 1).takes("1.5")
    (True, True, False)
    """

    assert low < high, (low, high)

    def takes(text: str) -> bool:
        if _DECIMAL.fullmatch(trim(text)) is None:
            return False
        number = float(trim(text).rstrip("fFdD"))
        return math.isnan(number) or low <= number <= high

    return Values(ValueType.DOUBLE, "a number" if low == -math.inf else f"a number from {low} to {high}", takes)


def boolean() -> Values:
    """Makes the rule for true or false, in any case."""
    return Values(ValueType.BOOLEAN, "true or false", lambda text: trim(text).lower() in ("true", "false"))


def one_of(*allowed: str) -> Values:
    """Makes the rule for one of these words, in exactly this spelling; blanks around it are ignored."""
    assert all(trim(word) == word for word in allowed), allowed
    return Values(ValueType.STRING, "one of " + ", ".join(allowed), lambda text: trim(text) in allowed)


def list_of(*allowed: str) -> Values:
    """Makes the rule for a comma-separated list of these words, in this spelling: in any order, repeated, or empty."""
    assert list(allowed) == items(",".join(allowed)), allowed

    def takes(text: str) -> bool:
        return all(part in allowed for part in items(text))

    return Values(ValueType.LIST, "a list of " + ", ".join(allowed), takes)


def names(*, least: int = 0, twice: bool = False) -> Values:
    """Makes the rule for a comma-separated list of any words; duplicates are refused unless `twice`.

    >>> names().takes("a, b"), names().takes("a,a"), names().takes("a,"), names().takes(""), names(least=1).takes("")
    (True, False, False, True, False)
    """

    def takes(text: str) -> bool:
        parts = items(text)
        return all(parts) and len(parts) >= least and (twice or len(set(parts)) == len(parts))

    return Values(ValueType.LIST, f"a list{' of at least one' if least else ''}{'' if twice else ', each once'}", takes)


def text() -> Values:
    """Makes the rule for a config of Kafka's type STRING for which every text is valid."""
    return Values(ValueType.STRING, "text", lambda _: True)


def password() -> Values:
    """Makes the rule for a password: any text, never returned to a client."""
    return Values(ValueType.PASSWORD, "text", lambda _: True)


def java_class() -> Values:
    """Makes the rule for a class name: any text but blanks, as only the broker's JVM knows whether the class exists."""
    return Values(ValueType.CLASS, "the name of a Java class", lambda text: bool(trim(text)))


def gzip_level() -> Values:
    """Makes the rule for gzip levels: 1 to 9, or -1 for the default."""
    levels = integer(-1, 9)
    return Values(
        levels.type, "a whole number from 1 to 9, or -1", lambda text: levels.takes(text) and whole(text) != 0
    )


def items(text: str) -> list[str]:
    """Splits a list value as Kafka's ConfigDef does.

    >>> items(" a , b,"), items(" ")
    (['a', 'b', ''], [])
    """
    trimmed = trim(text)
    return [part.strip(_SPACES) for part in trimmed.split(",")] if trimmed else []


def split(text: str) -> list[str]:
    """Splits a list value as Java's String.split does: blanks are kept, empty parts at the end are dropped.

    >>> split("a, b,,"), split(""), split(",")
    (['a', ' b'], [''], [])
    """
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


def _significant(number: str) -> str:
    return number.lstrip("+-").lstrip("0")
