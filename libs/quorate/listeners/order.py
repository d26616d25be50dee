"""The order of one connection's requests: a later one finds the effect of those before it, as in Kafka.

Kafka handles one request of a connection at a time. Here many are under way, and of those that a controller answers a
write waits until all before it are answered, a read until the writes before it are: a CreateTopics waits for a placer,
and a DeleteTopics behind it must not be decided before. Requests of peers, readers of the log and heartbeats wait for
nothing, and neither does an Envelope: those of one broker are of many clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager

__all__ = ["Order"]


class Order:
    """The requests that are under way in an order, by connection."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, dict[asyncio.Event, bool]] = {}
        """Of each connection, the oldest first: what is set once a request is answered, and whether it writes."""

    def __len__(self) -> int:
        """The number of connections that have a request under way."""
        return len(self._under_way)

    @asynccontextmanager
    async def turn(self, connection: Hashable, *, writes: bool) -> AsyncGenerator[None, None]:
        """Takes the place of a request, before anything else runs; the block runs when it is its turn."""
        others = self._under_way.setdefault(connection, {})
        before = [answered for answered, is_write in others.items() if writes or is_write]
        mine = asyncio.Event()
        others[mine] = writes
        try:
            for answered in before:
                await answered.wait()
            yield
        finally:
            mine.set()
            del others[mine]
            if not others:
                del self._under_way[connection]
