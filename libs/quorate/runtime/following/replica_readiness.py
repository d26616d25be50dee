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
    """Tells the server's health service whether a service is ready that answers from a replica of the state.

    It is not if the nodes that are read have known no leader for `LEADERLESS_MAX_MS`: what it answers is as old as
    that. Nor while `refusal` returns why the service refuses its callers.
    """

    def __init__(self, replica: Replica, clock: Clock, *, refusal: Callable[[], str | None] = lambda: None) -> None:
        self._replica = replica
        self._clock = clock
        self._refusal = refusal
        self._led_at_ms: int | None = None

    def is_ready(self) -> bool:
        """Returns whether a leader was known at most `LEADERLESS_MAX_MS` ago, and callers are not refused.

        Whether the replica has caught up is not asked here: `run` waits for that first.
        """
        return self._refusal() is None and 0 <= self.led_ms() <= LEADERLESS_MAX_MS

    def led_ms(self) -> int:
        """Returns how long ago (ms) a call of this method last found a leader known; 0 if one is now, -1 if never."""
        now_ms = self._clock.monotonic_ms()
        if self._replica.leader_id != NOBODY:
            self._led_at_ms = now_ms
        return -1 if self._led_at_ms is None else now_ms - self._led_at_ms

    async def run(self, server: Server) -> None:
        """Waits until the replica has caught up, then tells the server each change of readiness, until cancelled."""
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
