"""The room in memory that the messages of one stream take, each from before it is decoded until it has been served.

A handler that serves a message before it reads the next need not do anything. One that reads on keeps the message's
hold, and ends it when it is done. What is still held when the stream ends is given back then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Self

from quorate.runtime.decoded_cost import CostLimit
from quorate.runtime.room import LARGE_BYTES, Room

__all__ = ["Hold", "StreamRoom", "hold_of_message"]


class Hold:
    """The room of one message. It is given back once whoever keeps it has ended it."""

    __slots__ = ("_give_back", "_keepers")

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._keepers = 1

    def keep(self) -> None:
        """Notes one more who needs the message. Each `keep` must be followed by one `end`."""
        self._keepers += 1

    def end(self, _task: object = None) -> None:
        """Notes that one of them is done with it; also as what a task calls when it is over."""
        self._keepers -= 1
        if not self._keepers:
            self._give_back()


_held: Final[ContextVar[Hold | None]] = ContextVar("hold of the message", default=None)


def hold_of_message() -> Hold | None:
    """Returns the hold of the message that the running task has read last from its stream; None for a small one."""
    return _held.get()


class StreamRoom:
    """The room of one stream, from an address `host`. Small messages, and those without a `room`, take none."""

    def __init__(self, room: Room | None, host: str, limit: CostLimit) -> None:
        self._room, self._host, self._limit = room, host, limit
        self._taken: set[Callable[[], None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._taken:
            self._taken.pop()()

    async def take(self, size: int) -> Hold | None:
        """Waits for the room of a message of `size` bytes, while the stream is not read; None for a small message.

        Sets the hold of the running task. Raises what `Room.take` raises.
        """
        hold = None
        if self._room is not None and size > LARGE_BYTES:
            give_back = await self._room.take(self._host, self._limit.most(size))
            self._taken.add(give_back)

            def end() -> None:
                if give_back in self._taken:
                    self._taken.remove(give_back)
                    give_back()

            hold = Hold(end)
        _held.set(hold)
        return hold
