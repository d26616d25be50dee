"""Client of the controller's own quorum node for unary RPCs; its streams are in `quorum_link.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import Any, Final, NamedTuple

import grpc

from kraft.api.controller_registration_pb2 import ControllerRegistrationRequest
from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.service.quorum_pb2 import (
    AlterQuorumRequest,
    AlterQuorumResponse,
    ConfirmLeadershipRequest,
    FindQuorumRequest,
    FindQuorumResponse,
    UpgradeKRaftVersionRequest,
)
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.errors import ApiError, ErrorCode, error_name, error_of, refusal_of
from quorate.nouns import NOBODY, Epoch, NodeId
from quorate.runtime.clients.client import call
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import RepeatFilter
from quorate.runtime.requests.statuses import BARE, UNTOUCHED, error_from_call, is_gone
from services.controller.outliving import to_the_end

log = logger(__name__)

SAME_NAME: Final = "Kafka controllers have a listener of the name that this controller's has, which speaks gRPC"
DEADLINE_MS: Final = 5_000
"""Deadline of RPCs that the quorum node answers from its present state."""
CHANGE_DEADLINE_MS: Final = 60_000
"""Deadline of a change of the voters or of kraft.version: it is answered once committed, or refused earlier by the
quorum's own time limit or when its leader changes."""


SILENT: Final = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT})
"""The errors of a call to a node that is away or stands still."""
_RIGHTS: Final = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.SASL_AUTHENTICATION_FAILED})
"""The errors of a node that does not take this controller for one that may call it."""


class Quorum(NamedTuple):
    """kraft.version and the voter ids, as the controller's own quorum node knows them."""

    kraft_version: int
    """The finalized kraft.version: 1 if the voter set is stored in the log, else 0. KIP-853."""
    voters: frozenset[NodeId]


class QuorumNode:
    """Calls the controller's own quorum node. Every method raises ApiError."""

    def __init__(self, channel: grpc.aio.Channel, listeners: Collection[str] = ()) -> None:
        """`listeners` are the names of this controller's own, for gRPC."""
        self._listeners = listeners
        self._warned = RepeatFilter()
        self._quorum = QuorumStub(channel)
        self._raft_client = RaftClientStub(channel)
        self._under_way: asyncio.Future[None] | None = None
        self._next: dict[Epoch, asyncio.Future[None]] = {}
        self._known: Quorum | None = None

    async def quorum(self) -> Quorum:
        """Asks the node for kraft.version and the voter ids (FindQuorum). NOT_CONTROLLER if the node is gone."""
        try:
            return await self._find_quorum()
        except ApiError as failure:
            raise _of_node(failure, is_read=True) from None

    async def _find_quorum(self) -> Quorum:
        found = await call(self._quorum.FindQuorum, FindQuorumRequest(), deadline_ms=DEADLINE_MS)
        self._warn_of_names(found)
        self._known = Quorum(found.kraft_version, frozenset(voter.id for voter in found.voters))
        return self._known

    def _warn_of_names(self, found: FindQuorumResponse) -> None:
        """Warns once an hour if a Kafka controller votes whose listener has the name of this controller's, for gRPC.

        Such a Kafka controller tells its clients, at that listener, that this controller's port is for Kafka's wire.
        """
        for listener in self._listeners:
            voters = [str(each.id) for each in found.voters if each.listener == listener]
            if voters and self._warned.passes(f"{listener} {voters}", asyncio.get_running_loop().time()):
                log.warning(SAME_NAME, listener=listener, voters=",".join(voters), setting="listeners")

    async def last_known(self) -> Quorum:
        """Asks the node for kraft.version and the voter ids; returns those that it said last if it does not answer.

        Raises ApiError if it has never answered, and for a refusal.
        """
        try:
            return await self._find_quorum()
        except ApiError as silent:
            if self._known is None or silent.code not in SILENT:
                raise _of_node(silent, is_read=True) from None
            return self._known

    async def describe(self, request: DescribeQuorumRequest, *, deadline_ms: int) -> DescribeQuorumResponse:
        """Asks the node to describe the quorum, `deadline_ms` (ms from now) at most.

        If it does not answer, the result is that of a node that does not lead: NOT_LEADER_OR_FOLLOWER.
        """
        try:
            answer: DescribeQuorumResponse = await self._ask("DescribeQuorum", request, deadline_ms=deadline_ms)
        except ApiError as silent:
            if silent.code not in SILENT:
                raise _of_node(silent, is_read=True) from None
            return _of_no_leader(request, f"the quorum node beside this controller does not answer: {silent.message}")
        return answer

    async def confirm(self, epoch: Epoch) -> None:
        """Confirms by a majority that the node leads `epoch`, for a linearizable read (ReadIndex).

        Calls of an epoch during a round trip share the next one, as its start is after their arrival. Raises
        ApiError(NOT_CONTROLLER) if the node does not lead.
        """
        if epoch not in self._next:
            self._next[epoch] = asyncio.ensure_future(self._confirm_after(self._under_way, epoch))
        await to_the_end(self._next[epoch])

    async def _confirm_after(self, under_way: asyncio.Future[None] | None, epoch: Epoch) -> None:
        if under_way is not None:
            await asyncio.wait([under_way])
        self._under_way = self._next.pop(epoch)
        request = ConfirmLeadershipRequest(epoch=epoch)
        try:
            answer = await call(self._raft_client.ConfirmLeadership, request, deadline_ms=DEADLINE_MS)
        except ApiError as failure:
            raise _of_node(failure, is_read=True) from None
        if answer.error_code:
            raise ApiError(
                ErrorCode.NOT_CONTROLLER,
                f"the quorum node beside this one no longer leads epoch {epoch}: {error_name(answer.error_code)}",
                {UNTOUCHED: "true"},
            )

    async def upgrade_kraft_version(self, version: int, epoch: Epoch, *, validate_only: bool = False) -> None:
        """Asks the own node, the leader of `epoch`, to write a kraft.version; returns once it is committed.

        Raises ApiError; NOT_CONTROLLER if the node does not lead, or no longer: the level may still be committed.
        """
        request = UpgradeKRaftVersionRequest(epoch=epoch, version=version, validate_only=validate_only)
        try:
            answer = await call(self._raft_client.UpgradeKRaftVersion, request, deadline_ms=CHANGE_DEADLINE_MS)
        except ApiError as failure:
            raise _of_node(failure) from None
        if error_of(answer.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise ApiError(ErrorCode.NOT_CONTROLLER, answer.error_message)
        _raise(answer)

    async def register_with_kafka(self, request: ControllerRegistrationRequest) -> None:
        """Registers this controller with a Kafka leader, through the own quorum node. Raises ApiError if it cannot."""
        _raise(await call(self._raft_client.RegisterWithKafka, request, deadline_ms=DEADLINE_MS))

    async def ask(self, rpc: str, request: Any, *, deadline_ms: int) -> Any:
        """Calls a unary RPC of the quorum node by its name, and returns its answer; `deadline_ms` is ms from now.

        Raises ApiError for a top-level error code; NOT_CONTROLLER if the node is gone.
        """
        try:
            return await self._ask(rpc, request, deadline_ms=deadline_ms)
        except ApiError as failure:
            raise _of_node(failure) from None

    async def _ask(self, rpc: str, request: Any, *, deadline_ms: int) -> Any:
        answer = await call(getattr(self._quorum, rpc), request, deadline_ms=deadline_ms)
        _raise(answer)
        return answer

    async def alter_quorum(
        self, request: AlterQuorumRequest, *, left_s: float | None
    ) -> AsyncIterator[AlterQuorumResponse]:
        """Yields the steps to the target voter set (AlterQuorum); `left_s` is its deadline, None for none."""
        try:
            async for step in self._quorum.AlterQuorum(request, timeout=left_s):
                yield step
        except grpc.aio.AioRpcError as error:
            raise _of_node(error_from_call(error)) from None


def _of_node(failure: ApiError, *, is_read: bool = False) -> ApiError:
    """Returns the error for a caller of this controller after a failed call to its quorum node.

    A node that is gone leaves a controller that is none. A refusal of this controller's certificate or rights is not
    the caller's error, and neither is an error of gRPC in place of an answer.
    """
    if BARE not in failure.metadata and failure.code not in _RIGHTS:
        return failure
    why = f"the quorum node beside this controller: {failure.message}"
    if is_gone(failure):
        return ApiError(ErrorCode.NOT_CONTROLLER, why, {UNTOUCHED: "true"} if is_read else {})
    known = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    return ApiError(failure.code if failure.code in known else ErrorCode.UNKNOWN_SERVER_ERROR, why)


def _of_no_leader(request: DescribeQuorumRequest, why: str) -> DescribeQuorumResponse:
    """Returns what a node that does not lead answers: the error is each partition's, as in Kafka (KIP-595)."""
    topic = DescribeQuorumResponse.TopicData
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    nobody: dict[str, Any] = {"error_code": error, "error_message": why, "leader_id": NOBODY, "high_watermark": -1}
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            topic(
                topic_name=asked.topic_name,
                partitions=[
                    topic.PartitionData(partition_index=each.partition_index, **nobody) for each in asked.partitions
                ],
            )
            for asked in request.topics
        ],
    )


def _raise(answer: Any) -> None:
    if answer.error_code:
        raise refusal_of(answer.error_code, answer.error_message)
