"""The placer's process: `python -m services.placer --config placer.properties`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from kraft.service.placer_pb2_grpc import add_PlacerServicer_to_server
from quorate.runtime.config import describe, load
from quorate.runtime.guard import guard_of
from quorate.runtime.logs import logger, start_logs
from quorate.runtime.loop import ServiceLife, run
from quorate.runtime.metrics import Export, exported_metrics
from quorate.runtime.server import Server, ServerLimits
from quorate.runtime.telemetry import Telemetry
from quorate.runtime.transport_settings import tell, transport_of
from services.placer.config import PlacerConfig
from services.placer.servicer import PlacerService

log = logger(__name__)

STREAMS_END_S: Final = 1.0
"""How long (s) a placer that stops goes on to answer: a controller keeps its stream open, and a request takes 1 ms."""


async def main(life: ServiceLife) -> None:
    """Serves placement requests until asked to stop."""
    start_logs(os.environ)
    config = load(PlacerConfig, sys.argv[1:], os.environ)
    transport = transport_of(config)
    name = f"placer-{config.node_id}"
    telemetry = Telemetry.start(service="placer", instance=name, environ=os.environ, transport=transport)
    limits = ServerLimits(calls=config.call_limits)
    server = Server(
        telemetry=telemetry, limits=limits, on_fatal=life.fail, transport=transport, guard=guard_of(config, transport)
    )
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, PlacerService())
    life.at_end(server.abort)
    server.listen_as(config)
    log.info("starting", **describe(config))
    tell(transport, config)
    export = Export.of(os.environ)
    await server.start()
    async with (
        asyncio.TaskGroup() as tasks,
        exported_metrics(tasks, export, service="placer", instance=name),
    ):
        watching = tasks.create_task(transport.watch())
        await server.set_ready(True)
        await life.stopping()
        await server.stop(grace_s=STREAMS_END_S)
        watching.cancel()
    await telemetry.close()


if __name__ == "__main__":
    raise SystemExit(run(main))
