"""Writes down how long decisions take: once a period, and at once if one took too long. As EventPerformanceMonitor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from quorate.controller.performance import Performance
from quorate.runtime.logs import logger

log = logger(__name__)

NS: Final = 1_000_000
"""In a millisecond."""


class PerformanceLog:
    """Is told of every decision; one that takes `always_from_ms` or more is not left to the end of the period."""

    def __init__(
        self,
        *,
        period_ms: int = 60_000,
        always_from_ms: int = 2_000,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._performance = Performance()
        self._period_ms = period_ms
        self._always_from_ms = always_from_ms
        self._sleep = sleep

    def note(self, api: str, took_ns: int) -> None:
        """A decision is made, and applied; nothing else was done meanwhile."""
        self._performance.note(api, took_ns)
        if took_ns >= self._always_from_ms * NS:
            log.warning("exceptionally slow", api=api, took_ms=took_ns // NS)

    async def run(self, is_active: Callable[[], bool]) -> None:
        """Until cancelled. Who stands by decides nothing, and says nothing."""
        while True:
            await self._sleep(self._period_ms / 1000)
            period = self._performance.take()
            if is_active():
                log.info(
                    "decisions",
                    period_ms=self._period_ms,
                    count=period.count,
                    average_ms=round(period.average_ns / NS, 2),
                    slowest=period.slowest,
                    slowest_ms=round(period.slowest_ns / NS, 2),
                )
