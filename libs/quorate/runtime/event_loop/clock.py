"""The clocks that services pass to the cores: a monotonic clock for deadlines, a wall clock for timestamps."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """The clock interface of a service; a test implements it with a clock that it sets."""

    def monotonic_ms(self) -> int:
        """Returns ms since a fixed moment; it never goes back. Deadlines use it."""
        ...

    def wall_ms(self) -> int:
        """Returns ms since 1970; it may jump. Record timestamps use it, and no decision depends on it."""
        ...

    def wall_ns(self) -> int:
        """Returns ns since 1970; it may jump. Trace spans use it."""
        ...


class SystemClock:
    """The machine's monotonic clock and wall clock."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wall_ns(self) -> int:
        return time.time_ns()
