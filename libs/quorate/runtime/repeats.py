"""What is worth a line in the log although whoever causes it may do so again and again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

__all__ = ["RepeatFilter"]

TEXTS_MAX: Final = 64
"""How many texts are remembered; with more than these, a text may pass again too early."""
AGAIN_S: Final = 3600.0
"""After this time (s) a text passes again, so that the last hour of a log shows what is still wrong."""
APART_S: Final = 1.0
"""The least time (s) between two lines, because a caller may send another text in each of its requests."""


class RepeatFilter:
    """Lets each text pass once an hour, and at most one a second.

    >>> news = RepeatFilter()
    >>> told = (("a", 0), ("a", 5), ("b", 6), ("c", 6.5), ("c", 8), ("a", 3600))
    >>> [news.passes(text, now_s) for text, now_s in told]
    [True, False, True, False, True, True]
    """

    def __init__(self) -> None:
        self._passed: OrderedDict[str, float] = OrderedDict()
        """When each text may pass again, in the order in which they passed."""
        self._next_s = float("-inf")

    def passes(self, text: str, now_s: float) -> bool:
        """Returns whether `text` is to be told at this time (s) of a monotonic clock."""
        if now_s < max(self._next_s, self._passed.get(text, self._next_s)):
            return False
        self._next_s = now_s + APART_S
        self._passed[text] = now_s + AGAIN_S
        self._passed.move_to_end(text)
        if len(self._passed) > TEXTS_MAX:
            self._passed.popitem(last=False)
        return True
