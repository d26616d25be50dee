"""What the core wants said to other nodes: one channel each, unary calls, and the Fetch stream to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Final

import grpc

from kraft.api.fetch_pb2 import FetchResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError, Corrupt
from quorate.nouns import NodeId
from quorate.raft import messages as raft
from quorate.raft.ready import Send
from quorate.runtime.client import open_channel
from quorate.runtime.logs import logger
from services.quorum import translate
from services.quorum.translate import Endpoints

log = logger(__name__)

MARGIN_S: Final = 1.0
"""How much longer than the core a call is waited for: the core gives up first, and asks again as it sees fit."""

Heard = Callable[[raft.Response], None]
Lost = Callable[[NodeId], None]


class Peers:
    """Sends what `Ready` lists, and hands the answers back with the number under which the core waits for them.

    A call that fails is told as `failed`; a Fetch stream that breaks, as `lost`: its leader's process is gone.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        tasks: asyncio.TaskGroup,
        *,
        heard: Heard,
        failed: Callable[[object], None],
        lost: Lost,
        request_timeout_ms: int,
    ) -> None:
        self._endpoints = endpoints
        self._tasks = tasks
        self._heard = heard
        self._failed = failed
        self._lost = lost
        self._timeout_s = request_timeout_ms / 1000 + MARGIN_S
        self._channels: dict[NodeId, grpc.aio.Channel] = {}
        self._stubs: dict[NodeId, QuorumStub] = {}
        self._stream: _FetchStream | None = None

    def send(self, send: Send) -> None:
        """One request on its way; never waits."""
        if isinstance(send.request, raft.FetchRequest):
            self._fetch(send.to, send.request)
        else:
            self._spawn(self._call(send.to, send.request))

    def stop_fetching(self, *, unless_from: NodeId | None) -> None:
        """Close the Fetch stream, unless it is to the node that leads now."""
        if self._stream is not None and self._stream.to != unless_from:
            self._stream.close()
            self._stream = None

    async def close(self) -> None:
        """Close every channel."""
        self.stop_fetching(unless_from=None)
        for channel in self._channels.values():
            await channel.close()

    def _fetch(self, to: NodeId, request: raft.FetchRequest) -> None:
        self.stop_fetching(unless_from=to)
        if self._stream is None:
            self._stream = _FetchStream(to, self._stub(to))
            self._spawn(self._read(self._stream))
        self._stream.write(request)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work)

    async def _read(self, stream: _FetchStream) -> None:
        try:
            await stream.run(self._heard)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, ApiError, Corrupt, asyncio.CancelledError) as failure:
            # InvalidStateError is gRPC's answer to a write on a stream that has just ended.
            if stream.is_closed:
                return
            log.debug("fetch stream broke", leader=stream.to, reason=str(failure))
        if not stream.is_closed:
            self._stream = None
            self._lost(stream.to)
            for token in stream.waiting:
                self._failed(token)

    async def _call(self, to: NodeId, request: raft.Request) -> None:
        stub = self._stub(to)
        token = request.reply_to
        try:
            self._heard(await self._ask(stub, request, token))
        except (grpc.aio.AioRpcError, ApiError, Corrupt) as failure:
            log.debug("no answer", peer=to, request=type(request).__name__, reason=str(failure))
            self._failed(token)

    async def _ask(self, stub: QuorumStub, request: raft.Request, token: object) -> raft.Response:
        timeout = self._timeout_s
        match request:
            case raft.VoteRequest():
                return translate.from_vote(await stub.Vote(translate.to_vote(request), timeout=timeout), token)
            case raft.BeginQuorumEpochRequest():
                begun = await stub.BeginQuorumEpoch(translate.to_begin(request), timeout=timeout)
                return translate.from_begin(begun, token)
            case raft.EndQuorumEpochRequest():
                ended = await stub.EndQuorumEpoch(translate.to_end(request), timeout=timeout)
                return translate.from_end(ended, token)
            case raft.FetchSnapshotRequest():
                piece = await stub.FetchSnapshot(translate.to_fetch_snapshot(request), timeout=timeout)
                return translate.from_fetch_snapshot(piece, token)
            case raft.FetchRequest():
                raise AssertionError("fetches go over the stream")

    def _stub(self, to: NodeId) -> QuorumStub:
        if to not in self._stubs:
            self._channels[to] = open_channel(str(self._endpoints[to]))
            self._stubs[to] = QuorumStub(self._channels[to])
        return self._stubs[to]


class _FetchStream:
    """One stream to one leader: requests are written in order, answers come in the same order."""

    def __init__(self, to: NodeId, stub: QuorumStub) -> None:
        self.to = to
        self.is_closed = False
        self.waiting: list[object] = []
        self._requests: asyncio.Queue[raft.FetchRequest | None] = asyncio.Queue()
        self._call = stub.FetchStream()

    def write(self, request: raft.FetchRequest) -> None:
        self._requests.put_nowait(request)

    def close(self) -> None:
        self.is_closed = True
        self._call.cancel()
        self._requests.put_nowait(None)  # `run` waits for the call or for a request, and must end from either

    async def run(self, heard: Heard) -> None:
        """One request, one answer, for as long as the stream holds."""
        while True:
            request = await self._requests.get()
            if request is None:
                return
            self.waiting = [request.reply_to]
            await self._call.write(translate.to_fetch(replace(request, reply_to=None)))
            answer = await self._call.read()
            if not isinstance(answer, FetchResponse):
                return  # the other side has ended the stream
            self.waiting = []
            heard(translate.from_fetch(answer, request.reply_to))
