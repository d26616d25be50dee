"""What is worth a line in the log although whoever causes it may do so again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

__all__ = ["ChangeFilter", "RepeatFilter"]

TEXTS_MAX: Final = 64
"""How many texts are remembered; with more than these, a text may pass again too early."""
AGAIN_S: Final = 3600.0
"""After this time (s) a text passes again, so that the last hour of a log shows what is still wrong."""
APART_S: Final = 1.0
"""The least time (s) between two lines, because a caller may send another text in each of its requests."""
SUBJECTS_MAX: Final = 256
"""How many subjects' states are remembered; with more than these, a state may pass again too early."""
REMIND_S: Final = 60.0
"""How often (s) a state is told while it lasts: often enough for the last screen of a log, and no flood."""


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


class ChangeFilter:
    """Lets a state pass when it is another than was told of its subject, and once a minute while it lasts.

    A subject that goes to and fro has one line a second at most. The last state is told in the end, if it is asked for
    again.

    >>> news = ChangeFilter()
    >>> told = (("peer", "refused", 0), ("peer", "refused", 5), ("peer", "no route", 6), ("peer", "no route", 66))
    >>> [news.passes(subject, state, now_s) for subject, state, now_s in told]
    [True, False, True, True]
    >>> news.settle("peer"), news.settle("peer"), news.passes("peer", "no route", 67)
    (True, False, True)
    """

    def __init__(self) -> None:
        self._told: OrderedDict[Hashable, tuple[str, float]] = OrderedDict()
        """The last state that was told of each subject, and when."""

    def passes(self, subject: Hashable, state: str, now_s: float) -> bool:
        """Returns whether `state` of `subject` is to be told at this time (s) of a monotonic clock."""
        told, told_s = self._told.get(subject, (None, float("-inf")))
        if now_s < told_s + (REMIND_S if state == told else APART_S):
            return False
        self._told[subject] = state, now_s
        self._told.move_to_end(subject)
        if len(self._told) > SUBJECTS_MAX:
            self._told.popitem(last=False)
        return True

    def settle(self, subject: Hashable) -> bool:
        """Forgets `subject`, which is well again; returns whether a state of it was told."""
        return self._told.pop(subject, None) is not None
