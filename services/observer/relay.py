"""The log's door of an observer: it hands requests on to a quorum node, whichever can answer, and the answers back.

An observer keeps no log: what it has applied it forgets. So who reads here reads what a quorum node has committed, as
old as that says it is, and needs to reach no quorum node. The nodes answer as relays do (`RelayFetchStream`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import grpc

from kraft.api.fetch_pb2 import FetchRequest
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest
from kraft.service.quorum_pb2 import (
    FindQuorumRequest,
    FindQuorumResponse,
    RelayFetchResponse,
    RelayFetchSnapshotResponse,
)
from kraft.service.quorum_pb2_grpc import QuorumServicer, QuorumStub
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.log_reader import DEADLINE_S, SILENT_MS_MAX

__all__ = ["RelayServicer"]

T = TypeVar("T")

WAIT_MS_MAX: Final = 5_000
"""A fetch is held no longer by the node that is asked, whatever the reader says: its stream is to end some time."""


class RelayServicer(QuorumServicer):
    """The part of `kraft.service.Quorum` that a reader of the log needs; the rest is not implemented."""

    def __init__(self, servers: Sequence[str], connect: Callable[[str], grpc.aio.Channel]) -> None:
        assert servers
        self._servers = deque(servers)
        self._connect = connect
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def FindQuorum(self, request: FindQuorumRequest, context: Any) -> FindQuorumResponse:
        """As a quorum node sees it. Raises ApiError."""
        return await self._asked(lambda stub: stub.FindQuorum(request, timeout=DEADLINE_S), lambda _: True)

    async def RelayFetchStream(
        self, request_iterator: AsyncIterable[FetchRequest], context: Any
    ) -> AsyncIterator[RelayFetchResponse]:
        """One answer a request, in order. Raises ApiError."""
        async for request in request_iterator:
            request.max_wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
            yield await self._asked(lambda stub, request=request: _fetched(stub, request), _has_log)  # type: ignore[misc]

    async def RelayFetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> RelayFetchSnapshotResponse:
        """A piece of a snapshot. Raises ApiError."""
        return await self._asked(lambda stub: stub.RelayFetchSnapshot(request, timeout=DEADLINE_S), _has_snapshot)

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _asked(self, ask: Callable[[Any], Awaitable[T | None]], is_good: Callable[[T], bool]) -> T:
        """The first good answer, of the node that gave the last one if it does; else any; else ApiError."""
        given: T | None = None
        why = ""
        for _ in range(len(self._servers)):
            server = self._servers[0]
            try:
                answer = await ask(QuorumStub(self._channel(server)))
                if answer is not None and is_good(answer):
                    return answer
                given = answer or given
            except grpc.aio.AioRpcError as failure:
                why = f"{server}: {failure.code().name}: {failure.details()}"
            self._servers.rotate(-1)
        if given is not None:
            return given
        raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"no quorum node answers; the last asked was {why}")

    def _channel(self, server: str) -> grpc.aio.Channel:
        if server not in self._channels:
            self._channels[server] = self._connect(server)
        return self._channels[server]


async def _fetched(stub: Any, request: FetchRequest) -> RelayFetchResponse | None:
    """One request on a stream of its own, which ends with the answer; None if it ends without."""
    call = stub.RelayFetchStream(_alone(request), timeout=request.max_wait_ms / 1000 + DEADLINE_S)
    try:
        answer = await call.read()
        return answer if isinstance(answer, RelayFetchResponse) else None
    finally:
        call.cancel()


async def _alone(request: FetchRequest) -> AsyncIterator[FetchRequest]:
    yield request


def _has_log(answer: RelayFetchResponse) -> bool:
    """Not what another node may do better: one that has no leader, or has not heard it for long."""
    found = {ErrorCode(answer.response.error_code)}
    found |= {ErrorCode(each.error_code) for topic in answer.response.responses for each in topic.partitions}
    return ErrorCode.NOT_LEADER_OR_FOLLOWER not in found and answer.silent_ms <= SILENT_MS_MAX


def _has_snapshot(answer: RelayFetchSnapshotResponse) -> bool:
    """The same; and not every node has every snapshot."""
    found = {ErrorCode(answer.response.error_code)}
    found |= {ErrorCode(each.error_code) for topic in answer.response.topics for each in topic.partitions}
    poor = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.SNAPSHOT_NOT_FOUND}
    return poor.isdisjoint(found) and answer.silent_ms <= SILENT_MS_MAX
