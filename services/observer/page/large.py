"""The large messages that are on their way as JSON at once: who does not take them keeps no memory from others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

__all__ = ["LARGE_BYTES", "LARGE_MAX", "LARGE_PER_HOST_MAX", "LargeAnswers"]

LARGE_BYTES: Final = 256 << 10
"""A message of more bytes is large; the largest, of 4 MiB, is some 12 MiB as JSON."""
LARGE_MAX: Final = 24
LARGE_PER_HOST_MAX: Final = 4
"""Large messages at once, in all and for one address; a further one waits. None is held longer than it takes to be
taken, which is bounded."""


class LargeAnswers:
    """Bounds how many large messages are made JSON and sent at once, in all and for one address."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(LARGE_MAX)
        self._by_host: dict[str, asyncio.Semaphore] = {}
        self._waiting: dict[str, int] = {}

    @asynccontextmanager
    async def turn(self, host: str, message_bytes: int) -> AsyncIterator[None]:
        """A block in which a message is made JSON and sent; it begins once there is room for it."""
        if message_bytes <= LARGE_BYTES:
            yield
            return
        of_host = self._by_host.setdefault(host, asyncio.Semaphore(LARGE_PER_HOST_MAX))
        self._waiting[host] = self._waiting.get(host, 0) + 1
        try:
            async with of_host, self._all:
                yield
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host], self._by_host[host]
