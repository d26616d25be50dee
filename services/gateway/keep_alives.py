"""Heartbeats that want and report nothing, many in one call: what one turn of the loop has read goes together.

Most heartbeats change nothing, and have all the same answer. Those of which the heartbeat service says otherwise, and
all if it says nothing, go by themselves, as they would without this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.heartbeat_pb2 import KeepAliveRequest
from services.gateway.heartbeats import PATIENCE_S

__all__ = ["PLAIN", "KeepAlives"]

PLAIN: Final = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
"""The answer of a broker whose session is extended."""
UNDER_WAY_MAX: Final = 2
"""Calls under way, beyond which heartbeats wait for the next: one that comes alone goes at once, many go together."""
IN_CALL_MAX: Final = 1_000
PAUSE_S: Final = 1.0
"""How long (s) none goes together after a call has failed: each finds the service that answers by itself."""
UNSERVED_S: Final = 60.0
"""The same after a service of an earlier release has said that it does not know the call."""

Reply = Callable[[bool], None]
"""Hears, once, whether the session is extended; if not, the heartbeat has to go by itself."""


class KeepAlives:
    """Sends heartbeats that want and report nothing to the heartbeat service, many together in one KeepAlive call.

    `stub` is that of the heartbeat service, or `HeartbeatServices`.
    """

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self._waiting: list[tuple[BrokerHeartbeatRequest, Reply]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_due = False
        self._paused_until_s = 0.0

    def take(self, heartbeat: BrokerHeartbeatRequest, reply: Reply) -> bool:
        """Queues a heartbeat for the next call, and returns True: `reply` is called later, once, with its outcome.

        Returns False, and queues nothing, for a heartbeat that wants or reports something, and for a while after a
        call has failed: then it has to be sent by itself.
        """
        reports = heartbeat.offline_log_dirs or heartbeat.cordoned_log_dirs is not None
        if heartbeat.want_fence or heartbeat.want_shut_down or reports:
            return False
        loop = asyncio.get_running_loop()
        if self._paused_until_s and loop.time() < self._paused_until_s:
            return False
        self._waiting.append((heartbeat, reply))
        if not self._is_due and len(self._under_way) < UNDER_WAY_MAX:
            self._is_due = True
            loop.call_soon(self._send)
        return True

    def _send(self) -> None:
        """Sends those that wait; the sockets that have something in this turn of the loop are read before it."""
        self._is_due = False
        sent, self._waiting = self._waiting[:IN_CALL_MAX], self._waiting[IN_CALL_MAX:]
        asking = asyncio.get_running_loop().create_task(self._ask(sent))
        self._under_way.add(asking)
        asking.add_done_callback(self._end)

    def _end(self, asking: asyncio.Task[None]) -> None:
        self._under_way.discard(asking)
        if self._waiting and not self._is_due:
            self._send()

    async def _ask(self, sent: list[tuple[BrokerHeartbeatRequest, Reply]]) -> None:
        unanswered: set[int] | range = range(len(sent))
        try:
            request = KeepAliveRequest(
                broker_ids=[each.broker_id for each, _ in sent],
                broker_epochs=[each.broker_epoch for each, _ in sent],
                metadata_offsets=[each.current_metadata_offset for each, _ in sent],
            )
            answer = await self._stub.KeepAlive(request, timeout=PATIENCE_S)
            unanswered = set(answer.unanswered)
        except grpc.aio.AioRpcError as failure:
            is_unserved = failure.code() is grpc.StatusCode.UNIMPLEMENTED
            pause_s = UNSERVED_S if is_unserved else PAUSE_S
            self._paused_until_s = asyncio.get_running_loop().time() + pause_s
        finally:
            for place, (_, reply) in enumerate(sent):
                reply(place not in unanswered)
