"""Text of files and requests, so that it cannot control the terminal on which it is printed."""

from __future__ import annotations

import json

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Returns text with each non-printable character as its escape in JSON, of which JSON text means the same.

    >>> print(printable("a\x1b[2Jb\nc\x9bd"))
    a\u001b[2Jb\nc\u009bd
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
