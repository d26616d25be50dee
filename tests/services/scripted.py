"""Peers of a service over real gRPC that do what a test says: a quorum node, and a controller that is active."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from kraft import Message
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from kraft.service.admin_pb2 import AdminRequest, AdminResponse
from kraft.service.controller_pb2 import ChangeBrokerStateRequest, ChangeBrokerStateResponse
from kraft.service.controller_pb2_grpc import ControllerServicer, add_ControllerServicer_to_server
from kraft.service.quorum_pb2 import (
    AppendRequest,
    AppendResponse,
    ConfirmLeadershipRequest,
    ConfirmLeadershipResponse,
    ListenRequest,
    ListenResponse,
)
from kraft.service.quorum_pb2_grpc import RaftClientServicer, add_RaftClientServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId, Offset
from quorate.records import encode_record
from quorate.runtime.calls.server import Server
from quorate.wire.batch import data_batch

LOOPBACK = "127.0.0.1"
WITHIN_S = 120
"""A bound against hanging."""


async def nothing() -> None:
    """Does nothing."""


class ScriptedQuorum(RaftClientServicer):
    """Takes every append, and sends the events that a test gives it."""

    def __init__(self) -> None:
        self.appends: list[AppendRequest] = []
        self.confirmed: list[Epoch] = []
        """The epochs that were asked about."""
        self.confirms = ErrorCode.NONE
        """Its answer to ConfirmLeadership."""
        self.before_confirming: Callable[[], Awaitable[object]] = nothing
        """What is awaited before each of these answers."""
        self.answers = asyncio.Event()
        """While it is not set, appends are taken and not answered."""
        self.answers.set()
        self._changed = asyncio.Condition()
        self._events: asyncio.Queue[ListenResponse] = asyncio.Queue()

    async def Append(
        self, request_iterator: AsyncIterable[AppendRequest], context: Any
    ) -> AsyncIterator[AppendResponse]:
        async for request in request_iterator:
            async with self._changed:
                self.appends.append(request)
                self._changed.notify_all()
            await self.answers.wait()
            yield AppendResponse(correlation_id=request.correlation_id, end_offset=end_of(request))

    async def Listen(self, request: ListenRequest, context: Any) -> AsyncIterator[ListenResponse]:
        while True:
            yield await self._events.get()

    async def ConfirmLeadership(self, request: ConfirmLeadershipRequest, context: Any) -> ConfirmLeadershipResponse:
        self.confirmed.append(request.epoch)
        await self.before_confirming()
        return ConfirmLeadershipResponse(error_code=self.confirms)  # type: ignore[arg-type]

    def lead(self, leader_id: NodeId, *, epoch: Epoch, next_offset: Offset) -> None:
        """Who leads from now on."""
        leadership = ListenResponse.Leadership(leader_id=leader_id, epoch=epoch, next_offset=next_offset)
        self._events.put_nowait(ListenResponse(leadership=leadership))

    def commit(self, high_watermark: Offset) -> None:
        """What is committed from now on."""
        self._events.put_nowait(ListenResponse(committed=ListenResponse.Committed(high_watermark=high_watermark)))

    def replicate(self, *records: Message, base_offset: Offset = 0) -> None:
        """A batch of committed records, for a controller that is standing by."""
        values = [encode_record(record, 0) for record in records]
        data = data_batch(base_offset=base_offset, epoch=1, timestamp_ms=0, values=values)
        self._events.put_nowait(ListenResponse(batches=ListenResponse.Batches(records=data)))

    def begin_snapshot(self) -> None:
        """The first chunk of a snapshot, which clears the controller's state; the others do not come."""
        self._events.put_nowait(ListenResponse(snapshot=ListenResponse.SnapshotChunk()))

    async def until(self, count: int) -> None:
        """So many appends have come."""
        async with asyncio.timeout(WITHIN_S), self._changed:
            await self._changed.wait_for(lambda: len(self.appends) >= count)


class ScriptedController(ControllerServicer):
    """Is active: answers reads with nothing, and keeps what it was asked for and how."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, str]] = []
        """Of each read."""
        self.left_s: list[float] = []
        """How long each reader still waited."""
        self.before_answering: Callable[[], Awaitable[object]] = nothing
        """What is awaited before each answer."""
        self.is_gone = False
        """Ends each call as it ends for who loses the connection: by a status of gRPC's alone."""
        self.calls: asyncio.Queue[str] = asyncio.Queue()
        """The name of each RPC that has come."""
        self.changes: asyncio.Queue[tuple[ChangeBrokerStateRequest, asyncio.Future[Offset]]] = asyncio.Queue()
        """Each with where the answer's offset is to be put."""

    async def DescribeTopicPartitions(
        self, request: DescribeTopicPartitionsRequest, context: Any
    ) -> DescribeTopicPartitionsResponse:
        self.metadata.append(dict(context.invocation_metadata()))
        self.left_s.append(context.time_remaining())
        await self._asked_for("DescribeTopicPartitions", context)
        return DescribeTopicPartitionsResponse()

    async def CreateTopics(self, request: CreateTopicsRequest, context: Any) -> CreateTopicsResponse:
        await self._asked_for("CreateTopics", context)
        return CreateTopicsResponse()

    async def Submit(self, request: AdminRequest, context: Any) -> AdminResponse:
        await self._asked_for("Submit", context)
        return AdminResponse(correlation_id=request.correlation_id)

    async def _asked_for(self, rpc: str, context: Any) -> None:
        self.calls.put_nowait(rpc)
        await self.before_answering()
        if self.is_gone:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")

    async def ChangeBrokerState(self, request: ChangeBrokerStateRequest, context: Any) -> ChangeBrokerStateResponse:
        offset: asyncio.Future[Offset] = asyncio.get_running_loop().create_future()
        self.changes.put_nowait((request, offset))
        return ChangeBrokerStateResponse(state=request.target, offset=await offset)

    async def asked(self) -> tuple[ChangeBrokerStateRequest, asyncio.Future[Offset]]:
        """The next change that is asked for."""
        async with asyncio.timeout(WITHIN_S):
            return await self.changes.get()


def end_of(request: AppendRequest) -> Offset:
    """Where an append ends in the log."""
    return request.base_offset + sum(len(batch.values) for batch in request.batches)


@asynccontextmanager
async def quorum_at_work() -> AsyncIterator[tuple[ScriptedQuorum, str]]:
    """A scripted quorum node, and its address."""
    scripted = ScriptedQuorum()
    server = Server()
    server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, scripted)
    async with listening(server) as address:
        yield scripted, address


@asynccontextmanager
async def controller_at_work() -> AsyncIterator[tuple[ScriptedController, str]]:
    """A scripted controller, and its address."""
    scripted = ScriptedController()
    server = Server()
    server.add("kraft.service.Controller", add_ControllerServicer_to_server, scripted)
    async with listening(server) as address:
        yield scripted, address


@asynccontextmanager
async def listening(server: Server) -> AsyncIterator[str]:
    """On a free port."""
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace_s=0)


def failed(status: grpc.StatusCode, trailing: Any = (), details: str = "") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(*trailing), details)
