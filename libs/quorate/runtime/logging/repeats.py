"""Events that are worth a line in the log although their cause may come again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

__all__ = ["AT_START_S", "ChangeFilter", "RepeatFilter"]

TEXTS_MAX: Final = 64
"""How many texts are remembered; with more than these, a text may pass again too early."""
AGAIN_S: Final = 3600.0
"""After this time (s) a text passes again, so that the last hour of a log shows what is still wrong."""
APART_S: Final = 1.0
"""The least time (s) between two lines, because a caller may send another text in each of its requests."""
SUBJECTS_MAX: Final = 256
"""How many subjects' states are remembered; with more than these, a state may pass again too early."""
REMIND_S: Final = 60.0
"""How often (s) a state is logged while it lasts: often enough for the last screen of a log, and no flood."""
AT_START_S: Final = 10.0
"""How long (s) another process may be away before it is logged: a failover, or a start of all at once, takes less."""


class RepeatFilter:
    """Decides which texts are logged: each of them once an hour, and one a second at most.

    >>> news = RepeatFilter()
    >>> logged = (("a", 0), ("a", 5), ("b", 6), ("c", 6.5), ("c", 8), ("a", 3600))
    >>> [news.passes(text, now_s) for text, now_s in logged]
    [True, False, True, False, True, True]
    """

    def __init__(self) -> None:
        self._passed: OrderedDict[str, float] = OrderedDict()
        """When each text may pass again, in the order in which they passed."""
        self._next_s = float("-inf")

    def passes(self, text: str, now_s: float) -> bool:
        """Returns whether `text` is to be logged at `now_s` (of a monotonic clock), and then remembers it as logged."""
        if now_s < max(self._next_s, self._passed.get(text, self._next_s)):
            return False
        self._next_s = now_s + APART_S
        self._passed[text] = now_s + AGAIN_S
        self._passed.move_to_end(text)
        if len(self._passed) > TEXTS_MAX:
            self._passed.popitem(last=False)
        return True


class ChangeFilter:
    """Decides which states of subjects (peers that fail, say) are logged: changes, and once a minute while one lasts.

    A subject that goes to and fro has one line a second at most. The last state is logged in the end, if it is asked
    for again. Nothing is logged of a subject that has been unwell for less than `after_s`.

    >>> news = ChangeFilter()
    >>> logged = (("peer", "refused", 0), ("peer", "refused", 5), ("peer", "no route", 6), ("peer", "no route", 66))
    >>> [news.passes(subject, state, now_s) for subject, state, now_s in logged]
    [True, False, True, True]
    >>> news.settle("peer"), news.settle("peer"), news.passes("peer", "no route", 67)
    (True, False, True)
    >>> lasting = ChangeFilter(after_s=10)
    >>> [lasting.passes("peer", "refused", now_s) for now_s in (0, 9, 10, 11)]
    [False, False, True, False]
    """

    def __init__(self, *, after_s: float = 0.0) -> None:
        self._after_s = after_s
        self._unwell_since_s: OrderedDict[Hashable, float] = OrderedDict()
        self._told: OrderedDict[Hashable, tuple[str, float]] = OrderedDict()
        """The last state that was logged of each subject, and when."""

    def passes(self, subject: Hashable, state: str, now_s: float) -> bool:
        """Returns whether `state` of `subject` is to be logged at `now_s` (of a monotonic clock), and notes that.

        From the first call on the subject is unwell, until `settle`.
        """
        since_s = self._unwell_since_s.setdefault(subject, now_s)
        _forget_the_oldest(self._unwell_since_s)
        told, told_s = self._told.get(subject, (None, float("-inf")))
        if now_s < max(since_s + self._after_s, told_s + (REMIND_S if state == told else APART_S)):
            return False
        self._told[subject] = state, now_s
        self._told.move_to_end(subject)
        _forget_the_oldest(self._told)
        return True

    def settle(self, subject: Hashable) -> bool:
        """Forgets `subject`, which is well again; returns whether a state of it was logged."""
        self._unwell_since_s.pop(subject, None)
        return self._told.pop(subject, None) is not None

    def lasts_s(self, subject: Hashable, now_s: float) -> float:
        """Returns for how long (s) `subject` has been unwell; 0 for one that is well."""
        return now_s - self._unwell_since_s.get(subject, now_s)


def _forget_the_oldest(subjects: OrderedDict[Hashable, Any]) -> None:
    if len(subjects) > SUBJECTS_MAX:
        subjects.popitem(last=False)
