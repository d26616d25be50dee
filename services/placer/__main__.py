"""The placer's process: `python -m services.placer --config placer.properties`."""

from __future__ import annotations

from functools import partial
from typing import Final

from kraft.service.placer_pb2_grpc import add_PlacerServicer_to_server
from quorate.runtime.access.guard import guard_of
from quorate.runtime.calls.transport_settings import transport_of
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.process import ServiceProcess, configured
from services.placer.config import PlacerConfig
from services.placer.servicer import PlacerService

STREAMS_END_S: Final = 1.0
"""How long (s) a placer that stops answers in streams: a controller keeps its own open, and a request takes 1 ms."""


async def main(life: ServiceLife) -> None:
    """Serves placement requests until asked to stop. Raises ConfigError, HelpAsked, CannotListen."""
    config = configured(PlacerConfig)
    process = ServiceProcess(life, "placer", config, transport_of(config))
    server = process.server(config, guard=guard_of(config, process.transport))
    server.add("kraft.service.Placer", add_PlacerServicer_to_server, PlacerService())
    await process.serve(server, partial(server.set_ready, True), stop=partial(server.stop, streams_s=STREAMS_END_S))


if __name__ == "__main__":
    raise SystemExit(run(main))
