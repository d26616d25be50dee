"""Does what is due by itself while this controller is active: the chores of quorate.controller.periodic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from quorate.controller.periodic import CHORES, Chore
from quorate.controller.settings import Settings
from quorate.errors import ApiError
from quorate.runtime.logs import logger
from services.controller.driver import Driver

log = logger(__name__)


class Chores:
    """One loop for each chore; `intervals_ms` by setting overrides the table's, 0 turns a chore off."""

    def __init__(
        self,
        driver: Driver,
        settings: Settings,
        intervals_ms: Mapping[str, int],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._driver = driver
        self._settings = settings
        self._intervals_ms = intervals_ms
        self._sleep = sleep

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as loops:
            for chore in CHORES:
                interval_ms = self._intervals_ms.get(chore.setting, chore.interval_ms)
                if interval_ms:
                    loops.create_task(self._repeat(chore, interval_ms))

    async def _repeat(self, chore: Chore, interval_ms: int) -> None:
        pause_ms = interval_ms
        while True:
            await self._sleep(pause_ms / 1000)
            pause_ms = chore.pause_ms(interval_ms=interval_ms, written=await self._do(chore))

    async def _do(self, chore: Chore) -> int:
        """How many records it took."""
        if not self._driver.is_active or not chore.is_due(self._driver.engine.state):
            return 0
        try:
            answer = await self._driver.write(chore.name, chore.command(self._settings))
        except ApiError as refusal:
            log.debug("chore not done", chore=chore.name, reason=str(refusal))
            return 0
        written: int = answer.response
        if written and chore.bite is not None:
            log.info("chore done", chore=chore.name, records=written)
        return written
