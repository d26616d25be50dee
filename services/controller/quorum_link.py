"""The controller's end of the RaftClient contract: appends that go out, events that come in."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import grpc

from kraft.service.quorum_pb2 import AppendRequest, AppendResponse, ListenRequest, ListenResponse
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.controller.engine import Append
from quorate.errors import ErrorCode
from quorate.nouns import Offset
from quorate.runtime.logs import logger

log = logger(__name__)

RETRY_S: Final = 0.1
"""Pause before the quorum node is tried again: it lies beside, and is back as soon as it has started."""
APPENDS_WAITING_MAX: Final = 10_000
"""The engine refuses writes long before this many are on their way."""
REQUEST_BYTES_MAX: Final = 8 << 20
"""Of appends that leave in one message: half of what the quorum node receives at once, so that one more fits."""


class Behind(EOFError):
    """The engine has gone back further than the stream of events knows: it has to begin anew."""


class Told(Protocol):
    """Whom the link tells."""

    def next_offset(self) -> Offset:
        """Where to go on listening."""

    def hear(self, event: ListenResponse) -> None:
        """One event, in order."""

    def appended(self, end_offset: Offset) -> None:
        """The quorum has the batch that ends there."""

    def refused(self, error: ErrorCode, wanted: Offset) -> None:
        """The quorum did not take a batch; those sent after it are void too."""

    def cut_off(self) -> None:
        """The quorum node cannot be heard: nothing is known any more of what it leads or has taken."""


class QuorumLink:
    """Listens and appends for as long as it runs; begins anew when the quorum node comes back.

    One message of appends is under way at a time, and all that is decided until it is committed goes into the next
    one: a round of the quorum costs seven messages between its nodes, however much is in it.
    """

    def __init__(self, channel: grpc.aio.Channel, told: Told) -> None:
        self._stub = RaftClientStub(channel)
        self._told = told
        self._sent = 0
        self._void_up_to = 0
        self._attempt = 0
        self._waiting: deque[Append] = deque()
        self._under_way: Offset | None = None
        """Where the message ends that is not committed."""
        self._changed = asyncio.Event()
        """Something more waits, or nothing is under way any more."""

    def send(self, append: Append) -> None:
        """One batch on its way; never waits."""
        assert len(self._waiting) < APPENDS_WAITING_MAX, len(self._waiting)
        self._waiting.append(append)
        self._changed.set()

    def drop(self) -> None:
        """What was not sent yet is void, and so are the answers to what was."""
        self._waiting.clear()
        self._under_way = None
        self._void_up_to = self._sent
        self._attempt += 1

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with asyncio.TaskGroup() as streams:
                    streams.create_task(self._listen())
                    streams.create_task(self._append())
            except* (grpc.aio.AioRpcError, asyncio.InvalidStateError, EOFError) as failure:
                # InvalidStateError is gRPC's answer to a write on a stream that has just ended.
                log.debug("cut off from the quorum node", reason=str(failure.exceptions[0]).partition("\n")[0])
            self.drop()
            self._told.cut_off()
            await asyncio.sleep(RETRY_S)

    async def _listen(self) -> None:
        async for event in self._stub.Listen(ListenRequest(next_offset=self._told.next_offset())):
            self._told.hear(event)
            self._hear_of_commit(event.committed.high_watermark)
        raise EOFError("the quorum node has ended the stream of events")

    def _hear_of_commit(self, high_watermark: Offset) -> None:
        if self._under_way is not None and high_watermark >= self._under_way:
            self._under_way = None
            self._changed.set()

    async def _append(self) -> None:
        call = self._stub.Append()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._write(call.write))
                both.create_task(self._read(call.read))
        finally:
            call.cancel()

    async def _write(self, write: Callable[[AppendRequest], object]) -> None:
        while True:
            while not self._waiting or self._under_way is not None:
                self._changed.clear()
                await self._changed.wait()
            appends = self._take()
            self._under_way = appends[-1].base_offset + len(appends[-1].values)
            self._sent += 1
            await write(self._request(appends))  # type: ignore[misc]  # a coroutine; the stubs say object

    def _take(self) -> list[Append]:
        """All that waits, as far as it fits into one message."""
        appends = [self._waiting.popleft()]
        size = _size(appends[0])
        while self._waiting and size < REQUEST_BYTES_MAX:
            appends.append(self._waiting.popleft())
            size += _size(appends[-1])
        return appends

    def _request(self, appends: Sequence[Append]) -> AppendRequest:
        """All that waited in one message: what a message costs is shared by what is in it."""
        first = appends[0]
        assert all(append.epoch == first.epoch for append in appends), appends
        return AppendRequest(
            correlation_id=self._sent,
            epoch=first.epoch,
            base_offset=first.base_offset,
            attempt=self._attempt,
            batches=[AppendRequest.Batch(values=each.values, may_join=not each.is_tagged) for each in appends],
        )

    async def _read(self, read: Callable[[], object]) -> None:
        while True:
            answer = await read()  # type: ignore[misc]  # as above
            if not isinstance(answer, AppendResponse):
                raise EOFError("the quorum node has ended the stream of appends")
            if answer.correlation_id <= self._void_up_to:
                continue
            if answer.error_code:
                self.drop()
                self._told.refused(ErrorCode(answer.error_code), answer.end_offset)
            else:
                self._told.appended(answer.end_offset)


def _size(append: Append) -> int:
    return sum(map(len, append.values))
