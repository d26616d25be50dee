"""Prints doubles as Java does, also in JSON as Kafka's tools print them: NaN and infinities are strings there."""

from __future__ import annotations

import json
import math
import re
import secrets
from dataclasses import dataclass
from typing import Any

__all__ = ["Double", "double_json", "double_text", "dumps"]


def double_text(value: float) -> str:
    """Returns a double as Java's Double.toString prints it: the fewest digits that read back as equal, at least two.

    Java before 19 prints one more digit for some values (JDK-4511638).

    >>> double_text(1000.0), double_text(1e7), double_text(0.0001), double_text(5e-324), double_text(float("-inf"))
    ('1000.0', '1.0E7', '1.0E-4', '4.9E-324', '-Infinity')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    digits, point = _digits(abs(value))
    if value == 0 or -3 < point <= 7:
        whole, fraction = digits[: max(point, 0)], "0" * -point + digits[max(point, 0) :]
        return f"{sign}{(whole or '0').ljust(point, '0')}.{fraction or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(value: float) -> tuple[str, int]:
    """Returns the digits d and the exponent e of 0.d · 10^e, without zeros at either end, except for 0 itself."""
    mantissa, _, exponent = repr(value).partition("e")
    if len(mantissa.replace(".", "").strip("0")) < 2:
        # Where one digit is enough, Java prints the two digits that are nearest to the value.
        mantissa, _, exponent = f"{value:.1e}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return digits.rstrip("0"), point


def double_json(value: float) -> str:
    """Returns a double as Kafka's JSON has it: a number; for NaN and infinities a string (WriteNaNAsStrings)."""
    text = double_text(value)
    return text if math.isfinite(value) else f'"{text}"'


@dataclass(frozen=True, slots=True)
class Double:
    """A double in a JSON document, which `dumps` prints as Java does."""

    value: float

    def __str__(self) -> str:
        return double_text(self.value)


def dumps(document: Any, *, separators: tuple[str, str] = (", ", ": "), ensure_ascii: bool = True) -> str:
    """Returns a document as `json.dumps` does, with each `Double` in it printed as Kafka does."""
    # Any: JSON values.
    mark = f"{secrets.token_hex(16)}:"  # json has its own form of floats, so they go in as marked strings

    def marked(value: object) -> str:
        if not isinstance(value, Double):
            raise TypeError(f"{type(value).__name__} is no JSON value")
        return f"{mark}{value}" if math.isfinite(value.value) else str(value)

    text = json.dumps(document, separators=separators, ensure_ascii=ensure_ascii, default=marked)
    return re.sub(f'"{mark}([^"]*)"', r"\1", text) if mark in text else text
