"""The heartbeat service's process: `python -m services.heartbeat --config heartbeat.properties`."""

from __future__ import annotations

import socket
from functools import partial

from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import add_HeartbeatServicer_to_server
from quorate.liveness import Claimant, Sessions
from quorate.nouns import uuid_text
from quorate.random_uuid import random_uuid
from quorate.runtime.access.claims import claims_of, warn_of_any
from quorate.runtime.access.entry_guard import entry_guard_of
from quorate.runtime.calls.transport_settings import transport_of
from quorate.runtime.clients.client import Client, open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.following.replica_readiness import ReplicaReadiness
from quorate.runtime.process import ServiceProcess, configured
from services.heartbeat.config import HeartbeatConfig
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.metrics import watch
from services.heartbeat.servicer import HeartbeatService


async def main(life: ServiceLife) -> None:
    """Replays the log and serves heartbeats until asked to stop. Raises ConfigError, HelpAsked, CannotListen."""
    config = configured(HeartbeatConfig)
    process = ServiceProcess(life, "heartbeat", config, transport_of(config))
    transport, telemetry, clock = process.transport, process.telemetry, SystemClock()
    connect = partial(open_channel, transport=transport)
    reader = LogReader([str(server) for server in config.quorum], connect, cluster_id=config.cluster_id)
    controllers = Client(
        [str(controller) for controller in config.controllers], ControllerStub, telemetry=telemetry, transport=transport
    )
    replica = Replica(reader, clock, telemetry)
    driver = HeartbeatDriver(replica, Sessions(config.session_timeout_ms), controllers, clock, _claimant(config))
    server = process.server(
        config,
        quiet=("kraft.service.Heartbeat",),
        guard=entry_guard_of(config, transport, replica, {}),
        claims=claims_of(config, transport),
    )
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, HeartbeatService(driver))
    server.multiplex()
    warn_of_any(is_authorized=config.authorizer is not None, rules=config.node_rules)
    watch(driver)
    await process.serve(
        server,
        driver.run,
        partial(ReplicaReadiness(replica, clock, refusal=lambda: driver.standing.refusal).run, server),
        closing=(reader.close, controllers.close),
    )


def _claimant(config: HeartbeatConfig) -> Claimant:
    """Returns this process under an id of its own, by the host's name: it may listen at each address of the host."""
    return Claimant(id=uuid_text(random_uuid()), address=f"{socket.gethostname()}:{config.listeners[0].endpoint.port}")


if __name__ == "__main__":
    raise SystemExit(run(main))
