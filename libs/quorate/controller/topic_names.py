"""Validation of topic names, and the names of Kafka's internal topics."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["INTERNAL_TOPICS", "fault_of_name"]

NAME_CHARS_MAX: Final = 249
"""The longest topic name: a partition's directory name, with number and deletion suffix, must fit into 255 bytes."""

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that brokers create for their own use."""

_ALLOWED: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def fault_of_name(name: str) -> str | None:
    """Returns what is wrong with a topic name, as a sentence; None if it is valid.

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


assert not any(map(fault_of_name, INTERNAL_TOPICS)), INTERNAL_TOPICS
