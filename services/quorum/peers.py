"""Client of the other quorum nodes: sends the core's requests, each peer's in the protocol of its listener.

Fetches to the leader have a connection of their own: over gRPC a stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from google.protobuf.message import Message as ProtobufMessage
from msgspec.structs import replace

from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.update_raft_voter_pb2 import UpdateRaftVoterResponse
from kraft.service.quorum_pb2 import FindQuorumRequest
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import NOBODY, NodeId, ReplicaKey
from quorate.raft import fencing
from quorate.raft import messages as raft
from quorate.raft.ready import Send
from quorate.raft.voters import ListenerEndpoint
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.logging.logs import logger
from services.quorum import translate
from services.quorum.endpoints import NodeEndpoints
from services.quorum.listeners import GRPC, PeerAddress
from services.quorum.peer_wire import Fetching, GrpcWire, PeerWire, Unreached
from services.quorum.reachability import Reachability
from services.quorum.translate import Address

log = logger(__name__)

MARGIN_S: Final = 1.0
"""Added (s) to the core's request timeout for a call's deadline: the core times out first, and retries by its rules."""

R = TypeVar("R", bound=raft.Response)
"""A response type that names the leader."""

Heard = Callable[[raft.Response], None]
Lost = Callable[[NodeId], None]
Refused = Callable[[str], None]


class Peers:
    """Sends the core's requests to its peers, and passes the answers back with their `reply_to` token.

    A failed call is reported by `failed`, a broken Fetch stream by `lost`, since the leader's process is gone then.
    `kafka` has the wire for each security protocol of Kafka that a peer's listener speaks.
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
        kafka: Mapping[str, PeerWire] | None = None,
        reachability: Reachability | None = None,
    ) -> None:
        """`listeners` are this node's own, which it announces as leader; `refused` is called with malformed answers."""
        self._endpoints = endpoints
        self._listeners = listeners
        self._tasks = tasks
        self._heard = heard
        self._failed = failed
        self._lost = lost
        self._refused = refused
        # Without one it looks at nobody's own entry.
        self._reachability = reachability or Reachability(ReplicaKey(NOBODY), listeners)
        self._timeout_s = request_timeout_ms / 1000 + MARGIN_S
        self._wires: dict[str, PeerWire] = {GRPC: GrpcWire(transport), **(kafka or {})}
        self._stream: _FetchStream | None = None
        self._locating: asyncio.Task[None] | None = None

    def send(self, send: Send) -> None:
        """Sends one request of the core to a peer, in the background; never blocks."""
        if isinstance(send.request, raft.FetchRequest):
            self._fetch(send.to, send.request)
        else:
            self._spawn(self._call(send))

    async def ask_kafka_leader(self, leader_id: NodeId, request: ProtobufMessage) -> Any:
        """Sends a request that is not Raft's to the leader, once, if that is a Kafka controller; returns its answer.

        Raises ApiError: NOT_CONTROLLER if the leader is one of our nodes, BROKER_NOT_AVAILABLE if it was not reached or
        no address of it is known, UNSUPPORTED_VERSION if it has no version that can carry the request.
        """
        at = self._reached(leader_id)
        if at.is_grpc:
            raise ApiError(
                ErrorCode.NOT_CONTROLLER, f"node {leader_id} leads, and is not a Kafka controller: it listens at {at}"
            )
        try:
            return await self._wires[at.protocol].call(at.address, request, timeout_s=self._timeout_s)
        except Unreached as failure:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {leader_id} has not answered: {failure}") from None

    def stop_fetching(self, *, unless_from: NodeId | None) -> None:
        """Closes the Fetch stream, unless it goes to `unless_from`, the present leader; None closes it in any case.

        The fetch that waits for its answer then has none: neither `failed` nor `lost` is called for it.
        """
        if self._stream is not None and self._stream.to != unless_from:
            self._stream.close()
            self._stream = None

    async def close(self) -> None:
        """Closes the Fetch stream and all connections."""
        self.stop_fetching(unless_from=None)
        if self._locating is not None:
            self._locating.cancel()
        for wire in self._wires.values():
            await wire.close()

    def _fetch(self, to: NodeId, request: raft.FetchRequest) -> None:
        # The core asks again only when it has given up on the request before, whose answer may never come.
        self.stop_fetching(unless_from=None if self._stream is not None and self._stream.is_busy else to)
        if self._stream is None:
            try:
                at = self._reached(to)
                self._stream = _FetchStream(to, at, self._wires[at.protocol].fetching(at.address))
            except ApiError as failure:
                self._lacks(to, None, failure.message)
                asyncio.get_running_loop().call_soon(self._failed, request.reply_to)
                if self._locating is None or self._locating.done():
                    self._locating = self._tasks.create_task(self._locate(to, request.cluster_id))
                return
            self._stream.reading = self._tasks.create_task(self._read(self._stream))
        assert self._stream.to == to, (self._stream.to, to)
        self._stream.write(request)

    async def _locate(self, leader_id: NodeId, cluster_id: str | None) -> None:
        """Asks our own nodes where a leader listens for Kafka's wire (FindQuorum).

        An answer over gRPC names the leader, but has endpoints for gRPC only, and a Kafka controller has none. A node
        without a log would not find such a leader otherwise.
        """
        for address in self._endpoints.discovery_addresses:
            try:
                found = await self._wires[GRPC].call(address, FindQuorumRequest(), timeout_s=self._timeout_s)
            except (Unreached, Corrupt) as failure:
                log.debug("no answer", peer=str(address), request="FindQuorumRequest", reason=str(failure))
                continue
            named = (each for each in found.voters if each.id == leader_id and each.listener)
            listeners = [ListenerEndpoint(each.listener, each.host, each.port) for each in named]
            if listeners and cluster_id in (None, found.cluster_id):
                self._endpoints.hear_listeners(leader_id, listeners)
                return

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.create_task(work)

    async def _read(self, stream: _FetchStream) -> None:
        try:
            async for request, answer in stream.run():
                self._take_fetch(stream, request, answer)
        except (Unreached, ApiError, Corrupt, asyncio.CancelledError) as failure:
            if stream.is_closed:
                return
            if isinstance(failure, ApiError):  # for example, a Kafka node too old for our Fetch
                self._refused(f"no Fetch can be sent to node {stream.to}: {failure}")
            if isinstance(failure, Unreached) and not stream.has_answered:
                self._lacks(stream.to, stream.at, str(failure))
            log.debug("fetch stream broke", leader=stream.to, reason=str(failure))
        if not stream.is_closed:
            self._stream = None
            self._lost(stream.to)
            for token in stream.waiting:
                self._failed(token)

    def _take_fetch(self, stream: _FetchStream, request: raft.FetchRequest, answer: FetchResponse) -> None:
        """Passes a Fetch answer to the core; a malformed one counts as failed, and the stream stays open."""
        self._reachability.has(stream.to)
        try:
            response = translate.from_fetch(answer, request.reply_to)
        except (ApiError, Corrupt) as nonsense:
            self._refused(f"the Fetch answer of node {stream.to}: {nonsense}")
            self._failed(request.reply_to)
        else:
            # A leader that was reached by its own id needs no new address; the answer's address is for other nodes.
            is_known = response.leader_id == stream.to
            self._heard(response if is_known else self._located(response, answer, stream.at.protocol))

    async def _call(self, send: Send) -> None:
        request, token = send.request, send.request.reply_to
        self._reachability.look_at(self._endpoints.voters)
        try:
            at = self._reached(send.to, send.endpoints)
        except ApiError as unknown:
            self._lacks(send.to, None, unknown.message)
            self._failed(token)
            return
        try:
            response = await self._ask(at, send.to, request, token)
        except Unreached as failure:
            self._lacks(send.to, at, str(failure), is_named=bool(send.endpoints))
            self._failed(token)
        except (ApiError, Corrupt) as nonsense:
            self._refused(f"the answer of node {send.to} to a {type(request).__name__}: {nonsense}")
            self._failed(token)
        else:
            self._reachability.has(send.to)
            self._heard(response)

    def _lacks(self, to: NodeId, at: PeerAddress | None, error: str, *, is_named: bool = False) -> None:
        source = "the request that names the voter" if is_named else self._endpoints.source(to)
        self._reachability.lacks(to, at, source=source, error=error)

    async def _ask(self, at: PeerAddress, to: NodeId, request: raft.Request, token: object) -> raft.Response:
        call = partial(self._wires[at.protocol].call, at.address, timeout_s=self._timeout_s)
        match request:
            case raft.VoteRequest():
                voted = await call(translate.to_vote(request))
                return self._located(translate.from_vote(voted, token), voted, at.protocol)
            case raft.BeginQuorumEpochRequest():
                begun = await call(translate.to_begin(request, self._listeners))
                return self._located(translate.from_begin(begun, token), begun, at.protocol)
            case raft.EndQuorumEpochRequest():
                ended = await call(translate.to_end(request, self._listeners))
                return self._located(translate.from_end(ended, token), ended, at.protocol)
            case raft.FetchSnapshotRequest():
                piece = await call(translate.to_fetch_snapshot(request))
                return self._located(translate.from_fetch_snapshot(piece, token), piece, at.protocol)
            case raft.ApiVersionsRequest():
                return translate.from_api_versions(await call(translate.to_api_versions(request)), token)
            case raft.AddRaftVoterRequest():
                return translate.from_add(await call(translate.to_add(request)), token)
            case raft.RemoveRaftVoterRequest():
                return translate.from_remove(await call(translate.to_remove(request)), token)
            case raft.UpdateRaftVoterRequest():
                updated = await call(translate.to_update(request))
                response = translate.from_update(updated, token)
                return response if response.leader_id == to else self._located(response, updated, at.protocol)
            case raft.ControllerPresenceRequest():
                if not at.is_grpc:
                    return _unread(request, to, token)
                return translate.from_presence(await call(translate.to_presence(request)), token)
            case raft.FetchRequest():
                raise AssertionError("fetches go over the stream")
            case raft.TransferLeadershipRequest() | raft.ConfirmLeadershipRequest() | raft.AlterQuorumRequest():
                raise AssertionError("nodes do not ask each other for it")

    def _reached(self, to: NodeId, listeners: Sequence[ListenerEndpoint] = ()) -> PeerAddress:
        """Returns where a node is reached at present; `listeners` are its own if the request names them.

        Raises ApiError(BROKER_NOT_AVAILABLE) if no address of the node is known, or not how to speak to it there.
        """
        found = self._endpoints.reached(listeners) or self._endpoints.peer(to)
        if found is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"it is not known where node {to} listens")
        if found.protocol not in self._wires:
            missing = f"there is no {found.protocol} in kafka.listener.security.protocol.map, or no login for it"
            why = f"node {to} listens for {found}; {missing}"
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, why)
        return found

    def _located(self, response: R, answer: Any, protocol: str) -> R:
        """Notes the leader's address from an answer over `protocol`, and returns `response`.

        A node names the leader's listener of the kind on which it was asked. As in Kafka, an address counts only in an
        answer with leader and epoch, which another cluster's node does not give.
        """
        if fencing.has_epoch(response) and response.leader_id is not None:
            for at in _leader_in(answer, response.leader_id):
                self._endpoints.hear(response.leader_id, Address(at.host, at.port), protocol)
        return response


def _leader_in(answer: Any, leader_id: NodeId) -> Sequence[Any]:
    """Returns what `answer` says of where the leader listens; UpdateRaftVoter names it beside the epoch."""
    if isinstance(answer, UpdateRaftVoterResponse):
        return [answer.current_leader] if answer.current_leader.host else []
    return [node for node in answer.node_endpoints if node.node_id == leader_id]


def _unread(request: raft.ControllerPresenceRequest, to: NodeId, token: object) -> raft.ControllerPresenceResponse:
    """Returns the answer in place of a Kafka leader, which knows no such request.

    In Kafka a node and its controller are one process. So the report counts as delivered, and is not sent again.
    """
    return raft.ControllerPresenceResponse(
        epoch=request.epoch, leader_id=to, sequence=request.sequence, is_present=request.is_present, reply_to=token
    )


class _FetchStream:
    """The fetches to one leader over their own connection; answers come in the order of the requests."""

    def __init__(self, to: NodeId, at: PeerAddress, fetching: Fetching) -> None:
        self.to = to
        self.at = at
        self.has_answered = False
        self.is_closed = False
        self.waiting: list[object] = []
        self.reading: asyncio.Task[None] | None = None
        self._requests: asyncio.Queue[raft.FetchRequest] = asyncio.Queue()
        self._fetching = fetching

    @property
    def is_busy(self) -> bool:
        """Whether a request is queued or awaits its answer."""
        return bool(self.waiting) or not self._requests.empty()

    def write(self, request: raft.FetchRequest) -> None:
        assert not self.is_closed, (self.to, request)  # nobody would send it, and the core would wait for its answer
        self._requests.put_nowait(request)

    def close(self) -> None:
        self.is_closed = True
        self._fetching.cancel()
        # gRPC's `write` blocks for ever on a call cancelled before it began, so the reading task is cancelled too.
        if self.reading is not None:
            self.reading.cancel()

    async def run(self) -> AsyncIterator[tuple[raft.FetchRequest, FetchResponse]]:
        """Sends queued requests one at a time and yields each with its answer, until the stream ends."""
        while True:
            request = await self._requests.get()
            assert not self.waiting, (self.to, self.waiting)  # else an answer would count for another request
            self.waiting = [request.reply_to]
            answer = await self._fetching.ask(translate.to_fetch(replace(request, reply_to=None)))
            if answer is None:
                return  # the other side has ended the stream
            self.waiting = []
            self.has_answered = True
            yield request, answer
