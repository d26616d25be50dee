"""The gRPC servicer of `kraft.service.Heartbeat`: converts messages and calls the driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any, Final

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import (
    BrokerHeartbeatsRequest,
    BrokerHeartbeatsResponse,
    DescribeSessionsRequest,
    DescribeSessionsResponse,
)
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer
from quorate.errors import ApiError, ErrorCode
from quorate.liveness.sessions import UNKNOWN_OFFSET
from quorate.metadata.brokers import Broker
from quorate.runtime.caps import check_items, check_list
from quorate.wire.protobuf import to_protobuf, to_struct
from services.heartbeat.driver import HeartbeatDriver

NEVER = -1
SIDE_BY_SIDE_MAX: Final = 64
"""Heartbeats of one message that are served at the same time; more would only wait at the controller."""
PER_TURN: Final = 1_000
"""Heartbeats of one message (3 to 6 ms) that are looked at before the event loop runs other tasks."""
PLAIN: Final = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
"""The answer to a heartbeat that changes nothing, from an active broker."""


class HeartbeatService(HeartbeatServicer):
    """Serves `kraft.service.Heartbeat`: heartbeats and sessions of brokers."""

    def __init__(self, driver: HeartbeatDriver) -> None:
        self._driver = driver

    async def BrokerHeartbeat(self, request: BrokerHeartbeatRequest, context: Any) -> BrokerHeartbeatResponse:
        """Answers one heartbeat; a refusal of the controller becomes the call's error. Raises ApiError."""
        if self._is_plain(request):
            return PLAIN
        check_items(request)
        if request.current_metadata_offset < UNKNOWN_OFFSET:
            why = f"current_metadata_offset {request.current_metadata_offset} is none; one is from {UNKNOWN_OFFSET} on"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "current_metadata_offset"})
        return to_protobuf(await self._driver.heartbeat(to_struct(request)))  # type: ignore[return-value]

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterable[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatResponse]:
        """Answers a stream of heartbeats in order; an error is sent in its own answer, and the stream goes on."""
        async for request in request_iterator:
            yield await self._item(request)

    async def BrokerHeartbeats(
        self, request_iterator: AsyncIterable[BrokerHeartbeatsRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatsResponse]:
        """Answers a stream of messages with heartbeats of many brokers; those that change a state run concurrently.

        Raises ApiError(POLICY_VIOLATION) for a message of more than 10,000 heartbeats; none of them is served.
        """
        async for request in request_iterator:
            heartbeats = request.heartbeats
            check_list("heartbeats", len(heartbeats))
            answers = [PLAIN] * len(heartbeats)
            others: list[int] = []
            for start in range(0, len(heartbeats), PER_TURN):
                await asyncio.sleep(0)
                turn = enumerate(heartbeats[start : start + PER_TURN], start)
                others += [place for place, heartbeat in turn if not self._is_plain(heartbeat)]
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
        """Extends the session if the heartbeat changes nothing and its broker is active; else returns False."""
        wants = request.want_fence or request.want_shut_down
        reports = request.offline_log_dirs or request.HasField("cordoned_log_dirs")
        return not (wants or reports) and self._driver.keep_alive(
            request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
        )

    async def DescribeSessions(self, request: DescribeSessionsRequest, context: Any) -> DescribeSessionsResponse:
        """Lists the sessions of the requested brokers, or of all registered ones, by id; unknown ids are left out.

        Raises ApiError(POLICY_VIOLATION) for more than 10,000 ids.
        """
        check_items(request)
        sessions, now_ms = self._driver.sessions, self._driver.now_ms
        response = DescribeSessionsResponse(applied_offset=self._driver.replica.applied)
        for broker in self._asked_for(request):
            contact = sessions.contacts.get(broker.id)
            known = contact is not None and contact.broker_epoch == broker.epoch
            response.sessions.add(
                broker_id=broker.id,
                broker_epoch=broker.epoch,
                fenced=broker.fenced,
                last_contact_ms_ago=now_ms - contact.at_ms if contact is not None and known else NEVER,
                current_metadata_offset=contact.metadata_offset if contact is not None and known else NEVER,
                valid=sessions.has_session(broker.id, broker_epoch=broker.epoch, now_ms=now_ms),
            )
        return response

    def _asked_for(self, request: DescribeSessionsRequest) -> Iterable[Broker]:
        brokers = self._driver.replica.state.brokers
        if not request.broker_ids:
            return brokers
        found = map(brokers.get, sorted(set(request.broker_ids)))
        return (broker for broker in found if broker is not None)
