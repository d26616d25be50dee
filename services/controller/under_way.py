"""The requests of one stream: read while there is room, begun in order, answered as they become ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from kraft.service.admin_pb2 import AdminRequest, AdminRequests, AdminResponse, AdminResponses

UNDER_WAY_MAX: Final = 1_000
"""Requests of one stream that may wait at once: half of what the engine takes. The stream is not read beyond."""


class UnderWay:
    """The requests of one stream that have begun, and the answers that have not left yet."""

    def __init__(self, answer: Callable[[AdminRequest], Awaitable[AdminResponse]]) -> None:
        self._answer = answer
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)
        self._changed = asyncio.Event()
        self._ready = AdminResponses()
        self._failed: BaseException | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, requests: AsyncIterator[AdminRequests]) -> None:
        """Read from now on."""
        self._spawn(self._read(requests))

    async def ready(self) -> AdminResponses:
        """All answers that wait to leave, one at least; none when everything is answered. Raises what went wrong."""
        while not self._ready.responses and self._tasks and self._failed is None:
            self._changed.clear()
            await self._changed.wait()
        if self._failed is not None:
            raise self._failed
        ready, self._ready = self._ready, AdminResponses()
        return ready

    async def end(self) -> None:
        """Nobody waits for the rest. What was appended may be committed all the same."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[AdminRequests]) -> None:
        async for message in requests:
            for request in message.requests:
                await self._room.acquire()
                self._spawn(self._one(request))

    async def _one(self, request: AdminRequest) -> None:
        try:
            answer = await self._answer(request)
            self._ready.responses.add().CopyFrom(answer)  # a list of them is copied more slowly
        finally:
            self._room.release()

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_over)

    def _is_over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failed = failure
        self._changed.set()


class Opened:
    """Who has opened a stream, and with what: asked once, as it holds for every request in it."""

    def __init__(self, stream: Any) -> None:
        self.metadata: Any = stream.invocation_metadata()
        self.peer: str = stream.peer()


class OneOfMany:
    """What a handler asks of a call's context, for one request of a stream."""

    def __init__(self, opened: Opened, timeout_ms: int) -> None:
        self._opened = opened
        self._ends = time.monotonic() + timeout_ms / 1000

    def invocation_metadata(self) -> Any:
        return self._opened.metadata

    def peer(self) -> str:
        return self._opened.peer

    def time_remaining(self) -> float:
        return self._ends - time.monotonic()

    def set_trailing_metadata(self, _: Any) -> None:
        """It stands in the answer."""
