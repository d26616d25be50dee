"""How much memory the large requests of one purpose take together, and who waits while there is no more.

A request is bounded by itself, and so are the calls of an address. Of the largest requests that would still be
gigabytes; so those that are large take their turns, by address: somebody else's comes after one of each other.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from quorate.errors import ApiError, ErrorCode

__all__ = ["LARGE_BYTES", "ROOM_BYTES", "WAIT_S", "Room"]

LARGE_BYTES: Final = 64 << 10
"""Requests of fewer bytes are not counted: small ones never wait for large ones."""
ROOM_BYTES: Final = 96 << 20
"""The bytes that large requests of one purpose may take at once, decoded: three of the largest of a quorum node (16
MiB, and as much again once they are decoded), and hundreds of the large ones that clients send."""
WAIT_S: Final = 10.0
"""How long a request waits. Controllers that pass requests on to each other could wait for one another for ever."""


class _Waiting(NamedTuple):
    size: int
    turn: asyncio.Future[None]


class Room:
    """The memory (bytes) that large requests of one purpose may take together: `limit`. Further ones wait `wait_s` (s).

    The addresses that wait have it in turn, one request each.
    """

    def __init__(self, purpose: str, limit: int, wait_s: float) -> None:
        assert limit > 0, limit
        self._purpose, self._limit, self._wait_s = purpose, limit, wait_s
        self._taken = 0
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()

    @property
    def taken(self) -> int:
        """How many bytes the requests that are under way take."""
        return self._taken

    @asynccontextmanager
    async def held(self, host: str, size: int) -> AsyncIterator[None]:
        """Takes room for a request of `size` bytes until the block ends; `host` is its caller's address.

        Waits while there is none. Raises ApiError(THROTTLING_QUOTA_EXCEEDED) after `wait_s`. A request that would take
        more than there is takes all of it.
        """
        give_back = await self.take(host, size)
        try:
            yield
        finally:
            give_back()

    async def take(self, host: str, size: int) -> Callable[[], None]:
        """As `held`, without a block: returns the function that gives the room back, to be called once."""
        size = min(size, self._limit)
        await self._take(host, size)
        return lambda: self._give_back(size)

    async def _take(self, host: str, size: int) -> None:
        if not self._waiting and self._taken + size <= self._limit:
            self._taken += size
            return
        waiting = _Waiting(size, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(host, deque()).append(waiting)
        try:
            async with asyncio.timeout(self._wait_s):
                await waiting.turn
        except (TimeoutError, asyncio.CancelledError) as ended:
            # It may have been given just now. If not, others may fit where this one did not.
            self._give_back(0 if waiting.turn.cancelled() else size)
            if isinstance(ended, TimeoutError):
                raise self._full(size) from None
            raise

    def _give_back(self, size: int) -> None:
        """Gives room back, and to those who are next: in order, so that a large one is not passed over for ever."""
        self._taken -= size
        assert self._taken >= 0, self._taken
        while self._waiting:
            host, row = next(iter(self._waiting.items()))
            size, turn = row[0]
            if not turn.cancelled():
                if self._taken + size > self._limit:
                    return
                self._taken += size
                turn.set_result(None)
                self._waiting.move_to_end(host)
            row.popleft()
            if not row:
                del self._waiting[host]

    def _full(self, size: int) -> ApiError:
        return ApiError(
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            f"a request for {self._purpose} may take {size} bytes of memory and has waited {self._wait_s:g} s for it: "
            f"requests of more than {LARGE_BYTES} bytes may take {self._limit} together",
            {"memory_bytes": str(size), "memory_bytes_max": str(self._limit)},
        )
