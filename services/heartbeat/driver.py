"""The heartbeat service's event loop: handles broker heartbeats, and has the controller change broker states (KIP-631).

A broker's epoch and fenced state come from this service's own replica of the log; the times of its heartbeats are kept
only here. The heartbeat that leads to a state change is answered once this replica has applied that change.
"""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.service.controller_pb2 import ChangeBrokerStateRequest, ChangeBrokerStateResponse, LogDirectories
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import (
    CONTROL_STATE_NUMBERS,
    BrokerTransition,
    Claimant,
    ControlState,
    RegisteredBroker,
    Sessions,
    decide,
)
from quorate.metadata.brokers import Broker
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES
from quorate.nouns import NodeId, uuid_text
from quorate.runtime.clients.client import Client
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.following.replica import Replica
from quorate.runtime.logging.logs import logger
from services.heartbeat.listening import Listening
from services.heartbeat.standing import Standing

log = logger(__name__)

CHECK_S: Final = 0.1
"""Interval (s) of the check for expired broker sessions."""
DEADLINE_MS: Final = 5_000
APPLIED_WITHIN_MS: Final = 5_000
"""How long a heartbeat waits until this service has applied the log up to what the heartbeat rests on."""


class HeartbeatDriver:
    """Keeps the brokers' sessions by their heartbeats and this service's replica of the log, while `run` runs.

    It has the active controller change a broker's state: as a heartbeat asks, and to fenced when a session expires.
    """

    def __init__(
        self,
        replica: Replica,
        sessions: Sessions,
        controllers: Client[ControllerStub],
        clock: Clock,
        claimant: Claimant,
    ) -> None:
        self.replica = replica
        self.sessions = sessions
        self._controllers = controllers
        self._listening = Listening(sessions, clock)
        self.standing = Standing(
            controllers,
            claimant,
            session_ms=sessions.timeout_ms,
            is_led_elsewhere=lambda: replica.is_led_elsewhere,
        )

    async def run(self) -> None:
        """Replays the log, watches the unfenced brokers, and expires sessions, until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.replica.run())
            loops.create_task(self._listening.run())
            loops.create_task(self.standing.run())
            loops.create_task(self._watch())
            loops.create_task(self._expire())

    def keep_alive(self, broker_id: NodeId, *, broker_epoch: int, metadata_offset: int) -> bool:
        """Extends an active broker's session for a heartbeat that changes nothing; False, and no effect, for any other.

        Then `heartbeat` has to handle it. An active broker is neither fenced nor in controlled shutdown.
        """
        broker = self.replica.state.brokers.get(broker_id)
        if (
            self.replica.is_led_elsewhere
            or self.standing.refusal is not None
            or broker is None
            or broker.epoch != broker_epoch
            or not broker.is_active
            or metadata_offset < broker.registration_offset
        ):
            return False
        self._listening.heard(broker_id, broker_epoch=broker_epoch, metadata_offset=metadata_offset)
        return True

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Handles one heartbeat: extends the session, and has the controller change the broker's state where needed.

        Returns once a state change is applied here. Raises ApiError: STALE_BROKER_EPOCH if the broker epoch is not the
        registered one; NOT_CONTROLLER while a Kafka controller is active, to which the broker then turns, or while
        this service stands by or is cut from all controllers; REQUEST_TIMED_OUT if a change is committed, and not
        applied here in time; or the controller's refusal.
        """
        if self.replica.is_led_elsewhere:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "a Kafka controller is active, and keeps the broker sessions")
        self.standing.check()
        broker_id, broker_epoch = request.broker_id, request.broker_epoch
        broker = self.replica.state.brokers.get(broker_id)
        if broker is None or broker.epoch < broker_epoch:
            # The broker knows the epoch, so its registration is committed; this replica has not applied it yet.
            await self._catch_up(broker_epoch)
            self.standing.check()  # who has been cut off meanwhile cannot say that there is no such registration
            broker = self.replica.state.brokers.get(broker_id)
        transition = decide(
            None if broker is None else _registration(broker),
            request,
            leads_any=lambda: self.replica.state.topics.leader_count(broker_id) > 0,
            lowest_active_offset=self._lowest_active_offset,
            shutdown_offset=self.sessions.shutdown_offset(broker_id, broker_epoch=broker_epoch),
        )
        self._listening.heard(broker_id, broker_epoch=broker_epoch, metadata_offset=request.current_metadata_offset)
        if transition.next is not transition.current or _reports_news(self.replica.state, broker, transition):
            answer = await self._change(
                broker_id, broker_epoch, transition.next, reason="the broker's heartbeat", transition=transition
            )
            await self._reached(answer.offset)
            assert self.replica.applied >= answer.offset, (self.replica.applied, answer.offset)
        if transition.next is ControlState.SHUTDOWN_NOW:
            self.sessions.end(broker_id)
        if transition.next is ControlState.CONTROLLED_SHUTDOWN:
            assert self.replica.applied > broker_epoch, (broker_id, broker_epoch, self.replica.applied)
            self.sessions.begin_shutdown(broker_id, broker_epoch=broker_epoch, offset=self.replica.applied - 1)
        return transition.response

    @property
    def now_ms(self) -> int:
        """The time, in ms, by which broker sessions expire: it stands while this process does."""
        return self._listening.now_ms

    async def _reached(self, offset: int) -> None:
        """Waits until all records below `offset` are applied here. Raises ApiError(REQUEST_TIMED_OUT)."""
        try:
            async with asyncio.timeout(APPLIED_WITHIN_MS / 1000):
                await self.replica.reached(offset)
        except TimeoutError:
            why = (
                f"waited {APPLIED_WITHIN_MS} ms for the log up to offset {offset}; "
                f"the heartbeat service has applied it up to offset {self.replica.applied}"
            )
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, why) from None

    async def _catch_up(self, broker_epoch: int) -> None:
        try:
            await self._reached(broker_epoch + 1)
        except ApiError as late:
            log.debug("no such registration in the log", broker_epoch=broker_epoch, reason=str(late))

    async def _change(
        self,
        broker_id: NodeId,
        broker_epoch: int,
        target: ControlState,
        *,
        reason: str,
        transition: BrokerTransition | None = None,
    ) -> ChangeBrokerStateResponse:
        """Requests a state change from the controller; `transition` has the directories that the broker reported."""
        cordoned = None if transition is None else transition.cordoned_log_dirs
        request = ChangeBrokerStateRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            target=CONTROL_STATE_NUMBERS[target],  # type: ignore[arg-type]  # the stubs' enum type
            reason=reason,
            offline_log_dirs=[] if transition is None else map(uuid_text, transition.offline_log_dirs),
            cordoned_log_dirs=None if cordoned is None else LogDirectories(items=map(uuid_text, cordoned)),
            tracker_id=self.standing.claimant.id,
        )
        answer = await self._controllers.call(lambda stub: stub.ChangeBrokerState, request, deadline_ms=DEADLINE_MS)
        log.info("changed a broker's state", broker=broker_id, target=target.value, reason=reason)
        return answer

    async def _watch(self) -> None:
        """Keeps a session for each broker that is unfenced in the log; a new one lasts the full session timeout.

        Of a broker that is no longer registered nothing is kept, fenced or not.
        """
        done: object = None
        async for _ in self.replica.changes():
            if self._registered_and_kept() != done:  # most commits change no broker, and there may be thousands
                self._watch_all()
                done = self._registered_and_kept()

    def _registered_and_kept(self) -> tuple[object, ...]:
        """The input of `_watch_all`: with the same input it changes nothing."""
        return self.replica.state.brokers.registrations(), self.sessions.watched, self.sessions.known

    def _watch_all(self) -> None:
        known, watched = {broker.id: broker for broker in self.replica.state.brokers}, self.sessions.watched
        for broker_id in self.sessions.known - known.keys():
            self.sessions.forget(broker_id)
        for broker in known.values():
            if broker.fenced:
                self.sessions.unwatch(broker.id)
            elif broker.id not in watched:
                self.sessions.watch(broker.id, broker_epoch=broker.epoch, now_ms=self.now_ms)
        unfenced = {broker.id for broker in known.values() if not broker.fenced}
        assert self.sessions.watched == unfenced, (self.sessions.watched, unfenced)  # I-65

    async def _expire(self) -> None:
        """Has the controller fence, one at a time, the broker whose session expired first.

        While a Kafka controller is active, brokers send it their heartbeats, and no session expires here. When one of
        our controllers becomes active again, each session lasts its full time from then on. So it is while another
        heartbeat service counts.
        """
        while True:
            if self.replica.is_led_elsewhere or not self.standing.counts:
                self._presume_seen()
            elif await self._fence_first_late():
                continue  # a whole rack may be silent: the next one need not wait
            await asyncio.sleep(CHECK_S)

    async def _fence_first_late(self) -> bool:
        """Has the broker fenced whose session expired first; False if there is none, or if it was not fenced."""
        late = await self._listening.first_late()
        broker = None if late is None else self.replica.state.brokers.get(late)
        if broker is None:
            return False
        try:
            answer = await self._change(broker.id, broker.epoch, ControlState.FENCED, reason="its session expired")
            await self._reached(answer.offset)
        except ApiError as refusal:
            log.debug("not fenced yet", broker=broker.id, reason=str(refusal))
            return False
        return True

    def _presume_seen(self) -> None:
        self._listening.rest()
        for broker in self.replica.state.brokers:
            if not broker.fenced:
                self.sessions.presume(broker.id, broker_epoch=broker.epoch, now_ms=self.now_ms)

    def _lowest_active_offset(self) -> int | None:
        active = [(broker.id, broker.epoch) for broker in self.replica.state.brokers.active()]
        return self.sessions.lowest_metadata_offset(active)


def _reports_news(state: ClusterState, broker: Broker | None, transition: BrokerTransition) -> bool:
    """Returns whether the broker reported offline or cordoned directories that are not in the log, but could be.

    The metadata version of the log decides whether it can store them (KIP-858, KIP-1066).
    """
    level = state.features.record_level
    if broker is None or level < DIRECTORIES:
        return False
    cordoned, known = transition.cordoned_log_dirs, broker.cordoned_log_dirs
    is_news = cordoned is not None and (known is None or set(known) != set(cordoned))
    return not set(transition.offline_log_dirs).isdisjoint(broker.log_dirs) or (
        is_news and level >= CORDONED_DIRECTORIES
    )


def _registration(broker: Broker) -> RegisteredBroker:
    return RegisteredBroker(
        broker_epoch=broker.epoch,
        offset=broker.registration_offset,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
