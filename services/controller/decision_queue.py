"""The queue of writes that are to be decided: one after the other, though a decision may take many turns of the loop.

Kafka's controller has one event queue with one thread. Here a decision in steps lets reads, commits and all that is no
write go on between two steps; a write that comes meanwhile waits here, so that the state stays what was decided on.
Long reads have a queue of their own: they hold up no write, and together they take no more of the loop than one.
"""

from __future__ import annotations

import asyncio

from quorate.controller.engine.engine import Engine, QueueLimit
from quorate.errors import ApiError, ErrorCode

__all__ = ["DecisionQueue"]


class DecisionQueue:
    """Lets one write, or one long read, at a time be decided, in the order in which they came."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._deciding = asyncio.Lock()
        self._waiting_count = 0

    async def enter(self, lane: QueueLimit) -> None:
        """Waits until no other write is being decided, and lets none begin until `leave`.

        Raises ApiError: REQUEST_TIMED_OUT, retriable, if too many requests wait; NOT_CONTROLLER if this controller is
        not active, or has lost its leadership meanwhile, as whoever waits for a commit gets it.
        """
        self._engine.check_room(lane, waiting=self._waiting_count)
        epoch = self._engine.epoch
        self._waiting_count += 1
        try:
            await self._deciding.acquire()
        finally:
            self._waiting_count -= 1
        if self._engine.epoch != epoch:
            self._deciding.release()
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller lost its leadership before the decision")

    def leave(self) -> None:
        """Lets the next write be decided."""
        self._deciding.release()
