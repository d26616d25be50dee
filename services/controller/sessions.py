"""Client of the heartbeat service: asks whether a broker's session is valid, so that no second process takes its id."""

from __future__ import annotations

from typing import Final

from kraft.service.heartbeat_pb2 import DescribeSessionsRequest
from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from quorate.errors import ApiError
from quorate.nouns import Epoch, NodeId
from quorate.runtime.clients.client import Client
from quorate.runtime.logging.logs import logger

log = logger(__name__)

DEADLINE_MS: Final = 1_000
"""Deadline of DescribeSessions: the service answers from memory, and a registration must not wait for a dead one."""


class SessionLookup:
    """Queries broker sessions at the heartbeat service; without such a service no session is known."""

    def __init__(self, heartbeat: Client[HeartbeatStub] | None, *, count: int = 1) -> None:
        """`count` is the number of services that `heartbeat` may ask; one counts, and the others refuse."""
        self._heartbeat = heartbeat
        self._count = count

    async def valid_epoch(self, broker_id: NodeId | None) -> Epoch | None:
        """Returns the broker epoch of the broker's valid session; None without one, or if the service does not answer.

        An unknown session counts as none, as in Kafka after a controller failover: a broker that restarts meanwhile can
        register, and it stays fenced until the service is back.
        """
        if self._heartbeat is None or broker_id is None:
            return None
        request = DescribeSessionsRequest(broker_ids=[broker_id])
        for left in reversed(range(self._count)):
            try:
                found = await self._heartbeat.call(
                    lambda stub: stub.DescribeSessions,
                    request,
                    deadline_ms=DEADLINE_MS // self._count,
                    retry=lambda error: False,  # the next call is to the next service
                )
            except ApiError as error:
                if not left:
                    log.warning("the session of a broker is not known", broker=broker_id, reason=str(error))
                continue
            return next((session.broker_epoch for session in found.sessions if session.valid), None)
        return None

    async def close(self) -> None:
        """Closes the connection to the heartbeat service."""
        if self._heartbeat is not None:
            await self._heartbeat.close()
