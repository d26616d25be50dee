"""The order of one connection's requests: a later one finds the effect of those before it, as in Kafka.

Kafka handles one request of a connection at a time. Here many are under way, and of those that a controller answers a
write waits until all before it are answered, a read until the writes before it are: a CreateTopics waits for a placer,
and a DeleteTopics behind it must not be decided before. Requests of peers, readers of the log and heartbeats wait for
nothing, and neither does an Envelope: those of one broker are of many clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

__all__ = ["Order"]

UnderWay = dict[Hashable, dict[asyncio.Event, bool]]
"""Of each connection, the oldest first: what is set once a request is answered, and whether it writes."""


class Order:
    """Orders a connection's requests: a write waits until all before it are answered, a read until the writes are."""

    def __init__(self) -> None:
        self._under_way: UnderWay = {}

    def __len__(self) -> int:
        """The number of connections that have a request under way."""
        return len(self._under_way)

    def turn(self, connection: Hashable, *, writes: bool) -> _Turn:
        """Returns an async context for one request: its block runs once the requests that it waits for are answered.

        Entering it puts the request behind those of the connection that have entered before; at the block's end it
        counts as answered. `connection` is any key of the connection.
        """
        return _Turn(self._under_way, connection, writes=writes)


class _Turn:
    """One request's: its block runs when those that it waits for are answered, and it is answered at the block's end.

    Each request of such a connection enters one, so it is no generator, which would cost three times as much.
    """

    __slots__ = ("_answered", "_connection", "_under_way", "_writes")

    def __init__(self, under_way: UnderWay, connection: Hashable, *, writes: bool) -> None:
        self._under_way = under_way
        self._connection = connection
        self._writes = writes
        self._answered = asyncio.Event()

    async def __aenter__(self) -> None:
        others = self._under_way.setdefault(self._connection, {})
        before = [answered for answered, is_write in others.items() if self._writes or is_write]
        others[self._answered] = self._writes
        try:
            for answered in before:
                await answered.wait()
        except BaseException:  # also if it is closed while it waits
            self._end()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._end()

    def _end(self) -> None:
        self._answered.set()
        others = self._under_way[self._connection]
        del others[self._answered]
        if not others:
            del self._under_way[self._connection]
