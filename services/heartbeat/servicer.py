"""gRPC ↔ the driver, nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import DescribeSessionsRequest, DescribeSessionsResponse
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer
from quorate.errors import ApiError
from quorate.wire.protobuf import to_protobuf, to_struct
from services.heartbeat.driver import Driver

NEVER = -1


class Servicer(HeartbeatServicer):
    """Serves `kraft.service.Heartbeat`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def BrokerHeartbeat(self, request: BrokerHeartbeatRequest, context: Any) -> BrokerHeartbeatResponse:
        """One heartbeat; what the controller refuses is the call's error."""
        return to_protobuf(await self._driver.heartbeat(to_struct(request)))  # type: ignore[return-value]

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterable[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatResponse]:
        """Many; an error is the item's, the stream goes on."""
        async for request in request_iterator:
            try:
                yield await self.BrokerHeartbeat(request, context)
            except ApiError as refusal:
                yield BrokerHeartbeatResponse(error_code=refusal.code)  # type: ignore[arg-type]

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
