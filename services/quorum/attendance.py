"""Is the controller beside this node there? A leader without one gives its leadership up.

In Kafka both are one process and end together. Here they can end apart, and a quorum node that went on to lead
without a controller would keep the whole cluster from writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from quorate.raft.roles import Leader
from quorate.runtime.logs import logger
from services.quorum.driver import Driver
from services.quorum.listener import Listener

log = logger(__name__)

CHECKS: Final = 10
"""How often in one timeout it is looked."""
STARTING_MS: Final = 5_000
"""A controller that was started together with this node may take so long to come."""


class Attendance:
    """Who listens to this node, and how long it may lead alone: `timeout_ms`, or for ever if that is 0."""

    def __init__(self, driver: Driver, *, timeout_ms: int) -> None:
        self._driver = driver
        self._timeout_ms = timeout_ms
        self._listeners = 0
        self._patient_until_ms = driver.now_ms + max(timeout_ms, STARTING_MS)

    @contextmanager
    def of(self, listener: Listener) -> Iterator[None]:
        """A controller listens from entering to leaving.

        If it was active, its epoch ends with it: who comes after it would not know what it has written last.
        """
        self._listeners += 1
        try:
            yield
        finally:
            self._listeners -= 1
            if listener.active_epoch is not None:
                self._driver.resign(listener.active_epoch)

    async def run(self) -> None:
        """Until cancelled."""
        while self._timeout_ms:
            await asyncio.sleep(self._timeout_ms / CHECKS / 1000)
            now_ms, role = self._driver.now_ms, self._driver.core.role
            # The only voter stays: nobody else could lead.
            if self._listeners or not isinstance(role, Leader) or len(self._driver.core.log.voters.latest.ids) == 1:
                self._patient_until_ms = max(self._patient_until_ms, now_ms + self._timeout_ms)
            elif now_ms >= self._patient_until_ms:
                log.warning("leads without a controller, resigning", epoch=role.epoch, timeout_ms=self._timeout_ms)
                self._driver.resign(role.epoch)
