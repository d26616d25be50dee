"""The controller process: `python -m services.controller --config controller.properties`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import grpc

from kraft.service.heartbeat_pb2_grpc import HeartbeatStub
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.engine import Engine
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.runtime.access.claims import node_ids_of, warn_of_any
from quorate.runtime.access.entry_guard import authorizer_of
from quorate.runtime.access.process_rights import process_rights_of
from quorate.runtime.calls.server import Server
from quorate.runtime.calls.transport_settings import transport_of
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.process import ServiceProcess, Work, configured
from quorate.runtime.telemetry import cluster_metrics
from quorate.runtime.telemetry.tracing import Telemetry
from quorate.storage.bootstrap import read_bootstrap
from quorate.storage.failpoints import any_is_set, set_from_environment
from quorate.storage.meta_properties import check_owner
from services.controller.admin import AdminDoor
from services.controller.apis import Apis
from services.controller.call_logins import CallLogins
from services.controller.config import ControllerConfig
from services.controller.driver import ControllerDriver
from services.controller.failing import FailingDriver
from services.controller.forwarding import Forwarding
from services.controller.metrics import watch, watch_isr_updates
from services.controller.performance import PerformanceLog
from services.controller.periodic_tasks import PeriodicTasks
from services.controller.quorum_node import QuorumNode
from services.controller.registration import ControllerRegistration
from services.controller.servicer import ControllerService, add_to_server
from services.controller.sessions import SessionLookup
from services.controller.settings import NAMES, intervals_of, performance_log_of, settings_of, static_configs
from services.controller.snapshots import Snapshots

LOGGED_REFUSALS: Final = (
    "kraft.service.Controller/BrokerRegistration",
    "kraft.service.Controller/ControllerRegistration",
)
"""Whose refusals an operator is to see: the settings of a broker or a controller are wrong."""


async def main(life: ServiceLife) -> None:
    """Runs the controller until asked to stop. Raises ConfigError, HelpAsked, CannotListen, OSError, Corrupt, Fault."""
    config = configured(ControllerConfig, others=NAMES)
    set_from_environment(os.environ)
    meta = check_owner(config.metadata_log_dir, node_id=config.node_id)
    bootstrap = read_bootstrap(config.metadata_log_dir, METADATA_VERSION)
    process = ServiceProcess(life, "controller", config, transport_of(config))
    transport, telemetry = process.transport, process.telemetry
    settings = settings_of(config, static_configs(sys.argv[1:], os.environ))
    channel = open_channel(str(config.quorum), transport)
    engine = Engine(ClusterState(supported_features()))
    performance = performance_log_of(config)
    driver = (FailingDriver if any_is_set() else ControllerDriver)(
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
        QuorumNode(channel, [each.name for each in config.listeners]),
        asked.placers,
        settings,
        cluster_id=meta.cluster_id,
        sessions=asked.sessions,
        authorizer=authorizer_of(config),
        nodes=node_ids_of(config.node_rules),
        processes=process_rights_of(config.process_rules),
        transport=transport,
    )
    log_in = CallLogins(apis.logins, config.sasl_mechanisms)
    servicer = ControllerService(apis, forwarding, AdminDoor(apis, forwarding, telemetry))
    server = process.server(config, logged_refusals=LOGGED_REFUSALS, log_in=log_in, may_send=servicer.may_send)
    server.add("kraft.service.Controller", add_to_server, servicer)
    server.multiplex()
    warn_of_any(is_authorized=config.authorizer is not None, rules=config.node_rules)
    _watch(driver, engine, settings)
    watch_isr_updates(apis.isr_updates)
    await process.serve(
        server,
        *_work(config, settings, driver, channel, performance, server.ports, transport),
        partial(_be_ready, driver, server),
        closing=(forwarding.close, asked.close, channel.close),
        about={"cluster_id": meta.cluster_id},
    )


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
) -> tuple[Work, ...]:
    """Returns the background work: driver, registration, performance log, periodic tasks, and snapshots."""
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
        driver.run,
        registration.run,
        partial(performance.run, lambda: driver.is_active),
        PeriodicTasks(driver, settings, intervals_of(config)).run,
        snapshots.run,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The clients of the placers and of the heartbeat service."""

    placers: Client[PlacerStub]
    sessions: SessionLookup

    @staticmethod
    def of(config: ControllerConfig, telemetry: Telemetry, transport: Transport) -> _Asked:
        heartbeats = [str(each) for each in config.heartbeats]
        return _Asked(
            Client([str(placer) for placer in config.placers], PlacerStub, telemetry=telemetry, transport=transport),
            SessionLookup(
                Client(heartbeats, HeartbeatStub, transport=transport) if heartbeats else None, count=len(heartbeats)
            ),
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
