"""The shell of a service's process: settings, telemetry, server and tasks, in one order from the start to the stop.

async def main(life: ServiceLife) -> None:
    config = configured(Config)
    process = ServiceProcess(life, "placer", config, transport_of(config))
    server = process.server(config)
    ...add services...
    await process.serve(server, partial(server.set_ready, True))
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from quorate.nouns import NodeId
from quorate.runtime.calls.call_login import LogIn
from quorate.runtime.calls.door import Claims, Guard, MaySend
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.calls.transport_settings import TransportSettings, tell
from quorate.runtime.connections.transport import Transport
from quorate.runtime.event_loop.loop import ServiceLife
from quorate.runtime.logging.logs import logger, start_logs
from quorate.runtime.settings.config import describe, load
from quorate.runtime.telemetry.metrics import Export, exported_metrics
from quorate.runtime.telemetry.tracing import Telemetry

__all__ = ["Close", "ServiceProcess", "Work", "configured"]

log = logger(__name__)

LAST_SPANS_MAX_S: Final = 3.0
"""The last spans have the time of `shutdown.graceful.timeout.ms` again, but no more than this (s)."""

C = TypeVar("C")
Close: TypeAlias = Callable[[], Awaitable[object]]
Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class _Settings(Protocol):
    """A service's configuration."""

    @property
    def node_id(self) -> NodeId: ...
    @property
    def graceful_s(self) -> float: ...


def configured(cls: type[C], *, others: Collection[str] = ()) -> C:
    """Starts the logs, and returns the configuration that this process's arguments, file and environment give.

    `others` are keys of other services, which the file may contain. Raises ConfigError and HelpAsked.
    """
    start_logs(os.environ)
    return load(cls, sys.argv[1:], os.environ, others=others)


class ServiceProcess:
    """The parts of every process of a service: traces, server, tasks, from the start to the stop.

    To make one starts the export of traces, and tells `life` the time of a stop. Traces and metrics name the process by
    `service` and node id: "placer-1".
    """

    def __init__(self, life: ServiceLife, service: str, settings: _Settings, transport: Transport) -> None:
        self._life = life
        self._settings = settings
        self._service, self._instance = service, f"{service}-{settings.node_id}"
        self.transport = transport
        life.give(settings.graceful_s)
        self.telemetry = Telemetry.start(
            service=service, instance=self._instance, environ=os.environ, transport=transport
        )

    def server(
        self,
        settings: TransportSettings,
        *,
        limits: ServerLimits | None = None,
        quiet: Collection[str] = (),
        logged_refusals: Collection[str] = (),
        guard: Guard | None = None,
        claims: Claims | None = None,
        log_in: LogIn | None = None,
        may_send: MaySend | None = None,
    ) -> Server:
        """Returns the process's server, which has bound the listeners of `settings`, and ends with the process.

        The caller adds services, and gives it to `serve`. The options are those of `Server`, the limits by default
        those of `settings`. Raises CannotListen.
        """
        server = Server(
            telemetry=self.telemetry,
            limits=limits or ServerLimits(calls=settings.call_limits),
            quiet=quiet,
            logged_refusals=logged_refusals,
            on_fatal=self._life.fail,
            transport=self.transport,
            guard=guard,
            claims=claims,
            log_in=log_in,
            graceful_s=settings.graceful_s,
            may_send=may_send,
        )
        self._life.at_end(server.abort)
        server.listen_as(settings)
        tell(self.transport, settings)
        return server

    @asynccontextmanager
    async def running(self, *closing: Close, **about: object) -> AsyncIterator[asyncio.TaskGroup]:
        """Logs the settings, after the fields `about`, and gives the group of the process's tasks.

        In the block metrics are exported, and certificates are taken again when their files change. At its end it waits
        for the tasks; then `closing` are called in their order, and the telemetry is closed. After an error neither is
        done. Raises ConfigError and CannotListen for the export of metrics, and what a task raises.
        """
        log.info("starting", **about, **describe(self._settings))
        export = Export.of(os.environ)
        async with (
            asyncio.TaskGroup() as tasks,
            exported_metrics(tasks, export, service=self._service, instance=self._instance),
        ):
            watching = tasks.create_task(self.transport.watch())
            yield tasks
            watching.cancel()
        for close in closing:
            await close()
        await self.telemetry.close(min(self._settings.graceful_s, LAST_SPANS_MAX_S))

    async def serve(
        self,
        server: Server,
        *work: Work,
        stop: Close | None = None,
        closing: Sequence[Close] = (),
        about: Mapping[str, object] | None = None,
    ) -> None:
        """Starts the server and `work` beside it; returns once the process was asked to stop, and all has ended.

        At the stop, calls under way end first, by `server.stop` or what `stop` does instead. The work goes on for them,
        and is cancelled then; `closing` are called, and the telemetry is closed last: it exports the spans of the last
        calls, too. Logs and raises what `running` does, and the error of `ServiceLife.fail`.
        """
        async with self.running(*closing, **(about or {})) as tasks:
            await server.start()
            running = [tasks.create_task(each()) for each in work]
            await self._life.stopping()
            await (stop or server.stop)()
            for task in running:
                task.cancel()
