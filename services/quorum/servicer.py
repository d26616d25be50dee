"""The gRPC servicers: `Quorum` for peers and observers, `RaftClient` for this node's controller."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, Final

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from kraft.api.controller_registration_pb2 import ControllerRegistrationRequest, ControllerRegistrationResponse
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.api.end_quorum_epoch_pb2 import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.api.fetch_pb2 import FetchRequest, FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest, FetchSnapshotResponse
from kraft.api.vote_pb2 import VoteRequest, VoteResponse
from kraft.service.quorum_pb2 import (
    AppendRequest,
    AppendResponse,
    ConfirmLeadershipRequest,
    ConfirmLeadershipResponse,
    ControllerHeartbeatRequest,
    ControllerHeartbeatResponse,
    CreateSnapshotRequest,
    CreateSnapshotResponse,
    FindQuorumRequest,
    FindQuorumResponse,
    ListenRequest,
    ListenResponse,
    ResignRequest,
    ResignResponse,
    UpgradeKRaftVersionRequest,
    UpgradeKRaftVersionResponse,
)
from kraft.service.quorum_pb2_grpc import RaftClientServicer
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import NOBODY, Epoch, NodeId, Offset
from quorate.raft import messages as raft
from quorate.raft.roles import Leader
from quorate.runtime.access.passing_on import listener_of
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import RepeatFilter
from services.quorum import translate
from services.quorum.answers import Answer
from services.quorum.appends import joined
from services.quorum.controller_events import ControllerEvents
from services.quorum.controller_presence import ControllerPresence
from services.quorum.describe import announced_voters, describe_quorum, failed_step
from services.quorum.driver import AppendResult, QuorumDriver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.follower_fetch import NodeLogService
from services.quorum.handing_over import HandingOver
from services.quorum.membership import MembershipServicer
from services.quorum.snapshot_upload import take_snapshot
from services.quorum.translate import Endpoints

log = logger(__name__)

FOLLOWED: Final = (ErrorCode.NONE, ErrorCode.INVALID_VOTER_KEY)
"""The answers to news of a leader after which this node follows that leader."""
OFFSET_MAX: Final = 2**62
"""Highest offset that a request may have: far beyond any log, and additions to it stay within an int64."""


class PeerServicer(MembershipServicer, NodeLogService):
    """Serves `kraft.service.Quorum`: passes each request to the core as a message, and returns its answer.

    `handing_over` notes when a replica's stream of fetches opens and ends.
    """

    def __init__(
        self,
        driver: QuorumDriver,
        endpoints: NodeEndpoints,
        *,
        cluster_id: str,
        node_id: NodeId,
        handing_over: HandingOver | None = None,
        transport: Transport = PLAIN,
    ) -> None:
        super().__init__(driver, endpoints, transport)
        self._handing_over = handing_over
        self._endpoints: NodeEndpoints = endpoints
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._streams: dict[NodeId, object] = {}
        self._boot_timestamp = driver.wall_ms
        self._warned = RepeatFilter()

    async def Vote(self, request: VoteRequest, context: Any) -> VoteResponse:
        """Answers a request for a vote or a pre-vote. KIP-595, KIP-996."""
        answer, _ = await self._driver.ask(lambda reply: translate.vote_request(request, reply))
        return translate.vote_answer(answer, self._for(context))

    async def BeginQuorumEpoch(self, request: BeginQuorumEpochRequest, context: Any) -> BeginQuorumEpochResponse:
        """Handles the news of a leader; if this node follows it now, notes its address for the next fetch. KIP-595.

        Raises ApiError(INVALID_REQUEST) for malformed listeners.
        """
        answer, _ = await self._driver.ask(
            lambda reply: translate.begin_request(request, self._accepted(request, reply))
        )
        return translate.begin_answer(answer, self._for(context))

    async def EndQuorumEpoch(self, request: EndQuorumEpochRequest, context: Any) -> EndQuorumEpochResponse:
        """Handles a leader's resignation, and notes its address, as KafkaRaftClient does. KIP-595.

        Raises ApiError(INVALID_REQUEST) for malformed listeners.
        """
        answer, _ = await self._driver.ask(lambda reply: translate.end_request(request, self._accepted(request, reply)))
        return translate.end_answer(answer, self._for(context))

    def _for(self, context: Any) -> Endpoints:
        """Returns the nodes' endpoints for an answer: those of the listener on which the request was received.

        There are none if the call's security protocol is not the one in which this node calls its peers: the caller has
        addresses of its own.
        """
        listener = listener_of(context.invocation_metadata() or ())
        if listener is not None:
            self._warn_of_unannounced(listener)
        if listener is None and not self._transport.is_own_protocol(context):
            return {}
        return self._endpoints.on(listener)

    def _warn_of_unannounced(self, listener: str) -> None:
        """Warns once an hour if Kafka's nodes ask at a listener that voters in the log do not have.

        They fetch all the same, and then take the addresses of voters from the log: a broker never registers.
        """
        lacking = self._endpoints.unannounced(listener)
        if lacking and self._warned.passes(f"{listener} {lacking}", self._driver.now_ms / 1000):
            log.warning(
                "Kafka's nodes look for voters at a listener that these do not announce",
                listener=listener,
                voters=",".join(map(str, lacking)),
                setting="advertised.listeners",
            )

    def _accepted(self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, reply: Answer) -> Answer:
        """Returns a callback that notes the leader's address if the core follows that leader now, then replies.

        It does, too, if the request meant this id's earlier disk: the core has entered epoch and leader before it
        refuses, and a node without a log may learn the address from nobody else. The callback runs before the next
        fetch, as answers leave before requests. Raises ApiError for a malformed address.
        """
        listeners = translate.listeners_of("leader_endpoints", request.leader_endpoints)

        def then(answer: raft.Response, data: bytes) -> None:
            if answer.error in FOLLOWED and answer.leader_id is not None:
                self._endpoints.hear_listeners(answer.leader_id, listeners)
            reply(answer, data)

        return then

    async def Fetch(self, request: FetchRequest, context: Any) -> FetchResponse:
        """Answers a fetch; the core parks it (long poll) until there is news or its `max_wait_ms` is over. KIP-595."""
        return await self._fetched(request, self._for(context))

    async def _fetched(self, request: FetchRequest, endpoints: Endpoints) -> FetchResponse:
        answer, data = await self._driver.ask(lambda reply: translate.fetch_request(request, reply))
        return translate.fetch_answer(answer, data, endpoints)

    async def FetchStream(
        self, request_iterator: AsyncIterable[FetchRequest], context: Any
    ) -> AsyncIterator[FetchResponse]:
        """Answers each fetch in order. When the stream ends, the core learns that its replica is gone.

        The first request says whose stream it is. Raises ApiError(INVALID_REQUEST) for one of another replica.
        """
        replica: NodeId | None = None
        stream, endpoints = object(), self._for(context)
        try:
            async for request in request_iterator:
                # Only the first request makes a stream the replica's own: a later one may be left over from a process
                # that has ended, and arrive after the replica's new process has opened another stream.
                if replica is None:
                    replica = request.replica_state.replica_id
                    self._open(replica, stream)
                _check_replica(request, replica)
                yield await self._fetched(request, endpoints)
        finally:
            # A dead stream may end long after the replica has opened another one, whose parked fetch must stay.
            if replica is not None and self._streams.get(replica) is stream:
                del self._streams[replica]
                if self._handing_over is not None:
                    self._handing_over.closed(replica)
                self._driver.lose(replica)

    def _open(self, replica: NodeId, stream: object) -> None:
        if replica == NOBODY:
            return
        self._streams[replica] = stream
        if self._handing_over is not None:
            self._handing_over.opened(replica)

    async def FetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> FetchSnapshotResponse:
        """Answers one chunk of a snapshot, as leader; other nodes answer NOT_LEADER_OR_FOLLOWER. KIP-630."""
        answer, data = await self._driver.ask(lambda reply: translate.fetch_snapshot_request(request, reply))
        return translate.fetch_snapshot_answer(answer, data, self._for(context))

    async def DescribeQuorum(self, request: DescribeQuorumRequest, context: Any) -> DescribeQuorumResponse:
        """Describes how far each replica is; a node that does not lead answers NOT_LEADER_OR_FOLLOWER. KIP-595."""
        translate.only(request)
        return describe_quorum(self._driver, self._endpoints)

    async def FindQuorum(self, request: FindQuorumRequest, context: Any) -> FindQuorumResponse:
        """Answers the leader, the voters and the node's role, as this node knows them."""
        core = self._driver.core
        voters = core.log.voters.latest
        return FindQuorumResponse(
            cluster_id=self._cluster_id,
            node_id=self._node_id,
            leader_id=NOBODY if core.role.leader_id is None else core.role.leader_id,
            leader_epoch=core.role.epoch,
            high_watermark=core.log.high_watermark,
            role=type(core.role).__name__,
            voters=announced_voters(voters, self._endpoints),
            kraft_version=core.log.kraft_version,
            controller_present=self._driver.presence.is_present,
            target_voters=announced_voters(voters.target, self._endpoints),
            failed_step=failed_step(core.role, voters),
            boot_timestamp=self._boot_timestamp,
        )


class RaftClientService(RaftClientServicer):
    """Serves `kraft.service.RaftClient` to this node's controller; `end` ends an epoch, by default by resigning."""

    def __init__(
        self, driver: QuorumDriver, presence: ControllerPresence, *, end: Callable[[Epoch], None] | None = None
    ) -> None:
        self._driver = driver
        self._presence = presence
        self._end = end or driver.resign

    async def Append(
        self, request_iterator: AsyncIterable[AppendRequest], context: Any
    ) -> AsyncIterator[AppendResponse]:
        """Answers each append in order, once its records are in the log, which is before they are committed.

        After a refusal all later appends of the same attempt are refused too. With too many uncommitted bytes the next
        append is not read. Raises ApiError for a value that is not a record, or an impossible offset.
        """
        void = NOBODY
        async for request in request_iterator:
            _check_offset("base_offset", request.base_offset)
            await self._driver.has_room()
            if request.attempt == void:
                result = AppendResult(error=ErrorCode.OFFSET_OUT_OF_RANGE, end_offset=self._driver.core.log.leo)
            else:
                result = self._driver.append(request.epoch, request.base_offset, joined(request))
            if result.error:
                void = request.attempt
            yield AppendResponse(
                correlation_id=request.correlation_id,
                error_code=result.error,  # type: ignore[arg-type]  # the stubs' enum type does not know ours
                end_offset=result.end_offset,
            )

    async def Listen(self, request: ListenRequest, context: Any) -> AsyncIterator[ListenResponse]:
        """Streams to a controller the committed batches from `next_offset` on (or a snapshot), and each new leader.

        The controller counts as present meanwhile. If it was made active, the end of the stream ends the leadership.
        """
        _check_offset("next_offset", request.next_offset)
        listener = ControllerEvents(self._driver, request.next_offset)
        with self._presence.of(listener, request.session_id):
            async for event in listener.events():
                yield event

    async def CreateSnapshot(
        self, request_iterator: AsyncIterable[CreateSnapshotRequest], context: Any
    ) -> CreateSnapshotResponse:
        """Stores a snapshot that the controller uploads, whole or not at all. Raises ApiError. KIP-630."""
        return CreateSnapshotResponse(size_bytes=await take_snapshot(self._driver, request_iterator))

    async def ConfirmLeadership(self, request: ConfirmLeadershipRequest, context: Any) -> ConfirmLeadershipResponse:
        """Answers once a majority has confirmed that this node leads the epoch (ReadIndex); else an error."""
        answer, _ = await self._driver.ask(
            lambda reply: raft.ConfirmLeadershipRequest(epoch=request.epoch, reply_to=reply)
        )
        return ConfirmLeadershipResponse(error_code=answer.error)

    async def UpgradeKRaftVersion(
        self, request: UpgradeKRaftVersionRequest, context: Any
    ) -> UpgradeKRaftVersionResponse:
        """Raises kraft.version: the voter set, with each voter's reported listeners, goes into the log. KIP-853.

        It is answered once that is committed, also if another request wrote it.
        """
        epoch = request.epoch
        upgrade = self._driver.upgrade_kraft_version(request.version, epoch=epoch, validate_only=request.validate_only)
        error, message, end_offset = upgrade.error, upgrade.message, upgrade.end_offset
        is_written = error is ErrorCode.NONE and not request.validate_only
        if is_written and not await self._is_committed(end_offset, epoch):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            message = f"this node no longer leads epoch {epoch}, and had not committed all records below {end_offset}"
        return UpgradeKRaftVersionResponse(
            error_code=error,  # type: ignore[arg-type]  # as in `Append`
            error_message=message,
            end_offset=end_offset,
        )

    async def _is_committed(self, end_offset: Offset, epoch: Epoch) -> bool:
        """Waits until all records below `end_offset` are committed; False if this node leads `epoch` no more."""
        core = self._driver.core
        while isinstance(core.role, Leader) and core.role.epoch == epoch:
            if self._driver.high_watermark >= end_offset:
                return True
            await self._driver.changed.wait()
        return False

    async def RegisterWithKafka(
        self, request: ControllerRegistrationRequest, context: Any
    ) -> ControllerRegistrationResponse:
        """Passes the controller's registration on to a leader that is a Kafka controller; returns its answer. KIP-919.

        Raises ApiError: NOT_CONTROLLER if there is no such leader, BROKER_NOT_AVAILABLE if it is not reached.
        """
        answer: ControllerRegistrationResponse = await self._driver.ask_kafka_leader(request)
        return answer

    async def ControllerHeartbeat(
        self, request: ControllerHeartbeatRequest, context: Any
    ) -> ControllerHeartbeatResponse:
        """Notes a heartbeat of the controller's event loop (controller presence)."""
        self._presence.hear(request.session_id)
        return ControllerHeartbeatResponse()

    async def Resign(self, request: ResignRequest, context: Any) -> ResignResponse:
        """Ends this node's leadership of an epoch in which its controller cannot continue; no effect in another epoch.

        It answers before that is done: the leadership may be transferred first.
        """
        self._end(request.epoch)
        return ResignResponse()


def _check_replica(request: FetchRequest, replica: NodeId) -> None:
    """Raises ApiError(INVALID_REQUEST) for a fetch of another replica than the stream's: each opens its own."""
    asked = request.replica_state.replica_id
    if asked != replica:
        why = f"replica_id {asked} in the stream of replica {replica}: a stream of fetches is one replica's"
        raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "replica_state.replica_id"})


def _check_offset(field: str, offset: int) -> None:
    """Raises ApiError(INVALID_REQUEST) for an offset below 0 or above 2^62."""
    if not 0 <= offset <= OFFSET_MAX:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{field} {offset} is not possible; it must be from 0 to 2^62", {"field": field}
        )
