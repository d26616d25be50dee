"""gRPC ↔ the driver, nothing else: `Quorum` for peers and observers, `RaftClient` for the controller beside."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Final

from kraft.api.begin_quorum_epoch_pb2 import BeginQuorumEpochRequest, BeginQuorumEpochResponse
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
from quorate.errors import ErrorCode
from quorate.nouns import NodeId, ReplicaKey, uuid_text
from quorate.raft import messages as raft
from services.quorum import translate
from services.quorum.appends import joined
from services.quorum.attendance import Attendance
from services.quorum.describe import describe_quorum
from services.quorum.driver import AppendResult, Driver
from services.quorum.endpoints import NodeEndpoints
from services.quorum.listener import Listener
from services.quorum.membership import MembershipServicer
from services.quorum.relaying import RelayServicer
from services.quorum.taking import take_snapshot
from services.quorum.translate import Address

NOBODY: Final = -1


class PeerServicer(MembershipServicer, RelayServicer):
    """Serves `kraft.service.Quorum`: every request becomes a message for the core, which answers when it can."""

    def __init__(self, driver: Driver, endpoints: NodeEndpoints, *, cluster_id: str, node_id: NodeId) -> None:
        super().__init__(driver, endpoints)
        self._endpoints: NodeEndpoints = endpoints
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._streams: dict[NodeId, object] = {}

    async def Vote(self, request: VoteRequest, context: Any) -> VoteResponse:
        """KIP-595, KIP-996."""
        answer, _ = await self._driver.ask(lambda reply: translate.vote_request(request, reply))
        return translate.vote_answer(answer, self._endpoints)

    async def BeginQuorumEpoch(self, request: BeginQuorumEpochRequest, context: Any) -> BeginQuorumEpochResponse:
        """KIP-595. Where the leader listens is heard first: the next fetch goes there (KIP-853)."""
        partition = translate.only(request)
        if request.leader_endpoints and partition.leader_epoch >= self._driver.core.role.epoch:
            listener = request.leader_endpoints[0]
            self._endpoints.hear(partition.leader_id, Address(listener.host, listener.port))
        answer, _ = await self._driver.ask(lambda reply: translate.begin_request(request, reply))
        return translate.begin_answer(answer, self._endpoints)

    async def EndQuorumEpoch(self, request: EndQuorumEpochRequest, context: Any) -> EndQuorumEpochResponse:
        """KIP-595."""
        answer, _ = await self._driver.ask(lambda reply: translate.end_request(request, reply))
        return translate.end_answer(answer, self._endpoints)

    async def Fetch(self, request: FetchRequest, context: Any) -> FetchResponse:
        """KIP-595; parked by the core until there is news."""
        answer, data = await self._driver.ask(lambda reply: translate.fetch_request(request, reply))
        return translate.fetch_answer(answer, data, self._endpoints)

    async def FetchStream(
        self, request_iterator: AsyncIterable[FetchRequest], context: Any
    ) -> AsyncIterator[FetchResponse]:
        """One answer a request. When the stream ends, a leader no longer waits for the replica behind it."""
        replica, stream = NOBODY, object()
        try:
            async for request in request_iterator:
                replica = request.replica_state.replica_id
                self._streams[replica] = stream
                yield await self.Fetch(request, context)
        finally:
            # A stream may be found dead long after the replica has opened another one: that one's fetch is to stay.
            if self._streams.get(replica) is stream:
                del self._streams[replica]
                if replica != NOBODY:
                    self._driver.lose(replica)

    async def FetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> FetchSnapshotResponse:
        """KIP-630."""
        answer, data = await self._driver.ask(lambda reply: translate.fetch_snapshot_request(request, reply))
        return translate.fetch_snapshot_answer(answer, data, self._endpoints)

    async def DescribeQuorum(self, request: DescribeQuorumRequest, context: Any) -> DescribeQuorumResponse:
        """KIP-595, KIP-853."""
        translate.only(request)
        return describe_quorum(self._driver, self._endpoints)

    async def FindQuorum(self, request: FindQuorumRequest, context: Any) -> FindQuorumResponse:
        """What this node knows, without asking anybody."""
        core = self._driver.core
        return FindQuorumResponse(
            cluster_id=self._cluster_id,
            node_id=self._node_id,
            leader_id=NOBODY if core.role.leader_id is None else core.role.leader_id,
            leader_epoch=core.role.epoch,
            high_watermark=core.log.high_watermark,
            role=type(core.role).__name__,
            voters=[self._voter(key) for key in core.log.voters.latest.keys],
            kraft_version=core.log.kraft_version,
        )

    def _voter(self, key: ReplicaKey) -> FindQuorumResponse.Voter:
        voter = FindQuorumResponse.Voter(id=key.id, directory_id=uuid_text(key.directory_id))
        if (address := self._endpoints.get(key.id)) is not None:
            voter.host, voter.port = address.host, address.port
        return voter


class ControllerServicer(RaftClientServicer):
    """Serves `kraft.service.RaftClient`."""

    def __init__(self, driver: Driver, attendance: Attendance) -> None:
        self._driver = driver
        self._attendance = attendance

    async def Append(
        self, request_iterator: AsyncIterable[AppendRequest], context: Any
    ) -> AsyncIterator[AppendResponse]:
        """One answer a request, in order. After a refusal nothing of the same attempt is taken: it rested on that."""
        void = NOBODY
        async for request in request_iterator:
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
        """Everything from the controller's offset on."""
        listener = Listener(self._driver, request.next_offset)
        with self._attendance.of(listener):
            async for event in listener.events():
                yield event

    async def CreateSnapshot(
        self, request_iterator: AsyncIterable[CreateSnapshotRequest], context: Any
    ) -> CreateSnapshotResponse:
        """Keeps the controller's records as a snapshot; `taking` says what is refused. KIP-630."""
        return CreateSnapshotResponse(size_bytes=await take_snapshot(self._driver, request_iterator))

    async def ConfirmLeadership(self, request: ConfirmLeadershipRequest, context: Any) -> ConfirmLeadershipResponse:
        """Raft thesis, section 6.4."""
        answer, _ = await self._driver.ask(
            lambda reply: raft.ConfirmLeadershipRequest(epoch=request.epoch, reply_to=reply)
        )
        return ConfirmLeadershipResponse(error_code=answer.error)

    async def UpgradeKRaftVersion(
        self, request: UpgradeKRaftVersionRequest, context: Any
    ) -> UpgradeKRaftVersionResponse:
        """KIP-853: the voters, as they have told of themselves, go into the log."""
        upgrade = self._driver.upgrade_kraft_version(
            request.version, epoch=request.epoch, validate_only=request.validate_only
        )
        return UpgradeKRaftVersionResponse(
            error_code=upgrade.error,  # type: ignore[arg-type]
            error_message=upgrade.message,
            end_offset=upgrade.end_offset,
        )

    async def Resign(self, request: ResignRequest, context: Any) -> ResignResponse:
        """The controller cannot go on in this epoch."""
        self._driver.resign(request.epoch)
        return ResignResponse()
