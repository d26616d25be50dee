"""Serves the committed log to observers whether this node leads or not: their number is no load on the leader."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import replace
from typing import Any

from kraft.api.fetch_pb2 import FetchRequest
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotRequest
from kraft.service.quorum_pb2 import RelayFetchResponse, RelayFetchSnapshotResponse
from kraft.service.quorum_pb2_grpc import QuorumServicer
from services.quorum import translate
from services.quorum.driver import Driver
from services.quorum.translate import Endpoints


class RelayServicer(QuorumServicer):
    """The part of `kraft.service.Quorum` that is about the log, from any node that has it."""

    _driver: Driver
    _endpoints: Endpoints

    async def RelayFetchStream(
        self, request_iterator: AsyncIterable[FetchRequest], context: Any
    ) -> AsyncIterator[RelayFetchResponse]:
        """One answer a request, in order."""
        async for request in request_iterator:
            answer, data = await self._driver.ask(
                lambda reply, request=request: replace(translate.fetch_request(request, reply), from_any=True)  # type: ignore[misc]
            )
            response = translate.fetch_answer(answer, data, self._endpoints)
            yield RelayFetchResponse(response=response, silent_ms=answer.silent_ms)

    async def RelayFetchSnapshot(self, request: FetchSnapshotRequest, context: Any) -> RelayFetchSnapshotResponse:
        """KIP-630."""
        answer, data = await self._driver.ask(
            lambda reply: replace(translate.fetch_snapshot_request(request, reply), from_any=True)
        )
        response = translate.fetch_snapshot_answer(answer, data, self._endpoints)
        return RelayFetchSnapshotResponse(response=response, silent_ms=answer.silent_ms)
