"""Does what is due by itself while this controller is active: the chores of quorate.controller.periodic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from quorate.controller.periodic import CHORES, Chore
from quorate.controller.settings import Settings
from quorate.errors import ApiError
from quorate.runtime.logs import logger
from services.controller.driver import Driver

log = logger(__name__)


class Chores:
    """One loop for each chore; `intervals_ms` by setting overrides the table's, 0 turns a chore off."""

    def __init__(self, driver: Driver, settings: Settings, intervals_ms: Mapping[str, int]) -> None:
        self._driver = driver
        self._settings = settings
        self._intervals_ms = intervals_ms

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as loops:
            for chore in CHORES:
                interval_ms = self._intervals_ms.get(chore.setting, chore.interval_ms)
                if interval_ms:
                    loops.create_task(self._repeat(chore, interval_ms))

    async def _repeat(self, chore: Chore, interval_ms: int) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            if self._driver.is_active and chore.is_due(self._driver.engine.state):
                try:
                    await self._driver.write(chore.name, chore.command(self._settings))
                except ApiError as refusal:
                    log.debug("chore not done", chore=chore.name, reason=str(refusal))
