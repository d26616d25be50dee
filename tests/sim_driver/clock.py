"""Time as one machine has it: its clock may run faster or slower than the world's, and its wall clock may be set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

TRUE_RATE: Final = 1_000
WALL_MS: Final = 1_700_000_000_000


class HostClock:
    """The monotonic clock of one host, at a rate of so many thousandths, in us; its timers go by it."""

    def __init__(self, true_us: Callable[[], int]) -> None:
        self.rate = TRUE_RATE
        self._true_us = true_us
        self._base_us = 0
        self._since_us = 0

    @property
    def now_us(self) -> int:
        if self.rate == TRUE_RATE and self._base_us == self._since_us:
            return self._true_us()
        return self._base_us + (self._true_us() - self._since_us) * self.rate // TRUE_RATE

    def run_at(self, rate: int) -> None:
        """From now on."""
        self._base_us, self._since_us, self.rate = self.now_us, self._true_us(), rate

    def due_us(self, at_us: int) -> int:
        """When this clock shows `at_us`, in true time: whole milliseconds on a clock that is off, so that much
        still comes at one moment."""
        if self.rate == TRUE_RATE and self._base_us == self._since_us:
            return at_us
        due_us = self._since_us + -(-(at_us - self._base_us) * TRUE_RATE // self.rate)
        return -(-due_us // 1_000) * 1_000


class NodeClock:
    """What a node has for `quorate.runtime.event_loop.clock`: its host's time from a zero of its own, a time of day."""

    def __init__(self, host: HostClock, *, zero_ms: int) -> None:
        self._host = host
        self._zero_ms = zero_ms
        self.wall_step_ms = 0
        """By how much somebody has set the time of day. No decision may rest on it."""

    def monotonic_ms(self) -> int:
        return self._zero_ms + self._host.now_us // 1_000

    def wall_ms(self) -> int:
        return WALL_MS + self.wall_step_ms + self._host.now_us // 1_000

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000
