"""A controller service in this process: its engine, driver, link and doors are the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc

from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.authorizer import StandardAuthorizer
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.telemetry.tracing import OFF
from services.controller.admin import AdminDoor
from services.controller.apis import Apis
from services.controller.driver import ControllerDriver
from services.controller.forwarding import Forwarding
from services.controller.quorum_node import QuorumNode
from services.controller.servicer import ControllerService, add_to_server
from tests.controller.clusters import CLUSTER_ID
from tests.services.scripted import WITHIN_S, listening

NOWHERE = "127.0.0.1:1"


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """`channel` is to its quorum node, `stub` is a client of it, at `address`, on `channel_to_it`."""

    driver: ControllerDriver
    channel: grpc.aio.Channel
    channel_to_it: grpc.aio.Channel
    stub: ControllerStub
    address: str

    async def until_active(self) -> None:
        """It may write."""
        await self.until(lambda: self.driver.is_active)

    async def until_led_by(self, node_id: NodeId) -> None:
        """It knows who is active."""
        await self.until(lambda: self.driver.leader_id == node_id)

    async def until(self, holds: Callable[[], bool]) -> None:
        """The events that its driver has heard of make this so."""
        async with asyncio.timeout(WITHIN_S):
            while not holds():
                await self.driver.changed.wait()


@asynccontextmanager
async def controller(
    quorum: str,
    *,
    node_id: NodeId = 1,
    engine: Engine | None = None,
    settings: ControllerSettings | None = None,
    listener: str | None = None,
    authorizer: StandardAuthorizer | None = None,
) -> AsyncIterator[InProcess]:
    """Beside the quorum node at this address; `engine` is what it knows, `listener` names those of our controllers."""
    settings = settings or ControllerSettings()
    async with open_channel(quorum) as channel:
        driver = ControllerDriver(
            engine or Engine(ClusterState()),
            channel,
            SystemClock(),
            OFF,
            node_id=node_id,
            activation=activate((), settings),
        )
        forwarding, placers = Forwarding(driver, OFF, listener=listener), Client([NOWHERE], PlacerStub)
        apis = Apis(driver, QuorumNode(channel), placers, settings, cluster_id=CLUSTER_ID, authorizer=authorizer)
        servicer = ControllerService(apis, forwarding, AdminDoor(apis, forwarding, OFF))
        server = Server(may_send=servicer.may_send)
        server.add("kraft.service.Controller", add_to_server, servicer)
        running = asyncio.ensure_future(driver.run())
        async with listening(server) as address, open_channel(address) as client:
            stub = ControllerStub(client)
            yield InProcess(driver=driver, channel=channel, channel_to_it=client, stub=stub, address=address)
        running.cancel()
        await asyncio.wait([running])
        await forwarding.close()
        await placers.close()
