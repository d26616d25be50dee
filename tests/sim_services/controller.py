"""One controller as `services/controller/__main__` puts it together, over all its lives; it may die alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.activation import activate
from quorate.controller.engine.engine import Engine
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.runtime.calls.transport_settings import PLAINTEXT
from quorate.runtime.clients.client import Client
from quorate.runtime.settings.setting_types import Endpoint, ListenerAddress
from quorate.runtime.telemetry.tracing import OFF
from services.controller.admin import AdminDoor
from services.controller.apis import Apis
from services.controller.forwarding import Forwarding
from services.controller.periodic_tasks import PeriodicTasks
from services.controller.quorum_node import QuorumNode
from services.controller.registration import ControllerRegistration
from services.controller.servicer import ControllerService, add_to_server
from services.controller.sessions import SessionLookup
from services.controller.snapshots import Snapshots
from tests.sim_driver.loop import Killed, Life, context_of
from tests.sim_driver.node import CLUSTER_ID
from tests.sim_driver.wire import Channel, Server
from tests.sim_services.watched import WatchedDriver

if TYPE_CHECKING:
    from tests.sim_driver.node import Node
    from tests.sim_services.world import ServicesWorld

PORT: Final = 9090
PLACER: Final = "placer:9080"
HEARTBEATS: Final = "heartbeat:9091", "heartbeat2:9091"
"""The heartbeat service, and the second one where there are two."""


class Controller:
    """The process beside one node. `driver` is that of its present life."""

    def __init__(self, world: ServicesWorld, node: Node) -> None:
        self.world = world
        self.node = node
        self.host = node.host
        self.driver: WatchedDriver | None = None
        self.life: Life | None = None
        self.life_count = 0
        self.fuse = 0
        """After so many messages more, it dies; 0 for never."""
        self._load_count = 0
        self._answered_count = 0

    @property
    def address(self) -> str:
        return f"{self._listener.endpoint}"

    @property
    def _listener(self) -> ListenerAddress:
        return ListenerAddress("CONTROLLER", Endpoint(f"node{self.host}", PORT))

    @property
    def next(self) -> Offset:
        return 0 if self.driver is None else self.driver.engine.next_offset

    @property
    def is_active(self) -> bool:
        return self.driver is not None and self.driver.is_active

    def counts(self) -> dict[str, int]:
        answered = 0 if self.driver is None else self.driver.answered_count
        return {"acknowledged": self._answered_count + answered, "loads": self._load_count}

    def loaded(self) -> None:
        """A snapshot took the place of its state."""
        self._load_count += 1
        assert self.driver is not None
        self.driver.compare_now()

    # A life.

    def start(self, *, from_nothing: bool) -> None:
        """A process begins; or, if it is not `from_nothing`, only its streams to the quorum node break."""
        if self.life is not None and not from_nothing:
            self.world.network.part(self.life, self.node.address)
            return
        self._end()
        self.life_count += 1
        self.life = life = Life(self, f"controller {self.host}.{self.life_count}")
        self.world.loop.create_task(self._live(life), context=context_of(life))

    def die(self) -> None:
        """The process is gone, and comes back a while later."""
        if self.life is not None:
            self.world.fired("C-09")
            self.world.note(self.host, "controller dies")
            self._end()
            self.world.network.after_ms(self.world.down_ms(), lambda: self.start(from_nothing=True))

    def _end(self) -> None:
        if self.life is not None:
            self.life.is_over = True
            self.world.network.lose(self.life)
        if self.driver is not None:
            self._answered_count += self.driver.answered_count
        self.life, self.driver, self.fuse = None, None, 0

    def step(self) -> None:
        """A message leaves, and the process may end before. Raises Killed."""
        if self.fuse:
            self.fuse -= 1
            if self.fuse == 0:
                self.die()
                raise Killed

    async def _live(self, life: Life) -> None:
        try:
            await self._serve(life)
        except Killed:
            raise
        except BaseException as error:
            self.world.failed(life, error)

    async def _serve(self, life: Life) -> None:
        world = self.world
        channel: Any = Channel(world.network, life, self.node.address)
        driver = self.driver = WatchedDriver(
            Engine(ClusterState(supported_features())),
            channel,
            self.node.clock,
            OFF,
            node_id=self.node.id,
            activation=activate((), world.settings),
            owner=self,
        )
        forwarding = Forwarding(driver, OFF)
        placers = Client([PLACER], PlacerStub)
        heartbeats = HEARTBEATS[: len(world.trackers)]
        sessions = SessionLookup(Client(heartbeats, HeartbeatStub), count=len(heartbeats))
        apis = Apis(driver, QuorumNode(channel), placers, world.settings, cluster_id=CLUSTER_ID, sessions=sessions)
        servicer = ControllerService(apis, forwarding, AdminDoor(apis, forwarding, OFF))
        server = Server(life, self.host)
        add_to_server(servicer, server)  # type: ignore[arg-type]
        world.network.listen(self.address, server)
        registration = ControllerRegistration(
            driver,
            node_id=self.node.id,
            listeners=((self._listener, PLAINTEXT),),
            listener_name=self._listener.name,
            quorum=QuorumNode(channel),
        )
        cluster = world.cluster
        snapshots = Snapshots(
            driver, channel, self.node.clock, bytes_between=cluster.snapshot_bytes, interval_ms=cluster.snapshot_ms
        )
        async with asyncio.TaskGroup() as tasks:
            for work in (
                driver.run(),
                registration.run(),
                PeriodicTasks(driver, world.settings, cluster.intervals_ms).run(),
                snapshots.run(),
            ):
                tasks.create_task(work)
