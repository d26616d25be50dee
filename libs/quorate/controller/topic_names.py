"""Which names topics may have."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["INTERNAL_TOPICS", "fault_of_name"]

NAME_CHARS_MAX: Final = 249
"""So that the name of a partition's directory, with a number and a suffix for deletion, fits into 255."""

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that brokers make for themselves."""

_ALLOWED: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def fault_of_name(name: str) -> str | None:
    """What is wrong with a topic's name, in a sentence; None if nothing is.

    >>> fault_of_name("orders"), fault_of_name("..")
    (None, "a topic cannot be named '..'")
    """
    if name in ("", ".", ".."):
        return f"a topic cannot be named {name!r}"
    if len(name) > NAME_CHARS_MAX:
        return f"the topic name {name[:20]!r}… has {len(name)} characters; at most {NAME_CHARS_MAX} are allowed"
    if _ALLOWED.fullmatch(name) is None:
        return f"the topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'"
    return None
