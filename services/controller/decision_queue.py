"""The queue of writes that are to be decided: one after the other, though a decision may take many turns of the loop.

Kafka's controller has one event queue with one thread. Here a decision in steps lets reads, commits and all that is no
write go on between two steps; a write that comes meanwhile waits here, so that the state stays what was decided on.
Long reads have a queue of their own: they hold up no write, and together they take no more of the loop than one.
"""

from __future__ import annotations

import asyncio
from collections import deque

from quorate.controller.engine.engine import Engine, QueueLimit
from quorate.errors import ApiError, ErrorCode

__all__ = ["DecisionQueue"]


class DecisionQueue:
    """Lets one write, or one long read, at a time be decided, in the order in which they came."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._waiting_count = 0

    def enters(self, lane: QueueLimit) -> bool:
        """Takes the turn, until `leave`, and returns True; returns False if another has it: then await `enter`.

        Raises ApiError: REQUEST_TIMED_OUT, retriable, if too many requests wait; NOT_CONTROLLER if this controller is
        not active.
        """
        self._engine.check_room(lane, waiting=self._waiting_count)
        is_free = not self._is_taken
        self._is_taken = True
        return is_free

    async def enter(self, lane: QueueLimit) -> None:
        """Waits until no other write is being decided, and takes the turn until `leave`, in the order of the calls.

        Raises ApiError as `enters`; NOT_CONTROLLER also if this controller has lost its leadership meanwhile, as
        each write that waits for a commit does.
        """
        if self.enters(lane):
            return
        epoch, turn = self._engine.epoch, asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._waiting_count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given its turn just now
                self.leave()
            raise
        finally:
            self._waiting_count -= 1
            assert self._waiting_count >= 0, self._waiting_count
        assert self._is_taken, "it was given its turn, and another one was let in"
        if self._engine.epoch != epoch:
            self.leave()
            raise ApiError(ErrorCode.NOT_CONTROLLER, "the controller lost its leadership before the decision")

    def leave(self) -> None:
        """Gives the turn to the next one that still waits, if there is one. The caller must have the turn."""
        assert self._is_taken, "nothing was being decided"
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False
