"""Many requests in one stream: they run at once, up to a limit, and answers leave in messages as they are ready."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from quorate.runtime.requests.stream_room import Hold, hold_of_message
from quorate.wire.primitives import uvarint

__all__ = ["RequestContext", "StreamContext", "StreamRequests"]

BATCHES_MAX: Final = 4
"""How many messages of answers may wait to be sent; while so many wait, no further request begins."""
BATCH_BYTES_MAX: Final = 1 << 20
"""A message has more bytes only if one answer alone has: clients and servers bound what they receive."""
BEGUN_PER_TURN: Final = 25
"""Requests of a message that begin before the loop runs other tasks: some 5 ms of CPU, if each is decided at once."""

LENGTH_DELIMITED: Final = 2
"""The wire type of a message within a message, in protobuf's encoding: tag, length, bytes."""

Request = TypeVar("Request")


class StreamRequests(Generic[Request]):
    """Runs the requests of one stream at once, and collects their answers in messages, for `ready`.

    `answer` answers one request; None is no answer. `batch` is the message of many answers: a list is its only field.
    The stream is not read while `under_way_max` requests run, nor while its client does not take the answers.
    """

    def __init__(
        self,
        answer: Callable[[Request], Awaitable[Message | None]],
        *,
        batch: type[Message],
        under_way_max: int,
    ) -> None:
        (answers,) = batch.DESCRIPTOR.fields
        self._answer = answer
        self._tag = uvarint(answers.number << 3 | LENGTH_DELIMITED)
        self._room = asyncio.Semaphore(under_way_max)
        self._changed = asyncio.Event()
        self._ready: deque[list[bytes]] = deque()
        self._has_taken = asyncio.Event()
        """Set when a message of answers has been taken."""
        self._bytes = 0
        self._failed: BaseException | None = None
        self._reader: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.get_running_loop()

    def begin(self, requests: AsyncIterator[Iterable[Request]]) -> None:
        """Starts to read the stream and run its requests, in the background. To be called once; `end` ends it."""
        self._reader = self._spawn(self._read(requests))

    async def ready(self) -> bytes | None:
        """Waits for at least one answer, and returns a message of those that are ready, encoded.

        Returns None once the stream has ended and all its requests are answered. Raises the exception of a request or
        of the stream.
        """
        while not self._ready and self._tasks and self._failed is None:
            self._changed.clear()
            await self._changed.wait()
        if self._failed is not None:
            raise self._taken_failure()
        if not self._ready:
            return None
        self._has_taken.set()
        return b"".join(self._ready.popleft())

    def read_no_more(self) -> None:
        """Stops reading the stream: `ready` returns None once the requests that have begun are answered."""
        if self._reader is not None:
            self._reader.cancel()

    async def end(self) -> None:
        """Stops reading, cancels the requests that still run, and waits for their end.

        Records that a request has appended may still be committed.
        """
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[Iterable[Request]]) -> None:
        async for message in requests:
            await self._begin_all(message, hold_of_message())
            del message  # which would be kept until there is another one

    async def _begin_all(self, message: Iterable[Request], hold: Hold | None) -> None:
        """Begins the requests of a message, which takes its room until the last of them is answered."""
        for number, request in enumerate(message, 1):
            while len(self._ready) >= BATCHES_MAX:
                self._has_taken.clear()
                await self._has_taken.wait()
            await self._room.acquire()
            task = self._spawn(self._one(request))
            if hold is not None:
                hold.keep()
                task.add_done_callback(hold.end)
            if number % BEGUN_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _one(self, request: Request) -> None:
        try:
            answer = await self._answer(request)
            if answer is not None:
                self._add(answer)
        finally:
            self._room.release()

    def _add(self, answer: Message) -> None:
        """Adds an answer to the message that leaves next. Encoded one by one, they are not copied into a message."""
        data = answer.SerializeToString()
        if not self._ready or self._bytes + len(data) > BATCH_BYTES_MAX:
            self._ready.append([])
            self._bytes = 0
        self._bytes += len(data)
        self._ready[-1] += (self._tag, uvarint(len(data)), data)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_over)
        return task

    def _taken_failure(self) -> BaseException:
        """Returns why the stream ends. Nobody keeps it: its traceback will have frames that have this object."""
        failure, self._failed = self._failed, None
        assert failure is not None
        return failure

    def _is_over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failed = failure
        self._changed.set()


class StreamContext:
    """The peer of a stream, its certificate and its metadata: read once when it opens, for every request in it."""

    def __init__(self, stream: Any) -> None:
        self.metadata: Any = stream.invocation_metadata()
        self.peer: str = stream.peer()
        self.auth_context: Any = stream.auth_context()
        self.loop = asyncio.get_running_loop()


class RequestContext:
    """The gRPC context of one request in a stream. Its own deadline is `timeout_ms` from now; None for none."""

    def __init__(self, opened: StreamContext, timeout_ms: int | None) -> None:
        self._opened = opened
        self._ends = None if timeout_ms is None else opened.loop.time() + timeout_ms / 1000

    def invocation_metadata(self) -> Any:
        return self._opened.metadata

    def peer(self) -> str:
        return self._opened.peer

    def auth_context(self) -> Any:
        return self._opened.auth_context

    def time_remaining(self) -> float | None:
        return None if self._ends is None else self._ends - self._opened.loop.time()
