"""The gRPC servicer of `kraft.service.Heartbeat`: converts messages and calls the driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from kraft.api.broker_heartbeat_pb2 import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import (
    BrokerHeartbeatsRequest,
    BrokerHeartbeatsResponse,
    DescribeSessionsRequest,
    DescribeSessionsResponse,
    KeepAliveRequest,
    KeepAliveResponse,
)
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer
from quorate.errors import ApiError, ErrorCode
from quorate.liveness.sessions import UNKNOWN_OFFSET
from quorate.metadata.brokers import Broker
from quorate.runtime.requests.caps import check_items, check_list
from quorate.runtime.requests.stream_room import Hold, hold_of_message
from quorate.wire.protobuf import to_protobuf, to_struct
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.reading_ahead import read_ahead

NEVER = -1
SIDE_BY_SIDE_MAX: Final = 64
"""Heartbeats of one message that are served at the same time; more would only wait at the controller."""
PER_TURN: Final = 1_000
"""Heartbeats of one message (3 to 6 ms) that are looked at before the event loop runs other tasks."""
BYTES_AHEAD_MAX: Final = 4 << 20
"""Bytes of the messages of one stream that wait for an answer before no more are read: as many as one may have."""
MESSAGE_BYTES: Final = 200
"""The cost of a message beside its bytes, which may be none."""
PLAIN: Final = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
"""The answer to a heartbeat that changes nothing, from an active broker."""


class _Arrived(NamedTuple):
    """A message that has arrived: it waits until all before it are answered."""

    heartbeat_count: int
    others: Mapping[int, BrokerHeartbeatRequest]
    """The heartbeats that are not plain, by their place in the message."""
    size: int
    """Its share of `BYTES_AHEAD_MAX`."""
    hold: Hold | None
    """Its room in memory, if it is large."""


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
            why = f"current_metadata_offset is {request.current_metadata_offset}; it must be {UNKNOWN_OFFSET} or above"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "current_metadata_offset"})
        return to_protobuf(await self._driver.heartbeat(to_struct(request)))  # type: ignore[return-value]

    async def BrokerHeartbeatStream(
        self, request_iterator: AsyncIterable[BrokerHeartbeatRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatResponse]:
        """Answers a stream of heartbeats in order; an error is sent in its own answer, and the stream goes on.

        A heartbeat is a sign of life when it arrives, also while those before it wait for the controller.
        """
        messages = (([request], request.ByteSize()) async for request in request_iterator)
        async with aclosing(self._ahead(messages)) as ahead:
            async for arrived in ahead:
                (answer,) = await self._answers(arrived)
                yield answer

    async def BrokerHeartbeats(
        self, request_iterator: AsyncIterable[BrokerHeartbeatsRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatsResponse]:
        """Answers a stream of messages with heartbeats of many brokers; those that change a state run concurrently.

        A heartbeat is a sign of life when it arrives, also while those before it wait for the controller. Raises
        ApiError(POLICY_VIOLATION) for a message of more than 10,000 heartbeats; none of them is served.
        """
        messages = ((request.heartbeats, request.ByteSize()) async for request in request_iterator)
        async with aclosing(self._ahead(messages)) as ahead:
            async for arrived in ahead:
                yield BrokerHeartbeatsResponse(responses=await self._answers(arrived))

    async def KeepAlive(self, request: KeepAliveRequest, context: Any) -> KeepAliveResponse:
        """Extends the sessions of active brokers, and names, by their places in the lists, the other heartbeats.

        These have to be sent by themselves, and have changed nothing.
        Raises ApiError: POLICY_VIOLATION for more than 10,000, INVALID_REQUEST for lists of several lengths.
        """
        lists = {"broker_ids": request.broker_ids, "broker_epochs": request.broker_epochs}
        lists["metadata_offsets"] = request.metadata_offsets
        for name, items in lists.items():
            check_list(name, len(items))
            if len(items) != len(request.broker_ids):
                why = f"{name} has {len(items)} items, and broker_ids {len(request.broker_ids)}; all have as many"
                raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": name})
        unanswered: list[int] = []
        beats = list(zip(request.broker_ids, request.broker_epochs, request.metadata_offsets, strict=True))
        for start in range(0, len(beats), PER_TURN):
            if start:
                await asyncio.sleep(0)
            for place, (broker_id, epoch, offset) in enumerate(beats[start : start + PER_TURN], start):
                if not self._driver.keep_alive(broker_id, broker_epoch=epoch, metadata_offset=offset):
                    unanswered.append(place)
        return KeepAliveResponse(unanswered=unanswered)

    def _ahead(
        self, messages: AsyncIterable[tuple[Sequence[BrokerHeartbeatRequest], int]]
    ) -> AsyncGenerator[_Arrived, None]:
        """Reads messages, each with its size in bytes, as they arrive."""
        return read_ahead(self._arrivals(messages), lambda arrived: arrived.size, size_max=BYTES_AHEAD_MAX)

    async def _arrivals(
        self, messages: AsyncIterable[tuple[Sequence[BrokerHeartbeatRequest], int]]
    ) -> AsyncIterator[_Arrived]:
        """Extends the sessions of all active brokers in each message. Raises ApiError."""
        async for heartbeats, size in messages:
            if (hold := hold_of_message()) is not None:
                hold.keep()
            check_list("heartbeats", len(heartbeats))
            others: dict[int, BrokerHeartbeatRequest] = {}
            for start in range(0, len(heartbeats), PER_TURN):
                await asyncio.sleep(0)
                for place, heartbeat in enumerate(heartbeats[start : start + PER_TURN], start):
                    if not self._is_plain(heartbeat):
                        self._keep_alive(heartbeat)
                        others[place] = heartbeat
            yield _Arrived(len(heartbeats), others, size + MESSAGE_BYTES, hold)

    async def _answers(self, arrived: _Arrived) -> Sequence[BrokerHeartbeatResponse]:
        answers = [PLAIN] * arrived.heartbeat_count
        others = list(arrived.others.items())
        for start in range(0, len(others), SIDE_BY_SIDE_MAX):
            turn = others[start : start + SIDE_BY_SIDE_MAX]
            found = await asyncio.gather(*(self._item(heartbeat) for _, heartbeat in turn))
            for (place, _), answer in zip(turn, found, strict=True):
                answers[place] = answer
        if arrived.hold is not None:
            arrived.hold.end()
        return answers

    async def _item(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        try:
            return await self.BrokerHeartbeat(request, None)
        except ApiError as refusal:
            return BrokerHeartbeatResponse(error_code=refusal.code)  # type: ignore[arg-type]

    def _is_plain(self, request: BrokerHeartbeatRequest) -> bool:
        """Extends the session if the heartbeat changes nothing and its broker is active; else returns False."""
        wants = request.want_fence or request.want_shut_down
        reports = request.offline_log_dirs or request.HasField("cordoned_log_dirs")
        return not (wants or reports) and self._keep_alive(request)

    def _keep_alive(self, request: BrokerHeartbeatRequest) -> bool:
        return self._driver.keep_alive(
            request.broker_id,
            broker_epoch=request.broker_epoch,
            metadata_offset=request.current_metadata_offset,
        )

    async def DescribeSessions(self, request: DescribeSessionsRequest, context: Any) -> DescribeSessionsResponse:
        """Lists the sessions of the requested brokers, or of all registered ones, by id; unknown ids are left out.

        Raises ApiError: POLICY_VIOLATION for more than 10,000 ids, NOT_CONTROLLER while no heartbeats are taken.
        """
        check_items(request)
        self._driver.standing.check()
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
