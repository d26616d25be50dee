"""Time: one timeline of events for the world, and a clock for each node that may run fast, slow or far off."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]

EVENTS_A_MS_MAX = 20_000
"""More within one millisecond is a circle."""


class Timeline:
    """Events in the order of their time, and of their making within one millisecond."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._queue: list[tuple[int, int, Action]] = []
        self._count = 0

    def at(self, delay_ms: int, action: Action) -> None:
        """`action` happens `delay_ms` from now."""
        assert delay_ms >= 0, delay_ms
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._count, action))

    def run_until(self, end_ms: int) -> None:
        """Everything that is due by `end_ms` happens."""
        queue, count = self._queue, 0
        while queue and queue[0][0] <= end_ms:
            at_ms, _, action = heapq.heappop(queue)
            count = count + 1 if at_ms == self.now_ms else 0
            assert count < EVENTS_A_MS_MAX, f"time stands still at {at_ms} ms: {action}"
            self.now_ms = at_ms
            action()
        self.now_ms = end_ms


class Clock:
    """What one node reads: a monotonic clock at `rate` thousandths of the world's, and a wall clock that is set."""

    def __init__(self, timeline: Timeline, *, rate: int, base_ms: int) -> None:
        self._timeline = timeline
        self._rate = rate
        self._base_ms = base_ms
        self._since_ms = timeline.now_ms
        self.wall_step_ms = 0
        """By how much somebody has set the wall clock; the core must not see it."""

    @property
    def now_ms(self) -> int:
        """Monotonic."""
        return self._base_ms + (self._timeline.now_ms - self._since_ms) * self._rate // 1000

    @property
    def wall_ms(self) -> int:
        """The time of day as this node believes it."""
        return self.now_ms + self.wall_step_ms

    def set_rate(self, rate: int) -> None:
        """From now on it runs at `rate` thousandths."""
        self._base_ms, self._since_ms, self._rate = self.now_ms, self._timeline.now_ms, rate

    def delay_until(self, local_ms: int) -> int:
        """How long the world waits until this clock shows `local_ms`."""
        left = (local_ms - self._base_ms) * 1000
        due_ms = self._since_ms + -(-left // self._rate)
        return max(0, due_ms - self._timeline.now_ms)
