"""Heartbeats in, changes of state out: the sessions beside the replayed log.

What the log says of a broker (its epoch, whether it is fenced) comes from this service's own replica; when a
broker was heard of is kept here alone. A change is asked of the controller, and answered to the broker when this
replica has applied it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.controller_pb2 import ChangeBrokerStateRequest, ChangeBrokerStateResponse, LogDirectories
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError
from quorate.liveness import ControlState, Registration, Sessions, Transition, decide
from quorate.metadata.brokers import Broker
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES
from quorate.nouns import NodeId, uuid_text
from quorate.runtime.client import Client
from quorate.runtime.clock import Clock
from quorate.runtime.logs import logger
from quorate.runtime.replica import Replica

log = logger(__name__)

CHECK_S: Final = 0.1
"""How often it is looked who is late."""
DEADLINE_MS: Final = 5_000

_NUMBERS: Final = {
    ControlState.FENCED: 1,
    ControlState.UNFENCED: 2,
    ControlState.CONTROLLED_SHUTDOWN: 3,
    ControlState.SHUTDOWN_NOW: 4,
}
"""The numbers of kraft.service.BrokerControlState."""


class Driver:
    """One tracker."""

    def __init__(self, replica: Replica, sessions: Sessions, controllers: Client[ControllerStub], clock: Clock) -> None:
        self.replica = replica
        self.sessions = sessions
        self._controllers = controllers
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.replica.run())
            loops.create_task(self._watch())
            loops.create_task(self._expire())

    def keep_alive(self, broker_id: NodeId, *, broker_epoch: int, metadata_offset: int) -> bool:
        """A heartbeat that wants nothing: an active broker's session goes on. False if there is more to it."""
        broker = self.replica.state.brokers.get(broker_id)
        if (
            broker is None
            or broker.epoch != broker_epoch
            or not broker.is_active
            or metadata_offset < broker.registration_offset
        ):
            return False
        self.sessions.touch(broker_id, broker_epoch=broker_epoch, metadata_offset=metadata_offset, now_ms=self.now_ms)
        return True

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """One sign of life. Raises ApiError(STALE_BROKER_EPOCH) for a registration that is not the present one."""
        broker_id, broker_epoch = request.broker_id, request.broker_epoch
        broker = self.replica.state.brokers.get(broker_id)
        if broker is None or broker.epoch < broker_epoch:
            # its registration is committed, or it would not know the epoch: this replica has not got there yet
            await self._catch_up(broker_epoch)
            broker = self.replica.state.brokers.get(broker_id)
        transition = decide(
            None if broker is None else _registration(broker),
            request,
            leads_any=lambda: self.replica.state.topics.leader_count(broker_id) > 0,
            lowest_active_offset=self._lowest_active_offset,
            shutdown_offset=self.sessions.shutdown_offset(broker_id, broker_epoch=broker_epoch),
        )
        self.sessions.touch(
            broker_id,
            broker_epoch=broker_epoch,
            metadata_offset=request.current_metadata_offset,
            now_ms=self.now_ms,
        )
        if transition.next is not transition.current or _tells_news(self.replica.state, broker, transition):
            answer = await self._change(
                broker_id, broker_epoch, transition.next, reason="the broker's heartbeat", told=transition
            )
            await self._reached(answer.offset)
        if transition.next is ControlState.CONTROLLED_SHUTDOWN:
            self.sessions.begin_shutdown(broker_id, broker_epoch=broker_epoch, offset=self.replica.applied - 1)
        return transition.response

    @property
    def now_ms(self) -> int:
        """Sessions are kept by the monotonic clock alone."""
        return self._clock.monotonic_ms()

    async def _reached(self, offset: int) -> None:
        async with asyncio.timeout(DEADLINE_MS / 1000):
            await self.replica.reached(offset)

    async def _catch_up(self, offset: int) -> None:
        try:
            await self._reached(offset + 1)
        except TimeoutError:
            log.debug("no such registration in the log", offset=offset, applied=self.replica.applied)

    async def _change(
        self, broker_id: NodeId, broker_epoch: int, target: ControlState, *, reason: str, told: Transition | None = None
    ) -> ChangeBrokerStateResponse:
        """`told` is what the broker says of its directories besides."""
        cordoned = None if told is None else told.cordoned_log_dirs
        request = ChangeBrokerStateRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            target=_NUMBERS[target],  # type: ignore[arg-type]  # the stubs' enum type
            reason=reason,
            offline_log_dirs=[] if told is None else map(uuid_text, told.offline_log_dirs),
            cordoned_log_dirs=None if cordoned is None else LogDirectories(items=map(uuid_text, cordoned)),
        )
        answer = await self._controllers.call(lambda stub: stub.ChangeBrokerState, request, deadline_ms=DEADLINE_MS)
        log.info("changed a broker's state", broker=broker_id, target=target.value, reason=reason)
        return answer

    async def _watch(self) -> None:
        """Watch exactly the brokers that the log says are not fenced; a new tracker gives each a full session."""
        async for _ in self.replica.changes():
            known = {broker.id: broker for broker in self.replica.state.brokers}
            for broker_id in self.sessions.watched - known.keys():
                self.sessions.forget(broker_id)
            for broker in known.values():
                if broker.fenced:
                    self.sessions.unwatch(broker.id)
                elif broker.id not in self.sessions.watched:
                    self.sessions.watch(broker.id, broker_epoch=broker.epoch, now_ms=self.now_ms)

    async def _expire(self) -> None:
        """Have the one fenced that has been silent longest; then look again."""
        while True:
            await asyncio.sleep(CHECK_S)
            late = self.sessions.first_late(self.now_ms)
            broker = None if late is None else self.replica.state.brokers.get(late)
            if broker is None:
                continue
            try:
                answer = await self._change(broker.id, broker.epoch, ControlState.FENCED, reason="its session expired")
                await self._reached(answer.offset)
            except (ApiError, TimeoutError) as refusal:
                log.debug("not fenced yet", broker=broker.id, reason=str(refusal))

    def _lowest_active_offset(self) -> int | None:
        active = [(broker.id, broker.epoch) for broker in self.replica.state.brokers.active()]
        return self.sessions.lowest_metadata_offset(active)


def _tells_news(state: ClusterState, broker: Broker | None, told: Transition) -> bool:
    """Does the broker say of its directories what the log does not have, and has room for? Then it is to be written."""
    level = state.features.record_level
    if broker is None or level < DIRECTORIES:
        return False
    cordoned, known = told.cordoned_log_dirs, broker.cordoned_log_dirs
    is_news = cordoned is not None and (known is None or set(known) != set(cordoned))
    return not set(told.offline_log_dirs).isdisjoint(broker.log_dirs) or (is_news and level >= CORDONED_DIRECTORIES)


def _registration(broker: Broker) -> Registration:
    return Registration(
        broker_epoch=broker.epoch,
        offset=broker.registration_offset,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
