"""JSON that somebody has written for a command: what is wrong in it is misuse, in words."""

from __future__ import annotations

import json
from typing import Any, Final

from quorate.cli.failures import Misused

__all__ = ["given_json"]

DEPTH_MAX: Final = 100
"""Lists and objects in each other; protobuf's limit, too."""


def given_json(name: str, data: bytes) -> Any:
    """Returns the Python values of a text in JSON (RFC 8259, UTF-8). `name` says in errors where it is from.

    Raises Misused for what is no JSON, for more than 100 lists in each other, and for numbers of 4,301 digits and more.
    """
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_refused)
    except UnicodeDecodeError as problem:
        raise Misused(f"{name} is no UTF-8 text: byte {problem.start}") from None
    except json.JSONDecodeError as problem:
        raise Misused(f"{name} is no JSON at line {problem.lineno}, column {problem.colno}: {problem.msg}") from None
    except RecursionError:
        raise Misused(_too_deep(name)) from None
    except ValueError as problem:
        raise Misused(f"{name} is no JSON that can be read: {problem}".partition(";")[0]) from None
    if _is_deep(document):
        raise Misused(_too_deep(name))
    return document


def _is_deep(document: Any) -> bool:
    level = [document]
    for _ in range(DEPTH_MAX):
        inner = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [each for values in inner for each in values]
    return any(isinstance(each, dict | list) for each in level)


def _refused(name: str) -> float:
    raise ValueError(f"{name} is none of its numbers")


def _too_deep(name: str) -> str:
    return f"{name} has more than {DEPTH_MAX} lists or objects in each other"
