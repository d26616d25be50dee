"""The order of appends: a request is read in several turns of the loop, and nobody gets ahead of it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Set
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

__all__ = ["ProduceLines"]


K = TypeVar("K", bound=Hashable)


class ProduceLines(Generic[K]):
    """A queue for each partition, or each connection: requests have their turns in the order in which they came."""

    def __init__(self) -> None:
        self._last: dict[K, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, keys: Set[K]) -> AsyncIterator[None]:
        """Waits until all requests before, in the queues of these keys, have left their blocks. The block is the turn.

        The places in all queues are taken at once, so nobody deadlocks. A request that is cancelled keeps its place
        until those before it have gone.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        before = {self._last[key] for key in keys if key in self._last}
        self._last.update(dict.fromkeys(keys, done))
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            self._leave(keys, done, before)

    def _leave(self, keys: Set[K], done: asyncio.Future[None], before: set[asyncio.Future[None]]) -> None:
        """Gives the places to who is next; after a cancellation once those before have gone."""
        for each in before:
            if not each.done():
                each.add_done_callback(lambda _: self._leave(keys, done, before))
                return
        done.set_result(None)
        for key in keys:
            if self._last.get(key) is done:
                del self._last[key]
