"""Log relay: any node serves the committed log to observers, leader or not, so that they are no load on the leader.

A gateway reads by it, answers brokers from what it has read, and reports to the leader how far they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, Final

from msgspec.structs import replace

from kraft.api.fetch_pb2 import FetchRequest
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest
from kraft.service.quorum_pb2 import (
    RelayFetchResponse,
    RelayFetchSnapshotResponse,
    ReportReadersRequest,
    ReportReadersResponse,
)
from kraft.service.quorum_pb2_grpc import QuorumServicer
from quorate.errors import ApiError, ErrorCode
from services.quorum import translate
from services.quorum.driver import QuorumDriver
from services.quorum.translate import Endpoints

READERS_MAX: Final = 2_000
"""Readers of one report: some 10 ms of work."""


class NodeLogService(QuorumServicer):
    """Serves RelayFetchStream, RelayFetchSnapshot (on any node) and ReportReaders of `kraft.service.Quorum`."""

    _driver: QuorumDriver
    _for: Callable[[Any], Endpoints]
    """(context of a call) → the nodes' endpoints, for the answer to it."""

    async def RelayFetchStream(
        self, request_iterator: AsyncIterable[FetchRequest], context: Any
    ) -> AsyncIterator[RelayFetchResponse]:
        """Answers each fetch in order with committed records, as leader or not; a voter is sent to the leader.

        `silent_ms` in an answer is the time (ms) since this node heard the leader. A fetch without news waits for them.
        """
        endpoints = self._for(context)
        async for request in request_iterator:
            answer, data = await self._driver.ask(
                lambda reply, request=request: replace(translate.fetch_request(request, reply), from_any=True)  # type: ignore[misc]
            )
            response = translate.fetch_answer(answer, data, endpoints)
            yield RelayFetchResponse(response=response, silent_ms=answer.silent_ms)

    async def ReportReaders(self, request: ReportReadersRequest, context: Any) -> ReportReadersResponse:
        """Notes the fetch offsets of replicas that do not vote, as their fetches would, if this node leads the epoch.

        `all_noted` is false if it does not lead it, or one replica was not taken, such as a voter. Raises
        ApiError(INVALID_REQUEST) for lists that differ in length, or more than `READERS_MAX` replicas.
        """
        ids = request.replica_ids
        for name, count in (
            ("directory_ids", len(request.directory_ids)),
            ("fetch_offsets", len(request.fetch_offsets)),
        ):
            if count != len(ids):
                why = f"{name} has {count} items, and replica_ids {len(ids)}; all have as many"
                raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": name})
        translate.check_count("replica_ids", ids, "readers", READERS_MAX)
        keys = map(translate.key_of, ids, request.directory_ids)
        readers = dict(zip(keys, request.fetch_offsets, strict=True))
        return ReportReadersResponse(all_noted=self._driver.note_readers(readers, epoch=request.leader_epoch))

    async def RelayFetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> RelayFetchSnapshotResponse:
        """Answers one chunk of a snapshot, as leader or not; `silent_ms` as in RelayFetchStream. KIP-630."""
        answer, data = await self._driver.ask(
            lambda reply: replace(translate.fetch_snapshot_request(request, reply), from_any=True)
        )
        response = translate.fetch_snapshot_answer(answer, data, self._for(context))
        return RelayFetchSnapshotResponse(response=response, silent_ms=answer.silent_ms)
