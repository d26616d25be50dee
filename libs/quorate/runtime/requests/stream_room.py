"""The room in memory that the messages of one stream take, each from before it is decoded until it has been served.

A handler that serves a message before it reads the next need not do anything. One that reads on keeps the message's
hold, and ends it when it is done. All room that is still held when the stream ends is given back then, and a stream
ends that holds the room of a message for longer than a unary call may take: who stops reading answers keeps nobody
waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Self

from quorate.errors import ApiError, ErrorCode
from quorate.runtime.requests.decoded_cost import CostLimit
from quorate.runtime.requests.room import LARGE_BYTES, Room

__all__ = ["Hold", "StreamRoom", "hold_of_message"]


class Hold:
    """The room of one message. It is given back once its holder has ended it."""

    __slots__ = ("_give_back", "_keepers")

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._keepers = 1

    def keep(self) -> None:
        """Notes one more who needs the message: its room is held until each has called `end` once."""
        self._keepers += 1

    def end(self, _task: object = None) -> None:
        """Notes that one of them is done; the last gives the room back. It may be the done callback of a task."""
        self._keepers -= 1
        if not self._keepers:
            self._give_back()


_held: Final[ContextVar[Hold | None]] = ContextVar("hold of the message", default=None)


def hold_of_message() -> Hold | None:
    """Returns the hold of the message that the running task has read last from its stream; None for a small one."""
    return _held.get()


class StreamRoom:
    """An `async with` block with the room in memory of one stream's messages, from an address `host`.

    Small messages, and those without a `room`, take none. The block gives all room back at its end, and raises
    ApiError(REQUEST_TIMED_OUT) once a message has held its room for `held_s` (s).
    """

    def __init__(self, room: Room | None, host: str, limit: CostLimit, held_s: float) -> None:
        self._room, self._host, self._limit, self._held_s = room, host, limit, held_s
        self._taken: dict[Callable[[], None], float] = {}
        """The calls that give each message's room back, the oldest first, and until when (the loop's time) it may be
        held."""
        self._oldest = asyncio.timeout(None)
        self._is_over = False

    async def __aenter__(self) -> Self:
        await self._oldest.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        while self._taken:
            self._taken.popitem()[0]()
        try:
            await self._oldest.__aexit__(kind, error, trace)
        except TimeoutError:
            why = f"a message of this stream was not served, and its answers taken, within {self._held_s:g} s"
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, why, {"held_ms": f"{self._held_s * 1000:.0f}"}) from None
        finally:
            self._oldest = asyncio.timeout(None)  # that one has the task, and by its context a hold, and this

    async def take(self, size: int) -> Hold | None:
        """Waits for the room of a message of `size` bytes on the wire; returns its hold, None for a small message.

        Sets it for `hold_of_message` of the running task. Raises ApiError(THROTTLING_QUOTA_EXCEEDED) if there is no
        room in time, and CancelledError if the block has ended meanwhile.
        """
        hold = None
        if self._room is not None and size > LARGE_BYTES:
            give_back = await self._room.take(self._host, self._limit.most(size))
            if self._is_over:  # while its reader, another task, has waited
                give_back()
                raise asyncio.CancelledError
            self._taken[give_back] = asyncio.get_running_loop().time() + self._held_s

            def end() -> None:
                if self._taken.pop(give_back, None) is not None:
                    give_back()
                    self._watch()

            hold = Hold(end)
            self._watch()
        _held.set(hold)
        return hold

    def _watch(self) -> None:
        """Sets the end of the block's time to that of the message that has held its room for longest."""
        if not self._oldest.expired():
            self._oldest.reschedule(next(iter(self._taken.values()), None))
