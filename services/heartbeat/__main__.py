"""The heartbeat service's process: `python -m services.heartbeat --config heartbeat.properties`."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial

from kraft.service.controller_pb2_grpc import ControllerStub
from kraft.service.heartbeat_pb2_grpc import add_HeartbeatServicer_to_server
from quorate.liveness import Sessions
from quorate.runtime.claims import claims_of, warn_of_any
from quorate.runtime.client import Client, open_channel
from quorate.runtime.clock import SystemClock
from quorate.runtime.config import describe, load
from quorate.runtime.entry_guard import entry_guard_of
from quorate.runtime.log_reader import LogReader
from quorate.runtime.logs import logger, start_logs
from quorate.runtime.loop import ServiceLife, run
from quorate.runtime.metrics import Export, exported_metrics
from quorate.runtime.replica import Replica
from quorate.runtime.server import Server, ServerLimits
from quorate.runtime.telemetry import Telemetry
from quorate.runtime.transport_settings import tell, transport_of
from services.heartbeat.config import HeartbeatConfig
from services.heartbeat.driver import HeartbeatDriver
from services.heartbeat.metrics import watch
from services.heartbeat.servicer import HeartbeatService

log = logger(__name__)


async def main(life: ServiceLife) -> None:
    """Replays the log and serves heartbeats until asked to stop."""
    start_logs(os.environ)
    config = load(HeartbeatConfig, sys.argv[1:], os.environ)
    clock = SystemClock()
    transport = transport_of(config)
    name = f"heartbeat-{config.node_id}"
    telemetry = Telemetry.start(service="heartbeat", instance=name, environ=os.environ, transport=transport)
    connect = partial(open_channel, transport=transport)
    reader = LogReader([str(server) for server in config.quorum], connect, cluster_id=config.cluster_id)
    controllers = Client(
        [str(controller) for controller in config.controllers], ControllerStub, telemetry=telemetry, transport=transport
    )
    replica = Replica(reader, clock, telemetry)
    driver = HeartbeatDriver(replica, Sessions(config.session_timeout_ms), controllers, clock)
    server = Server(
        telemetry=telemetry,
        limits=ServerLimits(calls=config.call_limits),
        on_fatal=life.fail,
        quiet=("kraft.service.Heartbeat",),
        transport=transport,
        guard=entry_guard_of(config, transport, replica, {}, is_open_without_entries=config.is_open_without_entries),
        claims=claims_of(config, transport),
    )
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, HeartbeatService(driver))
    server.multiplex()
    life.at_end(server.abort)
    server.listen_as(config)
    log.info("starting", **describe(config))
    tell(transport, config)
    warn_of_any(is_authorized=config.authorizer is not None, rules=config.node_rules)
    watch(driver)
    export = Export.of(os.environ)
    await server.start()
    async with (
        asyncio.TaskGroup() as tasks,
        exported_metrics(tasks, export, service="heartbeat", instance=name),
    ):
        loops = [tasks.create_task(each) for each in (driver.run(), _be_ready(driver, server), transport.watch())]
        await life.stopping()
        await server.stop()
        for loop in loops:
            loop.cancel()
    await reader.close()
    await controllers.close()
    await telemetry.close()


async def _be_ready(driver: HeartbeatDriver, server: Server) -> None:
    """Reports ready once the log is applied up to the high watermark."""
    async for applied in driver.replica.changes():
        if applied and applied >= driver.replica.high_watermark:
            await server.set_ready(True)
            return


if __name__ == "__main__":
    raise SystemExit(run(main))
