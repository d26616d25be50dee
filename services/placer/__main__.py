"""`python -m services.placer --config placer.properties`"""

from __future__ import annotations

import os
import sys

from kraft.service.placer_pb2_grpc import add_PlacerServicer_to_server
from quorate.runtime.config import load
from quorate.runtime.logs import start_logs
from quorate.runtime.loop import Life, run
from quorate.runtime.server import Server
from quorate.runtime.telemetry import Telemetry
from services.placer.config import Config
from services.placer.servicer import Servicer


async def main(life: Life) -> None:
    """Serve until asked to stop."""
    start_logs(os.environ)
    config = load(Config, sys.argv[1:], os.environ)
    telemetry = Telemetry.start(service="placer", instance=f"placer-{config.node_id}", environ=os.environ)
    server = Server(telemetry=telemetry, on_fatal=life.fail)
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, Servicer())
    server.listen(str(config.listeners.endpoint))
    await server.start()
    await server.set_ready(True)
    await life.stopping()
    await server.stop()
    await telemetry.close()


if __name__ == "__main__":
    raise SystemExit(run(main))
