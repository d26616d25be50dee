"""Hides the secrets inside a text for a log, in time that grows with the text and no faster.

The texts quote what callers sent, before a login too, and are looked through in the event loop. So no pattern here can
take a character back (each repetition is possessive), none begins inside of a word, and a long text is cut before.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["HIDDEN", "shown"]

HIDDEN: Final = "***"
LOOKED_AT: Final = 4
"""How many times as many characters as are shown are looked through: a secret that is hidden makes room for others."""

_WORDS: Final = ("password", "passwd", "passphrase", "secret", "token", "credential", "hmac")
_KEY: Final = re.compile(r"""(?<![\w.-])[\w.-]++(?:["']\s*+[=:]\s*+(?=["'])|\s*+[=:]\s*+)""")
"""A key in quotes is one only before a value in quotes: topic 'token-events': its name …"""
_QUOTED: Final = re.compile(r"""\"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)""")
"""A quote that is not closed hides all that follows it."""
_PLAIN: Final = re.compile(r"[^\s,;]*+")
_SCHEME: Final = re.compile(r"(?i)\b(bearer|basic|delegationtoken)\s++[\w.~+/=:-]++")
_USER: Final = re.compile(r"://[^\s/?#:@]*+:")
_BLANK: Final = re.compile(r"\s")
_MORE_OF_PASSWORD: Final = re.compile(r"(?:[^\s/?#@]*+@)*+")


def shown(text: str, limit: int) -> str:
    """Returns at most `limit` characters of a text, with the secrets in it hidden, and how long it was if it is cut.

    >>> shown("a?token=xyz, 'password': 'two words'; postgresql://me:hunter/2@host", 80)
    "a?token=***, 'password': ***; postgresql://me:***@host"
    >>> shown("x" * 100, 5)
    'xxxxx … 100 characters'
    """
    looked_at = text[: LOOKED_AT * limit]
    is_cut = len(looked_at) < len(text)
    hidden = _SCHEME.sub(rf"\1 {HIDDEN}", _hide_values(_hide_passwords(looked_at, is_cut=is_cut)))
    if not is_cut and len(hidden) <= limit:
        return hidden
    return f"{hidden[:limit]} … {len(text)} characters"


def _hide_values(text: str) -> str:
    """Hides what stands after `=` or `:` where the word before says that it is a secret."""
    parts, at = [], 0
    while (key := _KEY.search(text, at)) is not None:
        parts.append(text[at : key.end()])
        at = key.end()
        word = key[0].lower()
        if any(each in word for each in _WORDS):
            value = _QUOTED.match(text, at) or _PLAIN.match(text, at)
            assert value is not None, text
            parts += [HIDDEN] if value[0] else []
            at = value.end()
    return "".join([*parts, text[at:]])


def _hide_passwords(text: str, *, is_cut: bool) -> str:
    """Hides the passwords of URLs.

    A password may contain slashes; if an @ in it is not escaped, the last @ before the path ends it. If the text is cut
    before any, the rest may be one.
    """
    parts, at, word_end = [], 0, -1
    while (user := _USER.search(text, at)) is not None:
        if user.end() > word_end:
            word_end = _end_of_word(text, user.end())
        parts.append(text[at : user.end()])
        at = user.end()
        first = text.find("@", at, word_end)
        if first >= 0:
            more = _MORE_OF_PASSWORD.match(text, first + 1)
            assert more is not None, text
            parts.append(HIDDEN)
            at = more.end() - 1
        elif is_cut and word_end == len(text):
            return "".join([*parts, HIDDEN])
        else:  # no address in the rest of this word has a password
            parts.append(text[at:word_end])
            at = word_end
    return "".join([*parts, text[at:]])


def _end_of_word(text: str, at: int) -> int:
    blank = _BLANK.search(text, at)
    return len(text) if blank is None else blank.start()
