"""gRPC ↔ the driver, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any, Final

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import (
    BrokerHeartbeatsRequest,
    BrokerHeartbeatsResponse,
    DescribeSessionsRequest,
    DescribeSessionsResponse,
)
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer
from quorate.errors import ApiError
from quorate.wire.protobuf import to_protobuf, to_struct
from services.heartbeat.driver import Driver

NEVER = -1
SIDE_BY_SIDE_MAX: Final = 64
"""Heartbeats of one message that wait for the controller at once: more would only wait there."""
PLAIN: Final = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
"""For an active broker that only says that it is there."""


class Servicer(HeartbeatServicer):
    """Serves `kraft.service.Heartbeat`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def BrokerHeartbeat(self, request: BrokerHeartbeatRequest, context: Any) -> BrokerHeartbeatResponse:
        """One heartbeat; what the controller refuses is the call's error."""
        if self._is_plain(request):
            return PLAIN
        return to_protobuf(await self._driver.heartbeat(to_struct(request)))  # type: ignore[return-value]

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterable[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatResponse]:
        """Many; an error is the item's, the stream goes on."""
        async for request in request_iterator:
            yield await self._item(request)

    async def BrokerHeartbeats(
        self, request_iterator: AsyncIterable[BrokerHeartbeatsRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatsResponse]:
        """Many of many: those that want something are served side by side."""
        async for request in request_iterator:
            heartbeats = request.heartbeats
            answers = [PLAIN] * len(heartbeats)
            others = [place for place, heartbeat in enumerate(heartbeats) if not self._is_plain(heartbeat)]
            for start in range(0, len(others), SIDE_BY_SIDE_MAX):
                places = others[start : start + SIDE_BY_SIDE_MAX]
                for place, answer in zip(places, await self._items([heartbeats[i] for i in places]), strict=True):
                    answers[place] = answer
            yield BrokerHeartbeatsResponse(responses=answers)

    async def _items(self, requests: Sequence[BrokerHeartbeatRequest]) -> Sequence[BrokerHeartbeatResponse]:
        return await asyncio.gather(*map(self._item, requests))

    async def _item(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        try:
            return await self.BrokerHeartbeat(request, None)
        except ApiError as refusal:
            return BrokerHeartbeatResponse(error_code=refusal.code)  # type: ignore[arg-type]

    def _is_plain(self, request: BrokerHeartbeatRequest) -> bool:
        """Is there nothing in it but that an active broker is there? Nearly all are so, and that is then noted."""
        wants = request.want_fence or request.want_shut_down
        tells = request.offline_log_dirs or request.HasField("cordoned_log_dirs")
        return not (wants or tells) and self._driver.keep_alive(
            request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
        )

    async def DescribeSessions(self, request: DescribeSessionsRequest, context: Any) -> DescribeSessionsResponse:
        """All registered brokers, by id."""
        contacts, now_ms = self._driver.sessions.contacts, self._driver.now_ms
        response = DescribeSessionsResponse(applied_offset=self._driver.replica.applied)
        for broker in self._driver.replica.state.brokers:
            contact = contacts.get(broker.id)
            known = contact is not None and contact.broker_epoch == broker.epoch
            response.sessions.add(
                broker_id=broker.id,
                broker_epoch=broker.epoch,
                fenced=broker.fenced,
                last_contact_ms_ago=now_ms - contact.at_ms if contact is not None and known else NEVER,
                current_metadata_offset=contact.metadata_offset if contact is not None and known else NEVER,
            )
        return response
