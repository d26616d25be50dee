"""Clocks that a test moves."""

from __future__ import annotations

from quorate.runtime.event_loop.clock import SystemClock


class MovedClock(SystemClock):
    """Its monotonic time stands where the test puts it; the time of day is the machine's."""

    __slots__ = ("now_ms",)

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms
