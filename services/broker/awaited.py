"""Followers that have not fetched yet what this broker has begun to lead: their fetches do not wait long until then.

A follower names all that it follows in one fetch at a time, and one that was sent before may wait for half a second, as
may the next one of a follower that hears of the partition later than its leader. Meanwhile acks=all has to wait, too.
So the fetch that waits is answered, and those after it are short. Kafka's leader lets them wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from quorate.nouns import NodeId
from quorate.replication import FetchWait
from services.broker.table import Key

__all__ = ["Awaited"]

SHORT_MS: Final = 20
"""How long a fetch of such a follower waits at most."""
EXPECTED_MS: Final = 2_000
"""So long for each partition; a follower that does not fetch it by then has a reason of its own."""

_Wait: TypeAlias = FetchWait[Key]


class Awaited:
    """Followers that have not fetched yet what this broker has begun to lead: until then their fetches wait `SHORT_MS`.

    A follower is expected to fetch a partition from `expect` on, until `heard`, or for `EXPECTED_MS`.
    """

    def __init__(self, *, end: Callable[[_Wait], None]) -> None:
        """`end` has a fetch answered with what there is."""
        self._end = end
        self._until_ms: dict[NodeId, OrderedDict[Key, int]] = {}
        """Until when, the earliest first."""
        self._waits: dict[NodeId, dict[int, _Wait]] = {}
        """By the `id` of the wait."""

    def expect(self, key: Key, followers: Iterable[NodeId], *, now_ms: int) -> None:
        """Notes that these followers are to fetch a partition. Their fetches that are held now are answered, by `end`.

        `now_ms` is of the monotonic clock. After `EXPECTED_MS` nothing is expected of a follower there any more.
        """
        for follower in followers:
            self._forget_late(follower, now_ms)
            until_ms = self._until_ms.setdefault(follower, OrderedDict())
            until_ms.pop(key, None)  # to the end of the order
            until_ms[key] = now_ms + EXPECTED_MS
            # The first that is not late ends the search.
            assert until_ms[next(iter(until_ms))] <= until_ms[key], until_ms
            for wait in tuple(self._waits.get(follower, {}).values()):
                self._end(wait)

    def heard(self, follower: NodeId, key: Key) -> None:
        """Notes that a follower has fetched a partition: nothing is expected of it there any more."""
        if (until_ms := self._until_ms.get(follower)) is not None:
            until_ms.pop(key, None)
            if not until_ms:
                del self._until_ms[follower]

    def wait_ms_max(self, follower: NodeId, *, now_ms: int) -> int | None:
        """Returns how many ms a fetch of this follower may wait: `SHORT_MS` while it is expected to fetch a partition.

        None if nothing is expected of it: the fetch waits as long as its request says.
        """
        self._forget_late(follower, now_ms)
        return SHORT_MS if follower in self._until_ms else None

    @contextmanager
    def waiting(self, follower: NodeId, wait: _Wait) -> Iterator[None]:
        """While the block runs, `wait` is a fetch of this follower that is held, and that `expect` may end.

        No wait may be in two blocks at once.
        """
        waits = self._waits.setdefault(follower, {})
        assert id(wait) not in waits, (follower, wait)  # its end would take the place of both
        waits[id(wait)] = wait
        try:
            yield
        finally:
            del waits[id(wait)]
            if not waits:
                del self._waits[follower]

    def _forget_late(self, follower: NodeId, now_ms: int) -> None:
        until_ms = self._until_ms.get(follower)
        while until_ms and until_ms[key := next(iter(until_ms))] <= now_ms:
            self.heard(follower, key)
