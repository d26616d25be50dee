"""What the core wants said to other nodes: one channel each, unary calls, and the Fetch stream to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import grpc

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochResponse
from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotResponse
from kraft.api.vote_pb2 import VoteResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import NodeId
from quorate.raft import messages as raft
from quorate.raft.ready import Send
from quorate.raft.voters import Endpoint
from quorate.runtime.client import open_channel
from quorate.runtime.logs import logger
from services.quorum import translate
from services.quorum.endpoints import NodeEndpoints
from services.quorum.translate import Address

log = logger(__name__)

MARGIN_S: Final = 1.0
"""How much longer than the core a call is waited for: the core gives up first, and asks again as it sees fit."""

A = TypeVar("A", VoteResponse, BeginQuorumEpochResponse, FetchSnapshotResponse)
"""An answer that names the leader."""

Heard = Callable[[raft.Response], None]
Lost = Callable[[NodeId], None]


class Peers:
    """Sends what `Ready` lists, and hands the answers back with the number under which the core waits for them.

    A call that fails is told as `failed`; a Fetch stream that breaks, as `lost`: its leader's process is gone.
    """

    def __init__(
        self,
        endpoints: NodeEndpoints,
        tasks: asyncio.TaskGroup,
        *,
        heard: Heard,
        failed: Callable[[object], None],
        lost: Lost,
        request_timeout_ms: int,
        listeners: Sequence[Endpoint] = (),
    ) -> None:
        """`listeners` are this node's own, of which it tells when it leads."""
        self._endpoints = endpoints
        self._listeners = listeners
        self._tasks = tasks
        self._heard = heard
        self._failed = failed
        self._lost = lost
        self._timeout_s = request_timeout_ms / 1000 + MARGIN_S
        self._channels: dict[Address, grpc.aio.Channel] = {}
        self._stubs: dict[Address, QuorumStub] = {}
        self._stream: _FetchStream | None = None

    def send(self, send: Send) -> None:
        """One request on its way; never waits."""
        if isinstance(send.request, raft.FetchRequest):
            self._fetch(send.to, send.request)
        else:
            self._spawn(self._call(send))

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
            try:
                self._stream = _FetchStream(to, self._stub(to), self._endpoints)
            except ApiError as failure:
                log.debug("no answer", peer=to, request=type(request).__name__, reason=str(failure))
                asyncio.get_running_loop().call_soon(self._failed, request.reply_to)
                return
            self._stream.reading = self._tasks.create_task(self._read(self._stream))
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

    async def _call(self, send: Send) -> None:
        request, token = send.request, send.request.reply_to
        try:
            self._heard(await self._ask(self._stub(send.to, send.endpoints), request, token))
        except (grpc.aio.AioRpcError, ApiError, Corrupt) as failure:
            log.debug("no answer", peer=send.to, request=type(request).__name__, reason=str(failure))
            self._failed(token)

    async def _ask(self, stub: QuorumStub, request: raft.Request, token: object) -> raft.Response:
        timeout = self._timeout_s
        match request:
            case raft.VoteRequest():
                voted = self._heard_in(await stub.Vote(translate.to_vote(request), timeout=timeout))
                return translate.from_vote(voted, token)
            case raft.BeginQuorumEpochRequest():
                begin = translate.to_begin(request, self._listeners)
                begun = self._heard_in(await stub.BeginQuorumEpoch(begin, timeout=timeout))
                return translate.from_begin(begun, token)
            case raft.EndQuorumEpochRequest():
                ended = await stub.EndQuorumEpoch(translate.to_end(request), timeout=timeout)
                return translate.from_end(ended, token)
            case raft.FetchSnapshotRequest():
                ask = translate.to_fetch_snapshot(request)
                piece = self._heard_in(await stub.FetchSnapshot(ask, timeout=timeout))
                return translate.from_fetch_snapshot(piece, token)
            case raft.ApiVersionsRequest():
                spoken = await stub.ApiVersions(translate.to_api_versions(request), timeout=timeout)
                return translate.from_api_versions(spoken, token)
            case raft.AddRaftVoterRequest():
                added = await stub.AddRaftVoter(translate.to_add(request), timeout=timeout)
                return translate.from_add(added, token)
            case raft.RemoveRaftVoterRequest():
                removed = await stub.RemoveRaftVoter(translate.to_remove(request), timeout=timeout)
                return translate.from_remove(removed, token)
            case raft.UpdateRaftVoterRequest():
                updated = await stub.UpdateRaftVoter(translate.to_update(request), timeout=timeout)
                return translate.from_update(updated, token)
            case raft.FetchRequest():
                raise AssertionError("fetches go over the stream")
            case raft.TransferLeadershipRequest() | raft.ConfirmLeadershipRequest():
                raise AssertionError("nodes do not ask each other for it")

    def _heard_in(self, answer: A) -> A:
        """An answer, and where the leader is by it."""
        self._endpoints.hear_of(answer.node_endpoints)
        return answer

    def _stub(self, to: NodeId, at: Sequence[Endpoint] = ()) -> QuorumStub:
        """Of the node where it listens now: a voter may come back elsewhere. `at` are its listeners, peers' one first.

        Raises ApiError(BROKER_NOT_AVAILABLE) for a node of which nobody has said where it listens.
        """
        address = Address(at[0].host, at[0].port) if at else self._endpoints.get(to)
        if address is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"it is not known where node {to} listens")
        if address not in self._stubs:
            self._channels[address] = open_channel(str(address))
            self._stubs[address] = QuorumStub(self._channels[address])
        return self._stubs[address]


class _FetchStream:
    """One stream to one leader: requests are written in order, answers come in the same order."""

    def __init__(self, to: NodeId, stub: QuorumStub, endpoints: NodeEndpoints) -> None:
        self.to = to
        self._endpoints = endpoints
        self.is_closed = False
        self.waiting: list[object] = []
        self.reading: asyncio.Task[None] | None = None
        self._requests: asyncio.Queue[raft.FetchRequest] = asyncio.Queue()
        self._call = stub.FetchStream()

    def write(self, request: raft.FetchRequest) -> None:
        self._requests.put_nowait(request)

    def close(self) -> None:
        self.is_closed = True
        self._call.cancel()
        # gRPC's `write` waits for ever on a call that is cancelled before it is under way, so the call is not enough.
        if self.reading is not None:
            self.reading.cancel()

    async def run(self, heard: Heard) -> None:
        """One request, one answer, for as long as the stream holds."""
        while True:
            request = await self._requests.get()
            self.waiting = [request.reply_to]
            await self._call.write(translate.to_fetch(replace(request, reply_to=None)))
            answer = await self._call.read()
            if not isinstance(answer, FetchResponse):
                return  # the other side has ended the stream
            self.waiting = []
            self._endpoints.hear_of(answer.node_endpoints)
            heard(translate.from_fetch(answer, request.reply_to))
