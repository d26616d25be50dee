"""The time that shells hand to the cores: a monotonic clock to wait by, a wall clock to write down."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """What a driver asks for the time; a test passes one that it moves itself."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back. Deadlines are kept by it."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970; may jump. Record timestamps come from it, nothing is decided by it."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970; may jump. Spans are stamped with it."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wall_ns(self) -> int:
        return time.time_ns()
