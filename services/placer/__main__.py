"""The placer's process: `python -m services.placer --config placer.properties`."""

from __future__ import annotations

import asyncio
import os
import sys

from kraft.service.placer_pb2_grpc import add_PlacerServicer_to_server
from quorate.runtime.config import load
from quorate.runtime.logs import start_logs
from quorate.runtime.loop import ServiceLife, run
from quorate.runtime.metrics import Export, exported_metrics
from quorate.runtime.server import Server, ServerLimits
from quorate.runtime.telemetry import Telemetry
from services.placer.config import PlacerConfig
from services.placer.servicer import PlacerService


async def main(life: ServiceLife) -> None:
    """Serves placement requests until asked to stop."""
    start_logs(os.environ)
    config = load(PlacerConfig, sys.argv[1:], os.environ)
    telemetry = Telemetry.start(service="placer", instance=f"placer-{config.node_id}", environ=os.environ)
    server = Server(telemetry=telemetry, limits=ServerLimits(calls=config.call_limits), on_fatal=life.fail)
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, PlacerService())
    life.at_end(server.abort)
    server.listen(str(config.listeners.endpoint))
    export = Export.of(os.environ)
    await server.start()
    async with (
        asyncio.TaskGroup() as tasks,
        exported_metrics(tasks, export, service="placer", instance=f"placer-{config.node_id}"),
    ):
        await server.set_ready(True)
        await life.stopping()
        await server.stop()
    await telemetry.close()


if __name__ == "__main__":
    raise SystemExit(run(main))
