"""`python -m services.controller --config controller.properties`"""

from __future__ import annotations

import asyncio
import os
import sys

from kraft.service.controller_pb2_grpc import add_ControllerServicer_to_server
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.activation import activate
from quorate.controller.engine import Engine
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.runtime.client import Client, open_channel
from quorate.runtime.clock import SystemClock
from quorate.runtime.config import describe, load
from quorate.runtime.logs import logger, start_logs
from quorate.runtime.loop import Life, run
from quorate.runtime.server import Server
from quorate.runtime.telemetry import Telemetry
from quorate.storage.bootstrap import read_bootstrap
from quorate.storage.meta_properties import check_owner
from services.controller.admin import AdminDoor
from services.controller.apis import Apis
from services.controller.broker_configs import NAMES, static_configs
from services.controller.chores import Chores
from services.controller.config import Config
from services.controller.driver import Driver
from services.controller.forwarding import Forwarding
from services.controller.quorum_node import QuorumNode
from services.controller.registration import Registration
from services.controller.servicer import Servicer
from services.controller.settings import authorizer_of, intervals_of, performance_log_of, settings_of
from services.controller.snapshots import Snapshots

log = logger(__name__)


async def main(life: Life) -> None:
    """Replay, and decide when it is our turn, until asked to stop."""
    start_logs(os.environ)
    config = load(Config, sys.argv[1:], os.environ, others=NAMES)
    meta = check_owner(config.metadata_log_dir, node_id=config.node_id)
    bootstrap = read_bootstrap(config.metadata_log_dir)
    telemetry = Telemetry.start(service="controller", instance=f"controller-{config.node_id}", environ=os.environ)
    settings = settings_of(config, static_configs(sys.argv[1:], os.environ))
    channel = open_channel(str(config.quorum))
    engine = Engine(ClusterState(supported_features()))
    performance = performance_log_of(config)
    driver = Driver(
        engine,
        channel,
        SystemClock(),
        telemetry,
        node_id=config.node_id,
        activation=activate(bootstrap, settings),
        performance=performance,
    )
    forwarding = Forwarding(driver, telemetry)
    placers = Client([str(placer) for placer in config.placers], PlacerStub, telemetry=telemetry)
    apis = Apis(
        driver, QuorumNode(channel), placers, settings, cluster_id=meta.cluster_id, authorizer=authorizer_of(config)
    )
    servicer = Servicer(apis, forwarding, AdminDoor(apis, forwarding, telemetry))  # type: ignore[abstract]  # most methods come from tables
    server = Server(telemetry=telemetry, on_fatal=life.fail)
    server.add("kraft.service.Controller", add_ControllerServicer_to_server, servicer)
    server.listen(str(config.listeners.endpoint))
    registration = Registration(driver, node_id=config.node_id, listener=config.listeners)
    log.info("starting", cluster_id=meta.cluster_id, **describe(config))
    await server.start()
    async with asyncio.TaskGroup() as tasks:
        loops = [
            tasks.create_task(work)
            for work in (
                driver.run(),
                registration.run(),
                performance.run(lambda: driver.is_active),
                Chores(driver, settings, intervals_of(config)).run(),
                _be_ready(driver, server),
                Snapshots(
                    driver,
                    channel,
                    SystemClock(),
                    bytes_between=config.bytes_between_snapshots,
                    interval_ms=config.snapshot_interval_ms,
                ).run(),
            )
        ]
        await life.stopping()
        await server.stop()
        for loop in loops:
            loop.cancel()
    await forwarding.close()
    await placers.close()
    await channel.close()
    await telemetry.close()


async def _be_ready(driver: Driver, server: Server) -> None:
    """Ready while it is known who is active: any controller can then answer, itself or by passing the call on."""
    while True:
        changed = driver.changed
        await server.set_ready(driver.leader_id >= 0)
        await changed.wait()


if __name__ == "__main__":
    raise SystemExit(run(main))
