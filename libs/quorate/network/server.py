"""Serves Kafka's protocol on a port: has a driver for each client, and answers by a handler."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final

from quorate.network.connections import LISTEN_BACKLOG, Room
from quorate.network.driver import Driver
from quorate.network.listening import Listening

__all__ = ["KafkaServer", "serving"]

READ_BYTES: Final = 256 * 1024
"""How much is read from one connection at once: a large batch comes in four turns of the loop."""


class KafkaServer:
    """The server of one port, with its open connections, to be drained and ended. Made by `serving`."""

    def __init__(self, listening: Listening, tasks: asyncio.TaskGroup) -> None:
        self.listening = listening
        self.port = 0
        self._tasks = tasks
        self._open: set[Driver] = set()
        self._room = Room(f"are open at {listening.name}", "its max.connections", listening.connections_max)
        self.close: Callable[[], None] = lambda: None
        self.read_buffer = bytearray(READ_BYTES)
        """Into which each connection is read; what it has is taken at once."""

    def __len__(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def driver(self) -> asyncio.BufferedProtocol:
        """Returns the driver of the next connection."""
        return Driver(self)

    def add(self, driver: Driver) -> str | None:
        """Counts a connection. Returns why it is refused, or None."""
        if refusal := self.listening.counts.add(driver, self._room):
            return refusal
        self._open.add(driver)
        return None

    def know(self, driver: Driver) -> None:
        """Notes that a client has logged in."""
        self.listening.counts.know(driver, self._room)

    def remove(self, driver: Driver) -> None:
        """Counts a connection no more, if it is counted."""
        if driver in self._open:
            self._open.remove(driver)
            self.listening.counts.remove(driver, self._room)

    def begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        return self._tasks.create_task(work)

    async def drain(self, grace_s: float) -> Counter[str]:
        """Accepts no more connections, and waits up to `grace_s` seconds for the requests that are being answered.

        Returns how many have no answer then, by the API's name. The connections stay open: see `abort_all`.
        """
        self.close()
        if under_way := [task for driver in self._open for task in driver.answering]:
            await asyncio.wait(under_way, timeout=grace_s)
        return Counter([what for driver in self._open for what in driver.answering.values()])

    def abort_all(self) -> None:
        """Ends every connection at once; what was not sent is lost."""
        for driver in tuple(self._open):
            driver.abort()


@asynccontextmanager
async def serving(listening: Listening, host: str, port: int = 0) -> AsyncIterator[KafkaServer]:
    """Listens on `host` and `port`, 0 for a free port, until the context exits; then it closes every connection.

    Raises OSError if the port cannot be listened on, and what the block raises.
    """
    try:
        async with asyncio.TaskGroup() as tasks, _listening(listening, host, port, tasks) as server:
            yield server
    except BaseExceptionGroup as group:  # handlers raise nothing here: it is what the block raised
        raise group.exceptions[0] from None


@asynccontextmanager
async def _listening(
    listening: Listening, host: str, port: int, tasks: asyncio.TaskGroup
) -> AsyncIterator[KafkaServer]:
    loop = asyncio.get_running_loop()
    server = KafkaServer(listening, tasks)
    listener = await loop.create_server(server.driver, host, port, backlog=LISTEN_BACKLOG)
    server.port = listener.sockets[0].getsockname()[1]
    server.close = listener.close
    try:
        yield server
    finally:
        listener.close()
        server.abort_all()
