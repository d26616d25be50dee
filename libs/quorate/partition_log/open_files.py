"""Which sealed segments have their files open: a number of them, those that were read last.

A segment has three descriptors, and who may write can make very many segments: a batch with a timestamp a week ahead
begins one. All of them open would be more than a process may have, and the next `open` the end of a broker.
"""

from __future__ import annotations

import resource
from collections import OrderedDict
from typing import Final, Protocol

__all__ = ["OpenFiles"]

SEGMENTS_MAX: Final = 1_000
SHARE: Final = 8
"""Of this many descriptors of the process one segment's: a quarter to a half of them is for sealed segments."""


class Rests(Protocol):
    """A sealed segment."""

    def rest(self) -> None:
        """Closes its files until they are read again."""


class OpenFiles:
    """Bounds how many sealed segments have their files open: it closes those of the one that was read longest ago.

    It is for one thread: another one may be reading what this one closes.
    """

    def __init__(self, at_most: int | None = None) -> None:
        """`at_most` segments; without it as many as the process's limit of descriptors has room for."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._at_most = at_most or max(1, min(SEGMENTS_MAX, limit // SHARE if limit > 0 else SEGMENTS_MAX))
        self._open: OrderedDict[Rests, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def note(self, segment: Rests) -> None:
        """Notes that a segment is read now. If too many are open, the files of the one read longest ago are closed."""
        self._open[segment] = None
        self._open.move_to_end(segment)
        if len(self._open) > self._at_most:
            self._open.popitem(last=False)[0].rest()

    def forget(self, segment: Rests) -> None:
        """Notes that a segment is closed, or is appended to again."""
        self._open.pop(segment, None)

    def rest_all(self) -> None:
        """Closes the files of all, until they are read again."""
        while self._open:
            self._open.popitem()[0].rest()
