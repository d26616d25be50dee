"""The controller process: `python -m services.controller --config controller.properties`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc

from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.runtime import cluster_metrics
from quorate.runtime.call_login import LogIn
from quorate.runtime.claims import node_ids_of, warn_of_any
from quorate.runtime.client import Client, open_channel
from quorate.runtime.clock import SystemClock
from quorate.runtime.config import describe, load
from quorate.runtime.logs import logger, start_logs
from quorate.runtime.loop import ServiceLife, run
from quorate.runtime.metrics import Export, exported_metrics
from quorate.runtime.server import Server, ServerLimits
from quorate.runtime.telemetry import Telemetry
from quorate.runtime.transport import Transport
from quorate.runtime.transport_settings import tell, transport_of
from quorate.storage.bootstrap import read_bootstrap
from quorate.storage.failpoints import set_from_environment
from quorate.storage.meta_properties import check_owner
from services.controller.admin import AdminDoor
from services.controller.apis import Apis
from services.controller.broker_configs import NAMES, static_configs
from services.controller.call_logins import CallLogins
from services.controller.config import ControllerConfig
from services.controller.driver import ControllerDriver
from services.controller.forwarding import Forwarding
from services.controller.metrics import watch, watch_isr_updates
from services.controller.performance import PerformanceLog
from services.controller.periodic_tasks import PeriodicTasks
from services.controller.quorum_node import QuorumNode
from services.controller.registration import ControllerRegistration
from services.controller.servicer import ControllerService, add_to_server
from services.controller.sessions import SessionLookup
from services.controller.settings import authorizer_of, intervals_of, performance_log_of, settings_of
from services.controller.snapshots import Snapshots

log = logger(__name__)

LOGGED_REFUSALS: Final = (
    "kraft.service.Controller/BrokerRegistration",
    "kraft.service.Controller/ControllerRegistration",
)
"""Whose refusals an operator is to see: the settings of a broker or a controller are wrong."""


async def main(life: ServiceLife) -> None:
    """Builds the controller from its configuration and runs it until it is asked to stop."""
    start_logs(os.environ)
    set_from_environment(os.environ)
    config = load(ControllerConfig, sys.argv[1:], os.environ, others=NAMES)
    meta = check_owner(config.metadata_log_dir, node_id=config.node_id)
    bootstrap = read_bootstrap(config.metadata_log_dir)
    transport = transport_of(config)
    name = f"controller-{config.node_id}"
    telemetry = Telemetry.start(service="controller", instance=name, environ=os.environ, transport=transport)
    settings = settings_of(config, static_configs(sys.argv[1:], os.environ))
    channel = open_channel(str(config.quorum), transport)
    engine = Engine(ClusterState(supported_features()))
    performance = performance_log_of(config)
    driver = ControllerDriver(
        engine,
        channel,
        SystemClock(),
        telemetry,
        node_id=config.node_id,
        activation=activate(bootstrap, settings),
        performance=performance,
    )
    forwarding = Forwarding(driver, telemetry, transport, config.listener_name)
    asked = _Asked.of(config, telemetry, transport)
    apis = Apis(
        driver,
        QuorumNode(channel),
        asked.placers,
        settings,
        cluster_id=meta.cluster_id,
        sessions=asked.sessions,
        authorizer=authorizer_of(config),
        nodes=node_ids_of(config.node_rules),
        transport=transport,
    )
    servicer = ControllerService(apis, forwarding, AdminDoor(apis, forwarding, telemetry))
    log_in = CallLogins(apis.logins, config.sasl_mechanisms)
    server, ports = _server(life, config, telemetry, transport, servicer, log_in)
    work = _work(config, settings, driver, channel, performance, ports, transport)
    log.info("starting", cluster_id=meta.cluster_id, **describe(config))
    tell(transport, config)
    warn_of_any(is_authorized=config.authorizer is not None, rules=config.node_rules)
    _watch(driver, engine, settings)
    watch_isr_updates(apis.isr_updates)
    export = Export.of(os.environ)
    await server.start()
    async with asyncio.TaskGroup() as tasks, exported_metrics(tasks, export, service="controller", instance=name):
        loops = [tasks.create_task(each) for each in (*work, _be_ready(driver, server), transport.watch())]
        await life.stopping()
        await server.stop()
        for loop in loops:
            loop.cancel()
    await forwarding.close()
    await asked.close()
    await channel.close()
    await telemetry.close()


def _server(
    life: ServiceLife,
    config: ControllerConfig,
    telemetry: Telemetry,
    transport: Transport,
    servicer: ControllerService,
    log_in: LogIn,
) -> tuple[Server, list[int]]:
    """Returns the server, which listens, and its ports. Raises CannotListen."""
    limits = ServerLimits(calls=config.call_limits)
    server = Server(
        telemetry=telemetry,
        limits=limits,
        logged_refusals=LOGGED_REFUSALS,
        on_fatal=life.fail,
        transport=transport,
        log_in=log_in,
    )
    server.add("kraft.service.Controller", add_to_server, servicer)
    server.multiplex()
    life.at_end(server.abort)
    return server, server.listen_as(config)


def _watch(driver: ControllerDriver, engine: Engine, settings: ControllerSettings) -> None:
    """Binds the metrics of the controller and of the cluster to this process's driver and state."""
    watch(driver)
    cluster_metrics.watch(
        cluster_metrics.Applied(
            state=lambda: engine.state,
            applied=lambda: engine.next_offset,
            committed=lambda: engine.committed,
            applied_at_ms=lambda: driver.applied_at_ms,
            now_ms=SystemClock().wall_ms,
            is_active=lambda: driver.is_active,
            settings=settings,
        )
    )


def _work(
    config: ControllerConfig,
    settings: ControllerSettings,
    driver: ControllerDriver,
    channel: grpc.aio.Channel,
    performance: PerformanceLog,
    ports: Sequence[int],
    transport: Transport,
) -> tuple[Coroutine[Any, Any, None], ...]:
    """Returns the background tasks: driver, registration, performance log, periodic tasks, and snapshots."""
    snapshots = Snapshots(
        driver,
        channel,
        SystemClock(),
        bytes_between=config.bytes_between_snapshots,
        interval_ms=config.snapshot_interval_ms,
    )
    registration = ControllerRegistration(
        driver,
        node_id=config.node_id,
        listeners=config.registered(ports),
        listener_name=config.listener_name,
        quorum=QuorumNode(channel),
        transport=transport,
    )
    return (
        driver.run(),
        registration.run(),
        performance.run(lambda: driver.is_active),
        PeriodicTasks(driver, settings, intervals_of(config)).run(),
        snapshots.run(),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The clients of the placers and of the heartbeat service."""

    placers: Client[PlacerStub]
    sessions: SessionLookup

    @staticmethod
    def of(config: ControllerConfig, telemetry: Telemetry, transport: Transport) -> _Asked:
        heartbeat = [str(config.heartbeat)] if config.heartbeat else []
        return _Asked(
            Client([str(placer) for placer in config.placers], PlacerStub, telemetry=telemetry, transport=transport),
            SessionLookup(Client(heartbeat, HeartbeatStub, transport=transport) if heartbeat else None),
        )

    async def close(self) -> None:
        await self.placers.close()
        await self.sessions.close()


async def _be_ready(driver: ControllerDriver, server: Server) -> None:
    """Reports ready while the active controller is known: any call can then be answered here or forwarded."""
    while True:
        changed = driver.changed
        await server.set_ready(driver.leader_id >= 0)
        await changed.wait()


if __name__ == "__main__":
    raise SystemExit(run(main))
