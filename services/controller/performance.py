"""Logs decision times once a period, and slow decisions at once, as Kafka's EventPerformanceMonitor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from quorate.controller.engine.performance import Performance
from quorate.runtime.logging.logs import logger
from services.controller.metrics import DECISION_TIME

log = logger(__name__)

NS: Final = 1_000_000
"""Nanoseconds in a millisecond."""


class PerformanceLog:
    """Collects the time of every decision; one of `always_from_ms` or more is logged at once."""

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
        """Adds one decision with its time, including applying its records, in ns."""
        self._performance.note(api, took_ns)
        DECISION_TIME.record(took_ns / 1e9)
        if took_ns >= self._always_from_ms * NS:
            log.warning("exceptionally slow", api=api, took_ms=took_ns // NS)

    async def run(self, is_active: Callable[[], bool]) -> None:
        """Logs each period's count, average and slowest decision until cancelled; a standby logs nothing."""
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
