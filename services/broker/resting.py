"""Partitions of followers' fetch sessions that rest: until something happens to one, no fetch looks at it.

A follower of a thousand partitions fetches all of them twice a second at least, and most have nothing new. One rests in
a session while its follower has all of it, is in the ISR, and knows the high watermark and the log's start
(`Leading.rests`). Any event of a partition wakes it, and only then is noted that its follower went on to fetch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from quorate.nouns import NodeId
from quorate.replication import Progress
from services.broker.table import Key

__all__ = ["Rest", "Resting"]

T = TypeVar("T")


class Resting:
    """The partitions that rest in followers' fetch sessions: until one wakes, no fetch of the session looks at it.

    Each rests in one session of a follower at most.
    """

    def __init__(self) -> None:
        self._rests: dict[Key, dict[NodeId, Rest[Any]]] = {}

    def wake(self, key: Key) -> None:
        """Wakes a partition in each session that it rests in; to be called before anything else looks at it."""
        for rest in tuple(self._rests.get(key, {}).values()):
            rest.wake(key)

    def enter(self, key: Key, rest: Rest[Any]) -> None:
        """Notes that a partition rests in this session; in an earlier session of the same follower it is woken."""
        rests = self._rests.setdefault(key, {})
        if (before := rests.get(rest.follower)) is not None:
            before.wake(key)  # which takes the entry away if it was the last
        self._rests.setdefault(key, rests)[rest.follower] = rest

    def leave(self, key: Key, rest: Rest[Any]) -> None:
        """Notes that a partition does not rest in this session any more."""
        rests = self._rests[key]
        assert rests[rest.follower] is rest, key  # in another session it would rest unseen, and never wake
        del rests[rest.follower]
        if not rests:
            del self._rests[key]


class Rest(Generic[T]):
    """The partitions that rest in one follower's fetch session: until one wakes, no fetch looks at it.

    Each has what the session keeps of it, a `T`.
    """

    def __init__(self, resting: Resting, follower: NodeId) -> None:
        self.follower = follower
        self.fetched_at_ms = 0
        """The time of the last fetch that was for these, too."""
        self.on_wake: Callable[[Key, T], None] | None = None
        """Hears of each that wakes while a fetch waits."""
        self._resting = resting
        self._partitions: dict[Key, tuple[Progress, T]] = {}
        self._woken: list[T] = []
        self._is_over = False

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, key: Key, progress: Progress, of: T) -> bool:
        """Lets a partition rest until `wake`; returns False if the session is over, and then it does not rest."""
        if self._is_over:
            return False
        self._resting.enter(key, self)
        self._partitions[key] = progress, of
        return True

    def wake(self, key: Key) -> None:
        """Wakes a partition, and counts the follower's fetches of it while it rested; nothing if it does not rest.

        The session has it in `take_woken` then, and `on_wake` hears of it.
        """
        if (found := self._partitions.pop(key, None)) is None:
            return
        self._resting.leave(key, self)
        progress, of = found
        progress.repeat_fetch(self.fetched_at_ms)
        if self._is_over:
            return
        self._woken.append(of)
        if self.on_wake is not None:
            self.on_wake(key, of)

    @property
    def partitions(self) -> tuple[Key, ...]:
        """The partitions that rest now."""
        return tuple(self._partitions)

    def take_woken(self) -> list[T]:
        """Returns what the session has of the partitions that have woken since the last call."""
        woken, self._woken = self._woken, []
        return woken

    def end(self) -> None:
        """Ends the session: nothing is in `take_woken` any more.

        Its partitions stay until each wakes: then the follower's fetches are counted.
        """
        self._is_over, self.on_wake = True, None
        self._woken.clear()
