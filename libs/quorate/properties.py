"""Parses Java properties files, such as `server.properties` and `meta.properties`."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["parse_properties"]

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"


def parse_properties(text: str) -> dict[str, str]:
    r"""Returns keys and values in file order; of a repeated key the last value counts, as in Java.

    Raises ValueError, naming the line, if a \u escape is not four hexadecimal digits.

    >>> parse_properties("node.id=1\n# comment\nlog.dirs = /a,\\\n   /b\n")
    {'node.id': '1', 'log.dirs': '/a,/b'}
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            properties[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields each entry with the number of its first line: comments removed, continued lines joined."""
    held, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = natural.lstrip(_BLANK)
        # Only a line that begins an entry can be a comment or blank: a continuation line is used unchanged.
        if not held and (not line or line[0] in "#!"):
            continue
        first = first if held else number
        held += line
        if _continues(line):
            held = held[:-1]
            continue
        yield first, held
        held = ""
    if held:
        yield first, held


def _continues(line: str) -> bool:
    """Returns whether `line` ends in an odd number of backslashes, and so continues on the next line."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Splits an entry into key and value, still escaped, at the first unescaped `=`, `:` or blank."""
    key = re.match(r"(?:\\.|[^\\=: \t\f])*", line)
    assert key is not None, line
    rest = line[key.end() :].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return key.group(), rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = re.sub(r"\\(u.{0,4}|.?)", _escape, text, flags=re.DOTALL)
    # Java writes a character above U+FFFF as two escapes; here they are joined.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(match: re.Match[str]) -> str:
    escape = match.group(1)
    if not escape.startswith("u"):
        return _ESCAPES.get(escape, escape)
    if not re.fullmatch(r"u[0-9a-fA-F]{4}", escape):
        raise ValueError(f"{match.group()!r} is not an escape: \\u takes four hexadecimal digits")
    return chr(int(escape[1:], 16))
