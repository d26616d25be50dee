"""The heartbeat services, and the placer, as their `__main__` put them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft.service.controller_pb2 import ChangeBrokerStateRequest
from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import add_HeartbeatServicer_to_server
from kraft.service.placer_pb2_grpc import add_PlacerServicer_to_server
from quorate.liveness import Claimant, Sessions
from quorate.nouns import Epoch, NodeId, Offset
from quorate.runtime.clients.client import Client
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.telemetry.tracing import OFF
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.servicer import HeartbeatService
from services.placer.servicer import PlacerService
from tests.sim_driver.checker import require
from tests.sim_driver.clock import TRUE_RATE, HostClock, NodeClock
from tests.sim_driver.loop import Killed, Life, context_of
from tests.sim_driver.wire import Server
from tests.sim_services.controller import HEARTBEATS, PLACER

if TYPE_CHECKING:
    from tests.sim_services.world import ServicesWorld

HOSTS: Final = 200, 202
"""Of the heartbeat service, and of the second one."""
PLACER_HOST: Final = 201
EXPIRED: Final = "its session expired"
GAP_MS: Final = 100
"""Of each absence the service may take so much for time in which it listened."""
SLACK_MS: Final = 60
"""How much later than it decided a request of the service may leave, at most."""


class WatchedSessions(Sessions):
    """Says when a heartbeat was heard, granted or not."""

    __slots__ = ("_tracker",)

    def __init__(self, tracker: Tracker, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self._tracker = tracker

    def touch(self, broker_id: NodeId, *, broker_epoch: Epoch, metadata_offset: Offset, now_ms: int) -> None:
        self._tracker.heard()
        super().touch(broker_id, broker_epoch=broker_epoch, metadata_offset=metadata_offset, now_ms=now_ms)


class WatchedHeartbeats(HeartbeatDriver):
    """Says when it gives each broker a session because it does not count."""

    def __init__(self, tracker: Tracker, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tracker = tracker

    def _presume_seen(self) -> None:
        super()._presume_seen()
        self._tracker.rests()


class Tracker:
    """One heartbeat service over all its lives; its clock runs at a rate of its own."""

    def __init__(self, world: ServicesWorld, number: int) -> None:
        self.host = HOSTS[number]
        self.life: Life | None = None
        self._address = HEARTBEATS[number]
        self._life_count = 0
        self.driver: HeartbeatDriver | None = None
        self._world = world
        world.loop.clocks[self.host] = clock = HostClock(lambda: world.loop.now_us)
        self.host_clock = clock
        self._clock = NodeClock(clock, zero_ms=77_000 + number)
        self._begun_s = 0.0
        self._asked: Any = None
        self._heard_s: dict[NodeId, float] = {}
        self._granted: dict[NodeId, int] = {}
        """The latest broker epoch of which a heartbeat was granted."""
        self._late_s: dict[NodeId, float] = {}
        """When it last found a broker late."""
        self._anywhere_s: dict[tuple[NodeId, Epoch], float] = {}
        """When a heartbeat came that was granted, here or at the other service; by the time of this one."""
        self._heard_of: dict[tuple[str, NodeId, Epoch], int] = {}
        """Brokers that it asked to have fenced, though they were heard so many ms before; by the process that asked."""
        self._any_s = 0.0
        self._paused_s = 0.0
        self._pause_count = 0

    def start(self) -> None:
        """A process begins; one before has ended."""
        if self.life is not None:
            self._world.fired("C-07")
            self.stop()
        self._life_count += 1
        self.life = life = Life(self, f"heartbeat {self.host}.{self._life_count}")
        self._paused_s, self._pause_count = 0.0, 0
        self._heard_s, self._begun_s, self._granted = {}, self._now_s, {}
        self._any_s, self._late_s = self._now_s, {}
        self._world.loop.create_task(self._live(life), context=context_of(life))

    def stop(self) -> None:
        """The process is gone."""
        if self.life is not None:
            self.life.is_over = True
            self._world.network.lose(self.life)
        self.life, self.driver = None, None

    async def _live(self, life: Life) -> None:
        world = self._world
        try:
            reader = LogReader([node.address for node in world.nodes.values()], world.network.open_channel)  # type: ignore[arg-type]
            controllers = Client([each.address for each in world.controllers], ControllerStub)
            sessions = WatchedSessions(self, world.cluster.session_ms)
            replica, claimant = Replica(reader, self._clock, OFF), Claimant(id=life.name, address=self._address)
            self.driver = WatchedHeartbeats(self, replica, sessions, controllers, self._clock, claimant)
            server = Server(life, self.host)
            add_HeartbeatServicer_to_server(HeartbeatService(self.driver), server)  # type: ignore[arg-type]
            world.network.listen(self._address, server)
            await self.driver.run()
        except Killed:
            raise
        except BaseException as error:
            world.failed(life, error)

    def pause(self, ms: int) -> None:
        """It stands still, as after SIGSTOP; what comes meanwhile waits."""
        loop, life = self._world.loop, self.life
        if life is not None and life.paused_until_us <= loop.now_us:
            self._world.fired("C-14")
            life.paused_until_us = loop.now_us + 1_000 * ms
            self._paused_s += ms / 1_000 * self.host_clock.rate / TRUE_RATE
            self._pause_count += 1
            self._world.network.after_ms(ms, self._goes_on, life)

    def _goes_on(self, life: Life) -> None:
        """What was sent to it meanwhile is not read yet: nobody has lost a session."""
        driver = self.driver
        if life is not self.life or life.is_over or driver is None:
            return
        now_ms, least_ms = driver.now_ms, self._world.cluster.session_ms - GAP_MS * self._pause_count
        for broker_id, epoch in self._granted.items():
            broker = driver.replica.state.brokers.get(broker_id)
            silent_ms = 1_000 * (self._now_s - self._heard_s[broker_id])
            if broker is not None and broker.epoch == epoch and silent_ms + 1 < least_ms:
                is_there = driver.sessions.has_session(broker_id, broker_epoch=epoch, now_ms=now_ms)
                require("I-91", is_there, "lost its session while the heartbeat service stood still", broker_id)

    # What is looked at.

    @property
    def _now_s(self) -> float:
        """The time in which this process ran, by its host's clock."""
        return self.host_clock.now_us / 1e6 - self._paused_s

    def heard(self) -> None:
        """Somebody is heard; after a silence of all as long as a session, each has one from now."""
        now_s = self._now_s
        if 1_000 * (now_s - self._any_s) >= self._world.cluster.session_ms + SLACK_MS + GAP_MS * self._pause_count:
            self._world.fired("all were silent")
            self._begun_s = now_s
        self._any_s = now_s

    def rests(self) -> None:
        """It does not count, and brokers need not be heard here: each has a session from now."""
        self._any_s = self._begun_s = self._now_s
        self._late_s.clear()

    @property
    def counts(self) -> bool:
        """Whether it takes itself for the one that counts."""
        driver, life = self.driver, self.life
        return driver is not None and context_of(life).run(lambda: driver.standing.counts)

    def age_s(self, came_s: float) -> float:
        """How long ago that was on the clock of its host."""
        return self.host_clock.now_us / 1e6 - came_s

    def heard_anywhere(self, broker_id: NodeId, broker_epoch: Epoch, *, age_s: float) -> None:
        """A heartbeat was granted, by this service or the other one."""
        key, at_s = (broker_id, broker_epoch), self._now_s - age_s
        self._anywhere_s[key] = max(at_s, self._anywhere_s.get(key, at_s))

    def answered(self, broker_id: NodeId, broker_epoch: int, *, came_s: float) -> None:
        """A heartbeat was granted: its session goes on from when that came, at the earliest."""
        self._granted[broker_id] = max(broker_epoch, self._granted.get(broker_id, -1))
        self._heard_s[broker_id] = max(came_s - self._paused_s, self._heard_s.get(broker_id, 0.0))

    def described(self, answer: Any) -> None:
        """It tells a controller whose session is valid."""
        for each in answer.sessions:
            heard_s = self._heard_s.get(each.broker_id, float("-inf"))
            if not each.valid and self._granted.get(each.broker_id) == each.broker_epoch:
                silent_ms = round(1_000 * (self._now_s - heard_s)) + 1
                least_ms = self._world.cluster.session_ms - GAP_MS * self._pause_count
                require("I-91", silent_ms >= least_ms, "has a session, and is said to have none", silent_ms)

    def asked(self, request: Any) -> None:
        """It asks the controller for another state of a broker."""
        if request.reason != EXPIRED or request is self._asked:
            return
        self._asked = request  # which is sent again until it is answered, whatever comes meanwhile
        self._world.fired("fencings asked for")
        self._note_elsewhere(request)
        heard_s = self._heard_s.get(request.broker_id, self._begun_s)
        if heard_s >= self._late_s.get(request.broker_id, 0.0):  # else it was late before all were silent, and is
            heard_s = max(heard_s, self._begun_s)
        self._late_s[request.broker_id] = self._now_s
        silent_ms = round(1_000 * (self._now_s - heard_s)) + 1
        least_ms = self._world.cluster.session_ms - GAP_MS * self._pause_count
        require("I-64", silent_ms >= least_ms, "has a broker fenced within its session", request.broker_id, silent_ms)
        hush_ms = round(1_000 * (self._now_s - self._any_s))
        most_ms = self._world.cluster.session_ms // 3 + SLACK_MS
        require("I-64", hush_ms <= most_ms, "has a broker fenced while nobody is heard", request.broker_id, hush_ms)

    def _note_elsewhere(self, request: ChangeBrokerStateRequest) -> None:
        heard_s = self._anywhere_s.get((request.broker_id, request.broker_epoch), float("-inf"))
        silent_s = self._now_s - heard_s
        key = request.tracker_id, request.broker_id, request.broker_epoch
        self._heard_of.pop(key, None)
        if 1_000 * silent_s + 1 < self._world.cluster.session_ms - GAP_MS * self._pause_count:
            self._heard_of[key] = round(1_000 * silent_s)

    def obeyed(self, request: ChangeBrokerStateRequest) -> None:
        """A controller has changed the state of a broker, as a process of this service has asked it to."""
        silent_ms = self._heard_of.get((request.tracker_id, request.broker_id, request.broker_epoch))
        require("I-92", silent_ms is None, "is fenced, and was heard", request.broker_id, request.tracker_id, silent_ms)


class Placer:
    """It never dies: a controller that cannot reach it refuses, which shows nothing more."""

    def __init__(self, world: ServicesWorld) -> None:
        self.host = PLACER_HOST
        server = Server(Life(self, "placer"), self.host)
        add_PlacerServicer_to_server(PlacerService(), server)  # type: ignore[arg-type]
        world.network.listen(PLACER, server)
