"""How many bytes the connections of one process hold together, and which has to go when that is too much.

A process cannot wait for room as Kafka does: who sends the half of many requests would keep all others waiting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

__all__ = ["HELD_BYTES_MAX", "Buffers"]

HELD_BYTES_MAX: Final = 64 << 20
"""Sixteen of the largest requests; honest clients of controllers have some kilobytes open together."""

Leave = Callable[[str], None]
"""Ends a connection, and hears why."""


class Buffers:
    """Counts the bytes that all connections hold, and ends the one with most if they are more than `limit`.

    Counted are requests that are not whole, requests under way, and answers that the client has not taken.
    """

    def __init__(self, limit: int = HELD_BYTES_MAX) -> None:
        assert limit > 0, limit
        self._limit = limit
        self._held: dict[object, tuple[str, int, Leave]] = {}
        self._total = 0

    @property
    def total(self) -> int:
        """How many bytes are held now."""
        return self._total

    def note(self, holder: object, host: str, size: int, leave: Leave) -> None:
        """Notes that the connection `holder` from `host` holds `size` bytes now; 0 forgets it.

        While there are too many in all, the connection with most, of the address with most, is ended: its `leave` is
        called with the reason. That may be this one.
        """
        self._set(holder, host, size, leave)
        while self._total > self._limit:
            largest, (whose, held, go) = self._largest()
            self._set(largest, whose, 0, go)
            go(
                f"all connections hold more than queued.max.request.bytes = {self._limit} together, those from {whose} "
                f"the most, and of them this one with {held} bytes"
            )

    def _set(self, holder: object, host: str, size: int, leave: Leave) -> None:
        before = self._held.get(holder)
        self._total += size - (before[1] if before else 0)
        if size:
            self._held[holder] = host, size, leave
        elif before:
            del self._held[holder]

    def _largest(self) -> tuple[object, tuple[str, int, Leave]]:
        by_host: Counter[str] = Counter()
        for host, size, _ in self._held.values():
            by_host[host] += size
        ((host, _),) = by_host.most_common(1)
        return max((each for each in self._held.items() if each[1][0] == host), key=lambda each: each[1][1])
