"""Backpressure for AdminStream: at most 1,000 requests of a stream run at once, and answers leave as they are ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from kraft.service.admin_pb2 import AdminRequest, AdminRequests, AdminResponse, AdminResponses

UNDER_WAY_MAX: Final = 1_000
"""Requests of one stream that run at once: half of the engine's limit. Beyond it the stream is not read."""


class StreamRequests:
    """The requests of one stream that are running, and their answers that are not sent yet."""

    def __init__(self, answer: Callable[[AdminRequest], Awaitable[AdminResponse]]) -> None:
        self._answer = answer
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)
        self._changed = asyncio.Event()
        self._ready = AdminResponses()
        self._failed: BaseException | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, requests: AsyncIterator[AdminRequests]) -> None:
        """Starts to read the stream and run its requests, in the background."""
        self._spawn(self._read(requests))

    async def ready(self) -> AdminResponses:
        """Waits for at least one answer and returns all that are ready; an empty message once all are answered.

        Raises the exception of a request or of the stream.
        """
        while not self._ready.responses and self._tasks and self._failed is None:
            self._changed.clear()
            await self._changed.wait()
        if self._failed is not None:
            raise self._failed
        ready, self._ready = self._ready, AdminResponses()
        return ready

    async def end(self) -> None:
        """Cancels the requests that still run. Records that they have appended may still be committed."""
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
            self._ready.responses.add().CopyFrom(answer)  # faster than to extend with a list of messages
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


class StreamContext:
    """The peer, its certificate and the metadata of a stream, read once when it opens: of every request in it."""

    def __init__(self, stream: Any) -> None:
        self.metadata: Any = stream.invocation_metadata()
        self.peer: str = stream.peer()
        self.auth_context: Any = stream.auth_context()


class RequestContext:
    """The gRPC context of one request in a stream, with a deadline of its own of `timeout_ms`."""

    def __init__(self, opened: StreamContext, timeout_ms: int) -> None:
        self._opened = opened
        self._ends = asyncio.get_running_loop().time() + timeout_ms / 1000

    def invocation_metadata(self) -> Any:
        return self._opened.metadata

    def peer(self) -> str:
        return self._opened.peer

    def auth_context(self) -> Any:
        return self._opened.auth_context

    def time_remaining(self) -> float:
        return self._ends - asyncio.get_running_loop().time()

    def set_trailing_metadata(self, _: Any) -> None:
        """Does nothing: leader, epoch and offset are fields of an AdminResponse."""
