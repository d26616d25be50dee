"""A controller's link to a quorum node that commits on command, and notes of the link's events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kraft.service.quorum_pb2 import AppendRequest, AppendResponse, ListenRequest, ListenResponse
from kraft.service.quorum_pb2_grpc import RaftClientServicer, add_RaftClientServicer_to_server
from quorate.controller.engine.engine import Append
from quorate.errors import ErrorCode
from quorate.nouns import Offset
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import open_channel
from services.controller.quorum_link import QuorumLink
from services.quorum.__main__ import RECEIVE_BYTES_MAX

PATIENT_S = 120.0


class Quorum(RaftClientServicer):
    """Takes every append but the next one on command; commits nothing by itself."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, ...]] = []
        self.refuses_next: int = ErrorCode.NONE
        """The error code with which the next append is answered."""
        self.changed = asyncio.Condition()
        self.ended = 0
        """Streams of events that are over."""
        self._events: asyncio.Queue[ListenResponse] = asyncio.Queue()

    async def Append(
        self, request_iterator: AsyncIterable[AppendRequest], context: Any
    ) -> AsyncIterator[AppendResponse]:
        async for request in request_iterator:
            sizes = tuple(len(batch.values) for batch in request.batches)
            async with self.changed:
                self.messages.append((request.base_offset, *sizes))
                self.changed.notify_all()
            error, self.refuses_next = self.refuses_next, ErrorCode.NONE
            yield AppendResponse(
                correlation_id=request.correlation_id,
                error_code=error,  # type: ignore[arg-type]  # the stubs' enum type does not know all that a test sends
                end_offset=request.base_offset + sum(sizes),
            )

    async def Listen(self, request: ListenRequest, context: Any) -> AsyncIterator[ListenResponse]:
        try:
            while True:
                yield await self._events.get()
        finally:
            async with self.changed:
                self.ended += 1
                self.changed.notify_all()

    def commit(self, high_watermark: Offset) -> None:
        self._events.put_nowait(ListenResponse(committed=ListenResponse.Committed(high_watermark=high_watermark)))

    async def until(self, count: int) -> None:
        """So many messages have come."""
        async with asyncio.timeout(120), self.changed:
            await self.changed.wait_for(lambda: len(self.messages) >= count)


class Told:
    """Notes what the link tells."""

    def __init__(self) -> None:
        self.notes: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
        self.link: asyncio.Task[None]
        """The task of the link that tells it."""

    def next_offset(self) -> Offset:
        return 0

    async def hear(self, event: ListenResponse) -> None:
        self.notes.put_nowait(("committed", event.committed.high_watermark))

    def appended(self, end_offset: Offset) -> None:
        self.notes.put_nowait(("appended", end_offset))

    def refused(self, error: ErrorCode, wanted: Offset) -> None:
        self.notes.put_nowait((error.name, wanted))

    def cut_off(self) -> None:
        self.notes.put_nowait(("cut off", 0))

    async def next(self) -> tuple[str, int]:
        async with asyncio.timeout(120):
            return await self.notes.get()


@asynccontextmanager
async def linked(
    told: Told | None = None, *, group_wait_s: float = PATIENT_S, group_wait_max_s: float = PATIENT_S, **options: Any
) -> AsyncIterator[tuple[QuorumLink, Quorum, Told]]:
    quorum, told = Quorum(), told or Told()
    server = Server(limits=ServerLimits(receive_bytes_max=RECEIVE_BYTES_MAX))
    server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, quorum)
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        link = QuorumLink(channel, told, group_wait_s=group_wait_s, group_wait_max_s=group_wait_max_s, **options)
        told.link = asyncio.create_task(link.run())
        yield link, quorum, told
        told.link.cancel()
        await asyncio.wait([told.link])
    await server.stop(grace_s=0)


def batch(base_offset: Offset, count: int = 1) -> Append:
    return Append(epoch=1, base_offset=base_offset, values=(b"value",) * count)
