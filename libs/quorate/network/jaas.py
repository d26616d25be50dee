"""The options of a JAAS configuration, the language of `sasl.jaas.config`: `…LoginModule required name="value" …;`."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["options"]

_WORD: Final = r"[^\s;=\"']+"
_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_OPTION: Final = re.compile(rf"\s*({_WORD})\s*=\s*({_QUOTED}|{_WORD})", re.DOTALL)
_ENTRY: Final = re.compile(
    rf"\s*(?P<module>{_WORD})\s+(?i:required|requisite|sufficient|optional)"
    rf"(?P<options>(?:\s+{_WORD}\s*=\s*(?:{_QUOTED}|{_WORD}))*)\s*;\s*",
    re.DOTALL,
)


def options(text: str) -> dict[str, str]:
    """Returns the options of the one login module in `text`. Raises ValueError, which shows no value of them.

    >>> options('PlainLoginModule required username="a b" user_b=\\'c"d\\';')
    {'username': 'a b', 'user_b': 'c"d'}
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise ValueError('it is like `…LoginModule required username="…" password="…";`, with the semicolon')
    found: dict[str, str] = {}
    for name, value in _OPTION.findall(entry["options"]):
        if name in found:
            raise ValueError(f"the option {name} is there twice")
        quoted = value[:1] in "\"'"
        found[name] = re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if quoted else value
    return found
