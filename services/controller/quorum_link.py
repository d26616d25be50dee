"""Client of the quorum node's RaftClient service: streams appends to it, and receives its events (Listen)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import getrandbits
from typing import Final, Protocol

import grpc

from kraft.service.quorum_pb2 import (
    AppendRequest,
    AppendResponse,
    ControllerHeartbeatRequest,
    ListenRequest,
    ListenResponse,
)
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.controller.engine.engine import Append
from quorate.errors import ErrorCode, error_of
from quorate.nouns import Offset
from quorate.runtime.logging.logs import logger

log = logger(__name__)

HEARTBEAT_S: Final = 0.25
"""Interval of ControllerHeartbeat: a twentieth of the default of `controller.presence.timeout.ms`."""
HEARTBEAT_TIMEOUT_S: Final = 1.0
SESSION_BITS: Final = 63
RETRY_S: Final = 0.1
"""Pause before a reconnect to the quorum node, which runs on the same host."""
GROUP_WAIT_S: Final = 0.005
"""How long (s) queued appends wait for one that is about to come, to share its message and its commit, and a request
before an append for the commit under way: anew whenever another one has come meanwhile."""
GROUP_WAIT_MAX_S: Final = 0.1
"""How long (s) they wait at most, however many come."""
APPENDS_WAITING_MAX: Final = 10_000
"""Bound of the queue of appends; the engine refuses writes long before it is reached."""
REQUEST_BYTES_MAX: Final = 8 << 20
"""The size in bytes that a message of several appends does not exceed: half of the quorum node's receive limit. It is
also that of the largest write, which is sent by itself."""
VALUE_FRAME_BYTES: Final = 5
"""The most bytes that a value takes in a message besides its own: a tag and a length."""


class EventsBehind(EOFError):
    """Raised when the stream of events does not continue at the engine's next offset: both streams are reopened."""


class QuorumListener(Protocol):
    """The callbacks of a QuorumLink; the driver implements them."""

    def next_offset(self) -> Offset:
        """Returns the log offset from which the quorum node's events are requested."""

    async def hear(self, event: ListenResponse) -> None:
        """Handles one event of the Listen stream; events arrive in order."""

    def appended(self, end_offset: Offset) -> None:
        """Called when an append has succeeded: the quorum node's log has everything below `end_offset`.

        That may be committed already, or later: `hear` gets the high watermark.
        """

    def refused(self, error: ErrorCode, wanted: Offset) -> None:
        """Called when an append was refused; the node expects offset `wanted`. All later appends are void too."""

    def cut_off(self) -> None:
        """Called when the streams have ended: the leader and the fate of sent appends are unknown from then on."""


class Shared:
    """The last two messages, by which is seen who comes: how many appends each had, and how long (s) the commit took.

    A message of one append says that nobody shares it, and the next one waits for nobody. After a message of several
    those that it has answered come again, one after the other, as fast as the loop decides them. They are all here
    once they are as many as each of the last two messages had.
    """

    __slots__ = ("_before", "_count", "took_s")

    def __init__(self, count: int = 0, before: int = 0, took_s: float = 0.0) -> None:
        self._count, self._before, self.took_s = count, before, took_s

    def after_commit(self, count: int, took_s: float) -> Shared:
        """Returns the two last messages after one more is committed: it had `count` appends, and took `took_s` (s)."""
        return Shared(count, self._count, took_s)

    def others_come(self, waiting: int) -> bool:
        """Whether more appends are expected beside the `waiting` ones, a count, that are queued.

        Not after a message of one, nor once as many are queued as each of the last two messages had.
        """
        return self._count > 1 and not (waiting >= self._count == self._before)


class Coming:
    """Counts the appends that are announced and not queued yet: one for each `with` block that is open.

    `none_left` is called when the last one closes.
    """

    __slots__ = ("_none_left", "count")

    def __init__(self, none_left: Callable[[], None]) -> None:
        self._none_left = none_left
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        if not self.count:
            self._none_left()


class QuorumLink:
    """Keeps the Listen and Append streams to the quorum node open, and reconnects when it comes back.

    Group commit: one message of appends is sent at a time, and all records decided until its commit share the next
    message. A commit costs seven messages between the nodes, however many records it has. So appends also wait while
    others are `coming`, or are expected because the last message was `Shared`; an append that comes alone never waits.
    Kafka always waits for others, until `controller.quorum.append.linger.ms` is over.

    The wait for those that are announced ends when none is, `group_wait_s` after the last that came, or after
    `group_wait_max_s`. While others come the loop is busy with them. A message that left before would not have them
    answered sooner, and its commit would take the processor from them; and those that it had would have their answers
    sent by a loop that is still as busy. If nobody comes, those that are announced wait for something else, such as a
    placer, and the message is not to wait with them. An announced one that is refused does not count as one that came:
    a caller that only has requests refused, or tried, holds up nobody's commit. The wait for those that are only
    expected is no longer than the last commit took: they may never come, and so it can double a latency at most.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        listener: QuorumListener,
        *,
        group_wait_s: float = GROUP_WAIT_S,
        group_wait_max_s: float = GROUP_WAIT_MAX_S,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._now_s = now_s or self._loop.time
        self._group_wait_s, self._group_wait_max_s = group_wait_s, group_wait_max_s
        self._came = 0
        """Count of the appends that were queued: while it rises, the loop is busy with them."""
        self._stub = RaftClientStub(channel)
        self._listener = listener
        self._sent = 0
        self._void_up_to = 0
        self._attempt = 0
        self._waiting: deque[Append] = deque()
        self._under_way: Offset | None = None
        """End offset of the message that waits for its commit; None if there is none."""
        self._under_way_count = 0
        """Count of the appends of that message."""
        self._sent_s = 0.0
        """When (the loop's time) it left."""
        self._last = Shared()
        self._look = asyncio.Event()
        """Set when an append is queued after which nobody else is expected, and now and then while others are."""
        self._changed = asyncio.Event()
        """Set when an append is queued, no more are coming, or the message under way is committed."""
        self._coming = Coming(self._changed.set)
        self._is_over = asyncio.Event()
        """Set when the streams to the quorum node have to be reopened."""

    def send(self, append: Append) -> None:
        """Queues one batch of records to append at the quorum node; never blocks."""
        assert len(self._waiting) < APPENDS_WAITING_MAX, len(self._waiting)
        self._waiting.append(append)
        self._came += 1
        if not self._last.others_come(len(self._waiting)):
            self._look.set()
        self._changed.set()

    def coming(self) -> Coming:
        """Announces an append, as a block: `send` queues it right after, unless its request is refused."""
        return self._coming

    async def until_committed(self) -> None:
        """Waits while a message is under way, as no append can leave before, and others come to share the next one."""
        await self._while_others_come(lambda: self._under_way is not None)

    async def _while_others_come(self, is_due: Callable[[], bool]) -> None:
        """Waits while `is_due`, but not longer than the class says."""
        if not is_due():
            return
        now_s = self._now_s
        ends, came = now_s() + self._group_wait_max_s, -1
        while is_due() and came != self._came and now_s() < ends:
            came = self._came
            with suppress(TimeoutError):
                async with asyncio.timeout(self._group_wait_s):
                    while is_due():
                        await self._change()

    def drop(self) -> None:
        """Discards the queued appends, and ignores the answers to those that were sent."""
        self._waiting.clear()
        self._under_way = None
        self._last = Shared()
        self._void_up_to = self._sent
        self._attempt += 1

    def begin_anew(self) -> None:
        """Closes both streams and reopens them; a quorum leader whose active controller does so resigns."""
        self._is_over.set()

    async def run(self) -> None:
        """Keeps the streams open until cancelled; after a failure drops the appends, calls `cut_off`, opens others."""
        while True:
            self._is_over.clear()
            # A task of its own: a group in which a task fails in the moment of a cancellation reports the failure
            # alone (CPython gh-116720), and this loop would go on after a stop.
            session = asyncio.ensure_future(self._session())
            try:
                await asyncio.wait([session])
            except asyncio.CancelledError:
                session.cancel()
                await asyncio.wait([session])
                raise
            session.result()
            self.drop()
            self._listener.cut_off()
            await asyncio.sleep(RETRY_S)

    async def _session(self) -> None:
        """Keeps the streams open until one fails."""
        try:
            async with asyncio.TaskGroup() as streams:
                session_id = getrandbits(SESSION_BITS)
                streams.create_task(self._until_over())
                streams.create_task(self._listen(session_id))
                streams.create_task(self._beat(session_id))
                streams.create_task(self._append())
        except* (grpc.aio.AioRpcError, asyncio.InvalidStateError, EOFError) as failure:
            # InvalidStateError is gRPC's answer to a write on a stream that has just ended.
            log.debug("cut off from the quorum node", reason=str(failure.exceptions[0]).partition("\n")[0])

    async def _until_over(self) -> None:
        await self._is_over.wait()
        raise EventsBehind("this controller cannot stay active")

    async def _beat(self, session_id: int) -> None:
        """Sends heartbeats (controller presence): the quorum node treats a controller without them as hung."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                request = ControllerHeartbeatRequest(session_id=session_id)
                await self._stub.ControllerHeartbeat(request, timeout=HEARTBEAT_TIMEOUT_S)
            except grpc.aio.AioRpcError as failure:  # the streams report it if the node is gone
                log.debug("heartbeat not heard", reason=str(failure.details()))

    async def _listen(self, session_id: int) -> None:
        wanted = ListenRequest(next_offset=self._listener.next_offset(), session_id=session_id)
        call = self._stub.Listen(wanted)
        try:
            async for event in call:
                await self._listener.hear(event)
                self._hear_of_commit(event.committed.high_watermark)
        finally:
            # Cancelled at once, or the quorum node would keep a controller active that no longer reads the stream.
            call.cancel()
        raise EOFError("the quorum node has ended the stream of events")

    def _hear_of_commit(self, high_watermark: Offset) -> None:
        if self._under_way is not None and high_watermark >= self._under_way:
            self._under_way = None
            self._last = self._last.after_commit(self._under_way_count, self._now_s() - self._sent_s)
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
            await self._due()
            if not self._waiting:
                continue  # dropped meanwhile
            assert self._under_way is None, f"a message is under way, up to {self._under_way}"
            appends = self._take()
            self._under_way = appends[-1].base_offset + len(appends[-1].values)
            self._under_way_count, self._sent_s = len(appends), self._now_s()
            self._sent += 1
            await write(self._request(appends))  # type: ignore[misc]  # a coroutine; the stubs say object

    async def _due(self) -> None:
        """Waits until a message is due: appends are queued, the one before is committed, and no others come."""
        while not self._waiting or self._under_way is not None:
            await self._change()
        await self._while_others_come(lambda: self._coming.count > 0)
        await self._until_all_are_here()

    async def _until_all_are_here(self) -> None:
        """Waits while others are expected and come, but not longer than the class says. Looks for them now and then.

        To be woken by each that comes would cost more than the messages that are saved.
        """
        most_s = min(self._group_wait_max_s, self._last.took_s)
        wait_s, ends, came = min(self._group_wait_s, most_s), self._now_s() + most_s, -1
        while self._last.others_come(len(self._waiting)) and came != self._came and self._now_s() < ends:
            came = self._came
            self._look.clear()
            timer = self._loop.call_later(wait_s, self._look.set)
            try:
                await self._look.wait()
            finally:
                timer.cancel()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _take(self) -> list[Append]:
        """Takes appends from the queue, at least one, and no more than fit into one message."""
        appends = [self._waiting.popleft()]
        size = _size(appends[0])
        while self._waiting and (size := size + _size(self._waiting[0])) <= REQUEST_BYTES_MAX:
            appends.append(self._waiting.popleft())
        return appends

    def _request(self, appends: Sequence[Append]) -> AppendRequest:
        """Builds one AppendRequest from several appends of the same epoch."""
        first = appends[0]
        assert all(append.epoch == first.epoch for append in appends), appends
        ends = [append.base_offset + len(append.values) for append in appends]
        assert [append.base_offset for append in appends[1:]] == ends[:-1], f"only the first offset is sent: {ends}"
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
                self._listener.refused(error_of(answer.error_code), answer.end_offset)
            else:
                self._listener.appended(answer.end_offset)


def _size(append: Append) -> int:
    return sum(map(len, append.values)) + VALUE_FRAME_BYTES * len(append.values)
