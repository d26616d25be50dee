"""The heartbeat service, and the placer, as their `__main__` put them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import add_HeartbeatServicer_to_server
from kraft.service.placer_pb2_grpc import add_PlacerServicer_to_server
from quorate.liveness import Sessions
from quorate.nouns import NodeId
from quorate.runtime.client import Client
from quorate.runtime.log_reader import LogReader
from quorate.runtime.replica import Replica
from quorate.runtime.telemetry import OFF
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.servicer import HeartbeatService
from services.placer.servicer import PlacerService
from tests.sim_driver.checker import require
from tests.sim_driver.clock import HostClock, NodeClock
from tests.sim_driver.loop import Killed, Life, context_of
from tests.sim_driver.wire import Server
from tests.sim_services.controller import HEARTBEATS, PLACER

if TYPE_CHECKING:
    from tests.sim_services.world import ServicesWorld

TRACKER_HOST: Final = 200
PLACER_HOST: Final = 201
EXPIRED: Final = "its session expired"


class Tracker:
    """The heartbeat service over all its lives; its clock runs at a rate of its own."""

    def __init__(self, world: ServicesWorld) -> None:
        self.host = TRACKER_HOST
        self.life: Life | None = None
        self.driver: HeartbeatDriver | None = None
        self._world = world
        world.loop.clocks[self.host] = clock = HostClock(lambda: world.loop.now_us)
        self.host_clock = clock
        self._clock = NodeClock(clock, zero_ms=77_000)
        self._begun_s = 0.0
        self._asked: Any = None
        self._heard_s: dict[NodeId, float] = {}
        self._granted: dict[NodeId, int] = {}
        """The latest broker epoch of which a heartbeat was granted."""

    def start(self) -> None:
        """A process begins; one before has ended."""
        if self.life is not None:
            self._world.fired("C-07")
            self.life.is_over = True
            self._world.network.lose(self.life)
        self.life = life = Life(self, "heartbeat")
        self._heard_s, self._begun_s, self._granted = {}, self._now_s, {}
        self._world.loop.create_task(self._live(life), context=context_of(life))

    async def _live(self, life: Life) -> None:
        world = self._world
        try:
            reader = LogReader([node.address for node in world.nodes.values()], world.network.open_channel)  # type: ignore[arg-type]
            controllers = Client([each.address for each in world.controllers], ControllerStub)
            sessions = Sessions(world.cluster.session_ms)
            self.driver = HeartbeatDriver(Replica(reader, self._clock, OFF), sessions, controllers, self._clock)
            server = Server(life, self.host)
            add_HeartbeatServicer_to_server(HeartbeatService(self.driver), server)  # type: ignore[arg-type]
            world.network.listen(HEARTBEATS, server)
            await self.driver.run()
        except Killed:
            raise
        except BaseException as error:
            world.failed(life, error)

    # What is looked at.

    @property
    def _now_s(self) -> float:
        return self.host_clock.now_us / 1e6

    def answered(self, broker_id: NodeId, broker_epoch: int, *, came_s: float) -> None:
        """A heartbeat was granted: its session goes on from when that came, at the earliest."""
        self._granted[broker_id] = max(broker_epoch, self._granted.get(broker_id, -1))
        self._heard_s[broker_id] = max(came_s, self._heard_s.get(broker_id, 0.0))

    def described(self, answer: Any) -> None:
        """It tells a controller whose session is valid."""
        for each in answer.sessions:
            heard_s = self._heard_s.get(each.broker_id, float("-inf"))
            if not each.valid and self._granted.get(each.broker_id) == each.broker_epoch:
                silent_ms = round(1_000 * (self._now_s - heard_s)) + 1
                require("I-91", silent_ms >= self._world.cluster.session_ms, "has a session, and is said to have none")

    def asked(self, request: Any) -> None:
        """It asks the controller for another state of a broker."""
        if request.reason != EXPIRED or request is self._asked:
            return
        self._asked = request  # which is sent again until it is answered, whatever comes meanwhile
        self._world.fired("fencings asked for")
        silent_ms = round(1_000 * (self._now_s - self._heard_s.get(request.broker_id, self._begun_s))) + 1
        least_ms = self._world.cluster.session_ms
        require("I-64", silent_ms >= least_ms, "has a broker fenced within its session", request.broker_id, silent_ms)


class Placer:
    """It never dies: a controller that cannot reach it refuses, which shows nothing more."""

    def __init__(self, world: ServicesWorld) -> None:
        self.host = PLACER_HOST
        server = Server(Life(self, "placer"), self.host)
        add_PlacerServicer_to_server(PlacerService(), server)  # type: ignore[arg-type]
        world.network.listen(PLACER, server)
