"""The heartbeat service: real sessions beside a replica of the log, as services/heartbeat/driver.py keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kraft import Message, Uuid
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from quorate.controller.commands.change_broker_state import change_in_turns
from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import QueueLimit
from quorate.errors import ApiError
from quorate.liveness import ControlState, RegisteredBroker, Sessions, decide
from quorate.metadata.brokers import Broker
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import DIRECTORIES
from quorate.nouns import NodeId, Offset
from tests.sim.clock import Clock
from tests.sim_controller.calls import CHUNK_LIMITS, OK, Call
from tests.sim_controller.controller import Controller
from tests.sim_controller.replica import Replica

if TYPE_CHECKING:
    from tests.sim_controller.brokers import Process
    from tests.sim_controller.world import ControllerWorld

FETCH_MS = 40
CHECK_MS = 100


class Tracker:
    """One process of the service. `is_gone` once another has begun in its place."""

    def __init__(self, world: ControllerWorld, clock: Clock) -> None:
        self._world = world
        self.clock = clock
        self.number = world.fencing.next_tracker()
        self.is_gone = False
        self.state = ClusterState()
        self.sessions = Sessions(world.cluster_plan.session_ms)
        self.replica = Replica(world, replay=self._replay, load=self._load)
        self._asked: set[NodeId] = set()
        world.again(FETCH_MS, self.replica.fetch, until=lambda: self.is_gone)
        world.again(CHECK_MS, self._expire, until=lambda: self.is_gone)

    @property
    def now_ms(self) -> int:
        """Sessions are kept by the monotonic clock alone."""
        return self.clock.now_ms

    @property
    def wall_ms(self) -> int:
        """The time of day, which somebody sets now and then; nothing here may hang on it."""
        return self.clock.wall_ms

    def heartbeat(self, process: Process, request: BrokerHeartbeatRequest) -> None:
        """One sign of life has arrived."""
        if self.is_gone:
            return
        broker_id, epoch = request.broker_id, request.broker_epoch
        broker = self.state.brokers.get(broker_id)
        if broker is None or broker.epoch < epoch:
            self.replica.fetch()  # it knows of a registration that this replica has not got yet
            broker = self.state.brokers.get(broker_id)
        try:
            transition = decide(
                None if broker is None else _registration(broker),
                request,
                leads_any=lambda: self.state.topics.leader_count(broker_id) > 0,
                lowest_active_offset=self._lowest_active_offset,
                shutdown_offset=self.sessions.shutdown_offset(broker_id, broker_epoch=epoch),
            )
        except ApiError as refused:
            process.hear_refusal(refused)
            return
        self._world.fencing.after_heartbeat(self, broker_id, epoch)
        self.sessions.touch(
            broker_id, broker_epoch=epoch, metadata_offset=request.current_metadata_offset, now_ms=self.now_ms
        )

        def answer() -> None:
            if transition.next is ControlState.CONTROLLED_SHUTDOWN:
                self.sessions.begin_shutdown(broker_id, broker_epoch=epoch, offset=self.replica.next - 1)
            process.hear(transition.response)

        offline = self._offline(broker, request)
        if transition.next is transition.current and not offline:
            answer()
            return
        self._world.fencing.before_change(self, broker_id, transition.next, request)
        self._change(broker_id, epoch, transition.next, answer, offline)

    def _offline(self, broker: Broker | None, request: BrokerHeartbeatRequest) -> tuple[Uuid, ...]:
        """Which of its directories it says have failed that the log still has, as services/heartbeat asks."""
        if broker is None or self.state.features.record_level < DIRECTORIES:
            return ()
        return tuple(each for each in request.offline_log_dirs if each in broker.log_dirs)

    def _change(
        self, broker_id: NodeId, epoch: int, target: ControlState, done: Any, offline: tuple[Uuid, ...] = ()
    ) -> None:
        """Asks the controller; done once this replica has applied what it has written."""

        def chunks(controller: Controller) -> Iterator[Command[Any]]:
            return change_in_turns(
                controller.engine.state,
                broker_id=broker_id,
                broker_epoch=epoch,
                target=target,
                settings=self._world.controller_settings,
                offline_log_dirs=offline,
                limits=CHUNK_LIMITS[epoch % len(CHUNK_LIMITS)],
            )

        def ended(call: Call) -> None:
            self._asked.discard(broker_id)
            if call.outcome == OK:
                if offline:
                    self._world.fencing.after_struck_off(broker_id, epoch, offline, call.offset)
                self._when_applied(call.offset, done)

        call = Call(
            what=f"ChangeBrokerState {broker_id} {target.value}",
            request=("ChangeBrokerState", broker_id, epoch, target),
            chunks=chunks,
            ended=ended,
            lane=QueueLimit.CLUSTER,
        )
        self._world.oracle.ask(call)

    def _when_applied(self, offset: Offset, done: Any, tries: int = 50) -> None:
        if self.is_gone or tries == 0:
            return
        if self.replica.next >= offset:
            done()
        else:
            self._world.at(FETCH_MS, lambda: self._when_applied(offset, done, tries - 1))

    def _expire(self) -> None:
        """Has the one fenced that has been silent longest."""
        late = self.sessions.first_late(self.now_ms)
        broker = None if late is None else self.state.brokers.get(late)
        if broker is None or broker.id in self._asked:
            return
        self._world.fencing.before_expiry(self, broker.id)
        self._asked.add(broker.id)
        self._change(broker.id, broker.epoch, ControlState.FENCED, lambda: None)

    # Its replica.

    def _replay(self, records: list[Message], base: Offset, end: Offset) -> None:
        for offset, record in enumerate(records, base):
            self.state.apply(record, offset)
        self.state.settle()
        self._watch()

    def _load(self, records: list[Message], base: Offset, end: Offset) -> None:
        self.state.load(records, end)
        self._watch()

    def _watch(self) -> None:
        """Exactly the brokers that are not fenced; a new tracker gives each a full session."""
        known = {broker.id: broker for broker in self.state.brokers}
        for broker_id in sorted(self.sessions.known - known.keys()):
            self.sessions.forget(broker_id)
        for broker in known.values():
            if broker.fenced:
                self.sessions.unwatch(broker.id)
            elif broker.id not in self.sessions.watched:
                self._world.fencing.after_watch(self, broker.id)
                self.sessions.watch(broker.id, broker_epoch=broker.epoch, now_ms=self.now_ms)

    def _lowest_active_offset(self) -> int | None:
        active = [(broker.id, broker.epoch) for broker in self.state.brokers.active()]
        return self.sessions.lowest_metadata_offset(active)


def _registration(broker: Broker) -> RegisteredBroker:
    return RegisteredBroker(
        broker_epoch=broker.epoch,
        offset=broker.registration_offset,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
    )
