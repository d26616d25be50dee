"""A quorum of real processes to be measured, and a writer that is the controller of all of them at once."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc

from deploy.local.plan import ClusterPlan, PlanTls, Process, ProcessHost, make_plan, secured
from deploy.local.processes import Running
from kraft.service.quorum_pb2 import (
    AppendRequest,
    AppendResponse,
    FindQuorumRequest,
    FindQuorumResponse,
    ListenRequest,
    ListenResponse,
)
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.records import ConfigRecord, encode_record
from quorate.runtime.clients.client import open_channel
from quorate.runtime.connections.transport import PLAIN, Transport

T = TypeVar("T")

WITHIN_S: Final = 120.0
"""How long a leader may take to be there, or an append to be committed, before the bench gives up."""
LOOK_AGAIN_S: Final = 0.01
VALUE_BYTES: Final = 200
QUIET: Final = {"OTEL_SDK_DISABLED": "true"}


def value() -> bytes:
    """One record of 200 bytes, as a controller would write it."""
    room = VALUE_BYTES - len(encode_record(ConfigRecord(resource_type=2, resource_name="", name="n", value=""), 0))
    made = encode_record(ConfigRecord(resource_type=2, resource_name="", name="n", value="v" * (room - 1)), 0)
    assert len(made) in (VALUE_BYTES - 1, VALUE_BYTES), len(made)
    return made


@asynccontextmanager
async def quorum(
    voters: int = 3,
    *,
    tls: Callable[[ClusterPlan], PlanTls] | None = None,
    nodes_at: Mapping[int, ProcessHost] | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[ClusterPlan, Running]]:
    """Quorum nodes alone, on free ports and in a directory of their own, until the block ends."""
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    plan = make_plan(directory, voters=voters, nodes_at=nodes_at)
    plan = plan if tls is None else secured(plan, tls(plan))
    running = Running(plan)
    try:
        for node in plan.quorum:
            node.settings.update(settings or {})
            await running.format(node)
            await running.spawn(node, environ=QUIET)
        await running.ready(plan.quorum)
        yield plan, running
    finally:
        await running.stop()
        shutil.rmtree(directory)


class Writer:
    """What the active controller is to its quorum node: it gives offsets, appends on one stream, hears of commits.

    It listens to every node, as the controllers beside them would, so that each leader finds one to write.
    """

    def __init__(self, nodes: Iterable[Process], transport: Transport = PLAIN) -> None:
        self._transport = transport
        self.epoch = -1
        self.leader: Process | None = None
        self.next_offset = 0
        self.committed = 0
        self.refusals = 0
        self.heard: Callable[[int], None] = _nobody
        """Is called with what is committed, each time that the leader tells."""
        self._nodes = tuple(nodes)
        self._channels: list[grpc.aio.Channel] = []
        self._moved = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._call: Any = None
        self._sent = 0
        self._attempt = 0

    async def __aenter__(self) -> Writer:
        for node in self._nodes:
            self.listen_to(node)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for channel in self._channels:
            await channel.close()

    def listen_to(self, node: Process) -> None:
        """Be the controller beside `node` for as long as that runs."""
        channel = open_channel(node.address, self._transport)
        self._channels.append(channel)
        self._tasks.append(asyncio.ensure_future(self._listen(node, RaftClientStub(channel))))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until what this writer has heard makes `holds` true. Raises TimeoutError."""
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                await self._moved.wait()

    async def active(self, after: int = -1) -> None:
        """Wait until a node leads in an epoch later than `after`, and takes appends."""
        await self.until(lambda: self.leader is not None and self.epoch > after)

    async def append(self, record: bytes, count: int, *, may_join: bool, records: int = 1) -> None:
        """So many appends of so many records each, on their way in one message."""
        self._sent += 1
        batch = AppendRequest.Batch(values=[record] * records, may_join=may_join)
        request = AppendRequest(
            correlation_id=self._sent,
            epoch=self.epoch,
            base_offset=self.next_offset,
            attempt=self._attempt,
            batches=[batch] * count,
        )
        self.next_offset += count * records
        await self._call.write(request)

    async def commit(self, record: bytes) -> float:
        """One append until it is committed; the answer is how many seconds that took."""
        started = time.perf_counter()
        await self.append(record, 1, may_join=True)
        end = self.next_offset
        while self.committed < end:
            await self._moved.wait()
        return time.perf_counter() - started

    async def flood(
        self, record: bytes, *, in_flight: int, seconds: float, may_join: bool = True
    ) -> tuple[float, list[float]]:
        """Keep so many appends of one record under way; how many a second are committed, and the seconds of each."""
        waiting: deque[tuple[int, float]] = deque()
        took: list[float] = []
        began = time.perf_counter()
        ends = began + seconds
        while (now := time.perf_counter()) < ends:
            if (room := in_flight - len(waiting)) > 0:
                first = self.next_offset + 1
                await self.append(record, room, may_join=may_join)
                waiting.extend((end, now) for end in range(first, first + room))
            moved = self._moved
            if waiting[0][0] > self.committed:
                await moved.wait()
            now = time.perf_counter()
            while waiting and waiting[0][0] <= self.committed:
                took.append(now - waiting.popleft()[1])
        committed, spent = len(took), time.perf_counter() - began
        await self.until(lambda: self.committed >= self.next_offset)
        return committed / spent, took

    async def _listen(self, node: Process, stub: RaftClientStub) -> None:
        try:
            async for event in stub.Listen(ListenRequest(next_offset=self.committed)):
                self._hear(node, stub, event)
        except grpc.aio.AioRpcError:
            if self.leader is node:
                self.leader = None

    def _hear(self, node: Process, stub: RaftClientStub, event: ListenResponse) -> None:
        what = event.WhichOneof("event")
        if what == "committed" and self.leader is node:  # a standby hears that it has all
            self.committed = event.committed.high_watermark
            self.heard(self.committed)
        elif what == "leadership" and event.leadership.next_offset >= 0:
            self.leader, self.epoch = node, event.leadership.epoch
            self.next_offset = self.committed = event.leadership.next_offset
            self._attempt += 1
            self._call = stub.Append()
            self._tasks.append(asyncio.ensure_future(self._read(self._call)))
        elif what == "leadership" and self.leader is node:
            self.leader = None
        else:
            return
        self._moved.set()
        self._moved = asyncio.Event()

    async def _read(self, call: Any) -> None:
        try:
            while isinstance(answer := await call.read(), AppendResponse):
                self.refusals += answer.error_code != 0
        except grpc.aio.AioRpcError:
            pass  # the node is gone, which its stream of events tells


def _nobody(_: int) -> None:
    pass


async def find(node: Process) -> FindQuorumResponse:
    """The quorum as one node sees it."""
    async with open_channel(node.address) as channel:
        answer: FindQuorumResponse = await QuorumStub(channel).FindQuorum(FindQuorumRequest(), timeout=WITHIN_S)
        return answer


async def caught_up(node: Process, committed: int) -> None:
    """Wait until the node knows that everything below `committed` is. Raises TimeoutError."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            if (await find(node)).high_watermark >= committed:
                return
            await asyncio.sleep(LOOK_AGAIN_S)
