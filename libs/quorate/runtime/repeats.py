"""What is worth a line in the log although whoever causes it may do so again and again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["RepeatFilter"]

TEXTS_MAX: Final = 64
"""Most texts that are remembered: as many mistakes of other nodes are told apart."""
APART_S: Final = 1.0
"""At least so long between two lines: a stranger may make up a text for each of its requests."""


class RepeatFilter:
    """Lets each text pass once, and at most one a second.

    >>> news = RepeatFilter()
    >>> [news.passes(text, now_s) for text, now_s in (("a", 0.0), ("a", 5.0), ("b", 6.0), ("c", 6.5), ("c", 8.0))]
    [True, False, True, False, True]
    """

    def __init__(self) -> None:
        self._passed: OrderedDict[str, None] = OrderedDict()
        self._next_s = float("-inf")

    def passes(self, text: str, now_s: float) -> bool:
        """Returns whether `text` is to be told at this time (s) of a monotonic clock."""
        if text in self._passed:
            self._passed.move_to_end(text)
            return False
        if now_s < self._next_s:
            return False
        self._next_s = now_s + APART_S
        self._passed[text] = None
        if len(self._passed) > TEXTS_MAX:
            self._passed.popitem(last=False)
        return True
