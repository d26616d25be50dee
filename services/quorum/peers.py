"""Client of the other quorum nodes: sends the core's requests, by unary calls and by the Fetch stream to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import grpc
from msgspec.structs import replace

from kraft.api.fetch_pb2 import FetchResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import NodeId
from quorate.raft import fencing
from quorate.raft import messages as raft
from quorate.raft.ready import Send
from quorate.raft.voters import ListenerEndpoint
from quorate.runtime.client import open_channel
from quorate.runtime.logs import logger
from quorate.runtime.transport import PLAIN, Transport
from services.quorum import translate
from services.quorum.endpoints import NodeEndpoints
from services.quorum.translate import Address

log = logger(__name__)

MARGIN_S: Final = 1.0
"""Added (s) to the core's request timeout for the gRPC deadline: the core times out first, and retries by its rules."""

R = TypeVar("R", bound=raft.Response)
"""A response type that names the leader."""

Heard = Callable[[raft.Response], None]
Lost = Callable[[NodeId], None]
Refused = Callable[[str], None]


class Peers:
    """Sends the core's requests to its peers, and passes the answers back with their `reply_to` token.

    A failed call is reported by `failed`, a broken Fetch stream by `lost`, since the leader's process is gone then.
    """

    def __init__(
        self,
        endpoints: NodeEndpoints,
        tasks: asyncio.TaskGroup,
        *,
        heard: Heard,
        failed: Callable[[object], None],
        lost: Lost,
        refused: Refused,
        request_timeout_ms: int,
        listeners: Sequence[ListenerEndpoint] = (),
        transport: Transport = PLAIN,
    ) -> None:
        """`listeners` are this node's own, which it announces as leader; `refused` is called with malformed answers."""
        self._endpoints = endpoints
        self._transport = transport
        self._listeners = listeners
        self._tasks = tasks
        self._heard = heard
        self._failed = failed
        self._lost = lost
        self._refused = refused
        self._timeout_s = request_timeout_ms / 1000 + MARGIN_S
        self._channels: dict[Address, grpc.aio.Channel] = {}
        self._stubs: dict[Address, QuorumStub] = {}
        self._stream: _FetchStream | None = None

    def send(self, send: Send) -> None:
        """Sends one request of the core to a peer, in the background; never blocks."""
        if isinstance(send.request, raft.FetchRequest):
            self._fetch(send.to, send.request)
        else:
            self._spawn(self._call(send))

    def stop_fetching(self, *, unless_from: NodeId | None) -> None:
        """Closes the Fetch stream, unless it goes to `unless_from`, the present leader."""
        if self._stream is not None and self._stream.to != unless_from:
            self._stream.close()
            self._stream = None

    async def close(self) -> None:
        """Closes the Fetch stream and all channels."""
        self.stop_fetching(unless_from=None)
        for channel in self._channels.values():
            await channel.close()

    def _fetch(self, to: NodeId, request: raft.FetchRequest) -> None:
        # The core asks again only when it has given up on the request before, whose answer may never come.
        self.stop_fetching(unless_from=None if self._stream is not None and self._stream.is_busy else to)
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
            async for request, answer in stream.run():
                self._take_fetch(stream.to, request, answer)
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

    def _take_fetch(self, leader_id: NodeId, request: raft.FetchRequest, answer: FetchResponse) -> None:
        """Passes a Fetch answer to the core; a malformed one counts as failed, and the stream stays open."""
        try:
            response = translate.from_fetch(answer, request.reply_to)
        except (ApiError, Corrupt) as nonsense:
            self._refused(f"the Fetch answer of node {leader_id}: {nonsense}")
            self._failed(request.reply_to)
        else:
            # A leader that was reached by its own id needs no new address; the answer's address is for other nodes.
            self._heard(response if response.leader_id == leader_id else _located(response, answer, self._endpoints))

    async def _call(self, send: Send) -> None:
        request, token = send.request, send.request.reply_to
        try:
            response = await self._ask(self._stub(send.to, send.endpoints), request, token)
        except grpc.aio.AioRpcError as failure:
            log.debug("no answer", peer=send.to, request=type(request).__name__, reason=str(failure))
            self._failed(token)
        except (ApiError, Corrupt) as nonsense:
            self._refused(f"the answer of node {send.to} to a {type(request).__name__}: {nonsense}")
            self._failed(token)
        else:
            self._heard(response)

    async def _ask(self, stub: QuorumStub, request: raft.Request, token: object) -> raft.Response:
        timeout = self._timeout_s
        match request:
            case raft.VoteRequest():
                voted = await stub.Vote(translate.to_vote(request), timeout=timeout)
                return _located(translate.from_vote(voted, token), voted, self._endpoints)
            case raft.BeginQuorumEpochRequest():
                begin = translate.to_begin(request, self._listeners)
                begun = await stub.BeginQuorumEpoch(begin, timeout=timeout)
                return _located(translate.from_begin(begun, token), begun, self._endpoints)
            case raft.EndQuorumEpochRequest():
                ended = await stub.EndQuorumEpoch(translate.to_end(request, self._listeners), timeout=timeout)
                return translate.from_end(ended, token)
            case raft.FetchSnapshotRequest():
                ask = translate.to_fetch_snapshot(request)
                piece = await stub.FetchSnapshot(ask, timeout=timeout)
                return _located(translate.from_fetch_snapshot(piece, token), piece, self._endpoints)
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
            case raft.ControllerPresenceRequest():
                noted = await stub.ControllerPresence(translate.to_presence(request), timeout=timeout)
                return translate.from_presence(noted, token)
            case raft.FetchRequest():
                raise AssertionError("fetches go over the stream")
            case raft.TransferLeadershipRequest() | raft.ConfirmLeadershipRequest() | raft.AlterQuorumRequest():
                raise AssertionError("nodes do not ask each other for it")

    def _stub(self, to: NodeId, at: Sequence[ListenerEndpoint] = ()) -> QuorumStub:
        """Returns the stub for a node at its present address; `at` are its listeners if the request names them.

        Raises ApiError(BROKER_NOT_AVAILABLE) if no address of the node is known.
        """
        address = Address(at[0].host, at[0].port) if at else self._endpoints.get(to)
        if address is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"it is not known where node {to} listens")
        if address not in self._stubs:
            self._channels[address] = open_channel(str(address), self._transport)
            self._stubs[address] = QuorumStub(self._channels[address])
        return self._stubs[address]


class _FetchStream:
    """One Fetch stream to one leader; answers come in the order of the requests."""

    def __init__(self, to: NodeId, stub: QuorumStub, endpoints: NodeEndpoints) -> None:
        self.to = to
        self._endpoints = endpoints
        self.is_closed = False
        self.waiting: list[object] = []
        self.reading: asyncio.Task[None] | None = None
        self._requests: asyncio.Queue[raft.FetchRequest] = asyncio.Queue()
        self._call = stub.FetchStream()

    @property
    def is_busy(self) -> bool:
        """Whether a request is queued or awaits its answer."""
        return bool(self.waiting) or not self._requests.empty()

    def write(self, request: raft.FetchRequest) -> None:
        self._requests.put_nowait(request)

    def close(self) -> None:
        self.is_closed = True
        self._call.cancel()
        # gRPC's `write` blocks for ever on a call cancelled before it began, so the reading task is cancelled too.
        if self.reading is not None:
            self.reading.cancel()

    async def run(self) -> AsyncIterator[tuple[raft.FetchRequest, FetchResponse]]:
        """Sends queued requests one at a time and yields each with its answer, until the stream ends."""
        while True:
            request = await self._requests.get()
            self.waiting = [request.reply_to]
            await self._call.write(translate.to_fetch(replace(request, reply_to=None)))
            answer = await self._call.read()
            if not isinstance(answer, FetchResponse):
                return  # the other side has ended the stream
            self.waiting = []
            yield request, answer


def _located(response: R, answer: Any, endpoints: NodeEndpoints) -> R:
    """Notes the leader's address from an answer, and returns `response`.

    As in Kafka, an address counts only in an answer with leader and epoch, which another cluster's node does not give.
    """
    if fencing.has_epoch(response):
        endpoints.hear_of(node for node in answer.node_endpoints if node.node_id == response.leader_id)
    return response
