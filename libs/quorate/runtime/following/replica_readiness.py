"""Readiness of a service that answers by a replica: whether it has caught up, and hears of a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from quorate.nouns import NOBODY
from quorate.runtime.calls.server import Server
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.following.replica import Replica
from quorate.runtime.logging.logs import logger

__all__ = ["LEADERLESS_MAX_MS", "ReplicaReadiness"]

log = logger(__name__)

LEADERLESS_MAX_MS: Final = 5_000
"""So long (ms) no leader may be known to the nodes that are read: longer than an election takes."""
LOOK_AGAIN_S: Final = 0.2


class ReplicaReadiness:
    """Tells the server's health service. Without a leader nothing moves, and what is read is as old as the outage.

    `refusal` says why the service refuses its callers, while it does.
    """

    def __init__(self, replica: Replica, clock: Clock, *, refusal: Callable[[], str | None] = lambda: None) -> None:
        self._replica = replica
        self._clock = clock
        self._refusal = refusal
        self._led_at_ms: int | None = None

    def is_ready(self) -> bool:
        """Returns whether a leader was known at most `LEADERLESS_MAX_MS` ago, and callers are not refused.

        The replica has caught up before.
        """
        return self._refusal() is None and 0 <= self.led_ms() <= LEADERLESS_MAX_MS

    def led_ms(self) -> int:
        """Returns how long ago (ms) a leader was known, by the looks that were taken; -1 if none ever was."""
        now_ms = self._clock.monotonic_ms()
        if self._replica.leader_id != NOBODY:
            self._led_at_ms = now_ms
        return -1 if self._led_at_ms is None else now_ms - self._led_at_ms

    async def run(self, server: Server) -> None:
        """Looks again and again, from when the replica has caught up, until cancelled."""
        await self._replica.caught_up()
        was_ready = False
        while True:
            is_ready = self.is_ready()
            if is_ready != was_ready:
                why = self._refusal() or "nobody that is read knows a leader"
                what = "is ready" if is_ready else f"is not ready: {why}"
                log.info(what, leader_id=self._replica.leader_id, applied=self._replica.applied)
                await server.set_ready(is_ready)
                was_ready = is_ready
            await asyncio.sleep(LOOK_AGAIN_S)
