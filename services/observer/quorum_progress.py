"""How far the voters of the quorum are: the leader is asked, once a second at most for all who want to know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import grpc

from kraft.api.describe_quorum_pb2 import DescribeQuorumRequest
from kraft.service.observer_pb2 import ExamineQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError, ErrorCode
from quorate.network.client_config import parse_client_config
from quorate.network.quorum_view import View, describe_quorum
from quorate.nouns import METADATA_PARTITION, METADATA_TOPIC, Offset
from quorate.runtime.clients.client import Channels
from quorate.runtime.following.log_reader import DEADLINE_S
from quorate.runtime.settings.setting_types import Endpoint
from quorate.what_if import Quorum, plan_voter_restarts, quorum_of
from quorate.wire.protobuf import to_struct

__all__ = ["AskLeader", "QuorumProgress", "of_kafka", "of_nodes"]

UNKNOWN: Final = -1
FRESH_S: Final = 1.0
ASKED_S: Final = 10.0
"""How long (s) the leader is looked for."""
SILENT: Final = "no leader of the quorum answers"

AskLeader: TypeAlias = Callable[[], Awaitable[View]]
"""Returns the leader's answer. Raises ApiError and TimeoutError."""


class QuorumProgress:
    """Asks the quorum's leader, by `ask`, how far its voters are: once a second at most, for all who want to know."""

    def __init__(self, ask: AskLeader) -> None:
        self._ask = ask
        self._lock = asyncio.Lock()
        self._last: ExamineQuorumResponse | ApiError = ExamineQuorumResponse()
        self._told_s = float("-inf")

    async def tell(self) -> ExamineQuorumResponse:
        """Returns how far the voters and observers are, and which voters can be restarted; it may be a second old.

        Raises ApiError: NETWORK_EXCEPTION if no leader answers within 10 s, or what the leader said; this, too, may be
        so old.
        """
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(ASKED_S):  # who asks at present may hang up, and the next one begin anew
                await self._lock.acquire()
        except TimeoutError:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"{SILENT}: none within {ASKED_S:g} s") from None
        try:
            if clock() - self._told_s >= FRESH_S:
                self._last = await self._asked()
                self._told_s = clock()
        finally:
            self._lock.release()
        if isinstance(self._last, ApiError):
            raise ApiError(self._last.code, self._last.message, self._last.metadata)
        return self._last

    async def _asked(self) -> ExamineQuorumResponse | ApiError:
        """Returns the answer, or why there is none: a caller that asks meanwhile, or soon after, gets the same."""
        try:
            async with asyncio.timeout(ASKED_S):
                return _message(await self._ask())
        except ApiError as problem:
            return problem.as_value()
        except TimeoutError as problem:
            why = f"{SILENT}: {str(problem) or f'none within {ASKED_S:g} s'}"
            return ApiError(ErrorCode.NETWORK_EXCEPTION, why)


def of_nodes(servers: Sequence[str], channels: Channels) -> AskLeader:
    """Returns a function that asks quorum nodes over gRPC, in turn until one of them answers as the leader.

    It raises ApiError(NETWORK_EXCEPTION) if none does.
    """
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=METADATA_PARTITION)
    asked = DescribeQuorumRequest(topics=[topic(topic_name=METADATA_TOPIC, partitions=[partition])])

    async def ask() -> View:
        why = ""
        for server in servers:
            try:
                stub: Any = QuorumStub(channels[server])  # the generated types are those of another stub
                answer = to_struct(await stub.DescribeQuorum(asked, timeout=DEADLINE_S))
            except grpc.aio.AioRpcError as failure:
                why = f"{server}: {failure.code().name}: {failure.details()}"
                continue
            view: View = answer.topics[0].partitions[0]
            if not view.error_code:
                return view
            why = f"{server}: {view.error_message or 'it does not lead'}"
        raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"{SILENT}; the last asked was {why}")

    return ask


def of_kafka(controllers: Sequence[Endpoint], properties: Mapping[str, str]) -> AskLeader:
    """Returns a function that asks Kafka controllers over Kafka's wire; it needs DESCRIBE on their cluster.

    Raises ValueError for an unfit property.
    """
    return partial(describe_quorum, [(each.host, each.port) for each in controllers], parse_client_config(properties))


def _message(view: View) -> ExamineQuorumResponse:
    quorum, replica = quorum_of(view), ExamineQuorumResponse.Replica
    end = next((each.log_end_offset for each in view.current_voters if each.replica_id == view.leader_id), UNKNOWN)
    return ExamineQuorumResponse(
        leader_id=view.leader_id,
        leader_epoch=view.leader_epoch,
        high_watermark=view.high_watermark,
        voters=_voters(quorum, end),
        observers=[
            replica(
                replica_id=each.replica_id,
                log_end_offset=each.log_end_offset,
                lag=_lag(end, each.log_end_offset),
                fetched_ms=UNKNOWN,
                caught_up_ms=UNKNOWN,
            )
            for each in view.observers
        ],
        majority=quorum.majority,
        restarts=[
            ExamineQuorumResponse.Restart(
                voter_id=each.voter_id, is_safe=each.is_safe_now, others=each.others, after=each.after
            )
            for each in plan_voter_restarts(quorum)
        ],
    )


def _voters(quorum: Quorum, end: Offset) -> list[ExamineQuorumResponse.Replica]:
    return [
        ExamineQuorumResponse.Replica(
            replica_id=each.id,
            log_end_offset=_or_unknown(each.log_end_offset),
            lag=_lag(end, _or_unknown(each.log_end_offset)),
            fetched_ms=_or_unknown(each.fetched_ms),
            caught_up_ms=_or_unknown(each.caught_up_ms),
            trouble=quorum.trouble(each) or "",
        )
        for each in quorum.voters
    ]


def _lag(end: Offset, log_end_offset: Offset) -> int:
    return UNKNOWN if UNKNOWN in (end, log_end_offset) else max(0, end - log_end_offset)


def _or_unknown(value: int | None) -> int:
    return UNKNOWN if value is None else value
