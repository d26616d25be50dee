"""Runs the periodic tasks of quorate.controller.periodic while this controller is active (Kafka's PeriodicTask)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.periodic import CHORES, PeriodicTask
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.logging.logs import logger
from services.controller.driver import ControllerDriver

log = logger(__name__)


class PeriodicTasks:
    """Runs one loop for each periodic task, which writes its records if it is due while this controller is active.

    `intervals_ms` (ms), by the name of the setting, overrides the defaults; 0 turns a task off. A refusal is logged.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        settings: ControllerSettings,
        intervals_ms: Mapping[str, int],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._driver = driver
        self._settings = settings
        self._intervals_ms = intervals_ms
        self._sleep = sleep

    async def run(self) -> None:
        """Runs all periodic tasks until cancelled."""
        async with asyncio.TaskGroup() as loops:
            for chore in CHORES:
                interval_ms = chore.interval_ms
                if chore.setting is not None:
                    interval_ms = self._intervals_ms.get(chore.setting, interval_ms)
                if interval_ms:
                    loops.create_task(self._repeat(chore, interval_ms))

    async def _repeat(self, chore: PeriodicTask, interval_ms: int) -> None:
        pause_ms = interval_ms
        while True:
            await self._sleep(pause_ms / 1000)
            pause_ms = chore.pause_ms(interval_ms=interval_ms, written=await self._do(chore))

    async def _do(self, chore: PeriodicTask) -> int:
        """Writes one task's records if it is due; returns their count, 0 if it was not due or was refused."""
        if not self._driver.is_active or not chore.is_due(self._driver.engine.state):
            return 0
        try:
            answer = await self._driver.write(chore.name, chore.decide(self._settings))
        except ApiError as refusal:
            tell = log.error if refusal.code is ErrorCode.UNKNOWN_SERVER_ERROR else log.debug
            tell("chore not done", chore=chore.name, reason=str(refusal))
            return 0
        written: int = answer.response
        if written and chore.written_max is not None:
            log.info("chore done", chore=chore.name, records=written)
        return written
