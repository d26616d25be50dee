"""Reads a stream ahead of its answers: what a heartbeat says of its broker is seen when it arrives, not in its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import TypeVar

__all__ = ["read_ahead"]

T = TypeVar("T")


async def read_ahead(items: AsyncIterable[T], size_of: Callable[[T], int], *, size_max: int) -> AsyncGenerator[T, None]:
    """Yields the items in order, and reads on meanwhile, until those not yielded yet have the size `size_max` together.

    Raises the error of `items`, after the items before it. Close the generator when it is no longer needed: that ends
    the task that reads.
    """
    waiting: asyncio.Queue[T | None] = asyncio.Queue()
    taken = asyncio.Event()
    size = 0

    async def read() -> None:
        nonlocal size
        async for item in items:
            size += size_of(item)
            waiting.put_nowait(item)
            while size >= size_max:
                taken.clear()
                await taken.wait()

    reading = asyncio.ensure_future(read())
    reading.add_done_callback(lambda _: waiting.put_nowait(None))
    try:
        while (item := await waiting.get()) is not None:
            size -= size_of(item)
            taken.set()
            yield item
        reading.result()
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        # A task has its error, and the error's traceback this frame: with the task in it they, and the request, would
        # keep each other until a full garbage collection, which an idle process never runs.
        del reading
