"""Log relay of an observer: forwards fetches of the committed log to a quorum node, and returns its answers.

It serves readers that cannot reach the quorum nodes. An observer keeps no log itself, so each request goes to a quorum
node: to that which the observer itself reads, else to the others in turn. The answer says how long that node has not
heard from the leader (`silent_ms`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
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
from quorate.nouns import NodeId, uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.clients.client import Channels
from quorate.runtime.following.log_reader import DEADLINE_S, SILENT_MS_MAX, LogReader

__all__ = ["ObserverLogService"]

T = TypeVar("T")

WAIT_MS_MAX: Final = 5_000
"""Longest wait (ms) of a relayed long poll, whatever the reader asks for: its stream has to end at some time."""


class ObserverLogService(QuorumServicer):
    """Serves the RPCs of `kraft.service.Quorum` that a reader of the log needs; the others are UNIMPLEMENTED."""

    def __init__(
        self,
        reader: LogReader,
        servers: Sequence[str],
        connect: Callable[[str], grpc.aio.Channel],
        *,
        node_id: NodeId,
    ) -> None:
        assert servers
        self._node_id = node_id
        self._servers = servers
        self._reader = reader
        self._channels = Channels(connect)

    async def FindQuorum(self, request: FindQuorumRequest, context: Any) -> FindQuorumResponse:
        """Returns the leader and the voters as one quorum node knows them. Raises ApiError if no node answers."""
        return await self._asked(
            lambda server: self._stub(server).FindQuorum(request, timeout=DEADLINE_S), lambda _: True
        )

    async def RelayFetchStream(
        self, request_iterator: AsyncIterable[FetchRequest], context: Any
    ) -> AsyncIterator[RelayFetchResponse]:
        """Answers each fetch of the stream in order, with committed records, by a quorum node.

        A fetch waits 5 s at most. It goes under this observer's id, if it is under an id. Raises ApiError if no node
        answers.
        """
        directory_id = uuid_text(random_uuid())
        fetches = _Fetches(self._stub)
        try:
            async for request in request_iterator:
                self._own(request.replica_state, _partitions_of(request), directory_id)
                request.max_wait_ms = min(request.max_wait_ms, WAIT_MS_MAX)
                yield await self._asked(partial(fetches.ask, request), _has_log)
        finally:
            fetches.end()

    async def RelayFetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> RelayFetchSnapshotResponse:
        """Returns the bytes of a snapshot from a position on, by a quorum node. Raises ApiError if no node answers."""
        self._own(request, (), "")
        return await self._asked(
            lambda server: self._stub(server).RelayFetchSnapshot(request, timeout=DEADLINE_S), _has_snapshot
        )

    def _own(
        self, replica: FetchRequest.ReplicaState | FetchSnapshotRequest, partitions: Iterable[Any], directory_id: str
    ) -> None:
        """Puts this observer's id in place of a reader's, for which it cannot speak (`quorate.runtime.access.claims`).

        By the directory id a quorum node tells this observer's readers from each other, and holds a fetch of each.
        """
        if replica.replica_id < 0:
            return
        replica.replica_id = self._node_id
        for partition in partitions:
            partition.replica_directory_id = directory_id

    async def close(self) -> None:
        """Closes the channels to the quorum nodes."""
        await self._channels.close()

    async def _asked(self, ask: Callable[[str], Awaitable[T | None]], is_good: Callable[[T], bool]) -> T:
        """Asks the quorum node that this observer reads, then the others in turn, until an answer satisfies `is_good`.

        Else it returns any answer it got. Raises ApiError(NETWORK_EXCEPTION) if no node answers.
        """
        given: T | None = None
        why = ""
        preferred = self._reader.server
        for server in (preferred, *(other for other in self._servers if other != preferred)):
            try:
                answer = await ask(server)
                if answer is not None and is_good(answer):
                    return answer
                given = answer or given
            except grpc.aio.AioRpcError as failure:
                why = f"{server}: {failure.code().name}: {failure.details()}"
            except (TimeoutError, asyncio.InvalidStateError) as failure:
                why = f"{server}: {failure}"
        if given is not None:
            return given
        raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"no quorum node answers; the last asked was {why}")

    def _stub(self, server: str) -> QuorumStub:
        return QuorumStub(self._channels[server])


class _Fetches:
    """The fetches of one reader, on a stream to one quorum node at a time."""

    def __init__(self, stub: Callable[[str], QuorumStub]) -> None:
        self._stub = stub
        self._server: str | None = None
        self._call: Any = None

    async def ask(self, request: FetchRequest, server: str) -> RelayFetchResponse | None:
        """Sends one fetch to the node and returns the answer; None if the stream ends without one.

        Raises TimeoutError, AioRpcError, or InvalidStateError if the stream has just ended.
        """
        if self._server != server:
            self.end()
            self._server, self._call = server, self._stub(server).RelayFetchStream()
        answer = None
        try:
            async with asyncio.timeout(request.max_wait_ms / 1000 + DEADLINE_S):
                await self._call.write(request)
                answer = await self._call.read()
        finally:
            if not isinstance(answer, RelayFetchResponse):
                self.end()
        return answer if isinstance(answer, RelayFetchResponse) else None

    def end(self) -> None:
        """Cancels the stream to the quorum node, if one is open."""
        if self._call is not None:
            self._call.cancel()
        self._server = self._call = None


def _partitions_of(request: FetchRequest) -> Iterable[Any]:
    return (partition for topic in request.topics for partition in topic.partitions)


def _has_log(answer: RelayFetchResponse) -> bool:
    """Whether the answer is good: its node has a leader, and has heard from it within `SILENT_MS_MAX`."""
    found = {int(answer.response.error_code)}
    found |= {int(each.error_code) for topic in answer.response.responses for each in topic.partitions}
    return ErrorCode.NOT_LEADER_OR_FOLLOWER not in found and answer.silent_ms <= SILENT_MS_MAX


def _has_snapshot(answer: RelayFetchSnapshotResponse) -> bool:
    """Whether the answer is good: as for `_has_log`, and the node has the snapshot, which not every node keeps."""
    found = {int(answer.response.error_code)}
    found |= {int(each.error_code) for topic in answer.response.topics for each in topic.partitions}
    poor = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.SNAPSHOT_NOT_FOUND}
    return poor.isdisjoint(found) and answer.silent_ms <= SILENT_MS_MAX
