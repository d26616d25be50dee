"""A gRPC server as every service needs it: wrapped handlers, health checks, reflection, limits, graceful shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, TypeVar

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from kraft.service.multiplexed_pb2_grpc import add_MultiplexedServicer_to_server
from quorate.runtime.calls.call_endings import Answer
from quorate.runtime.calls.call_login import LogIn
from quorate.runtime.calls.door import Claims, Door, Guard, MaySend, UnaryMethod
from quorate.runtime.calls.health import HEALTH, HealthServicer
from quorate.runtime.calls.multiplexed_calls import SERVICE as MULTIPLEXED
from quorate.runtime.calls.multiplexed_calls import MultiplexedCalls
from quorate.runtime.calls.symbols import Symbols, is_described
from quorate.runtime.calls.transport_settings import PLAINTEXT, TransportSettings
from quorate.runtime.calls.wrapped_server import DEFAULT_SERVER_LIMITS, ServerLimits, WrappedServer
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.setting_types import ListenerAddress
from quorate.runtime.settings.stop_settings import GRACEFUL_MS, STOP_TIMEOUT
from quorate.runtime.telemetry.tracing import OFF, Telemetry

__all__ = ["Server", "ServerLimits", "warn_of_cut"]

log = logger(__name__)

REFLECTION_V1ALPHA: Final = reflection.SERVICE_NAME
REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"
OTLP: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
QUIET: Final = frozenset({HEALTH, REFLECTION_V1ALPHA, REFLECTION_V1, OTLP})
"""Services whose calls begin no trace: they are of no interest, and the export of spans would trace itself."""

CUT_S: Final = 10.0
"""Beyond the time of a stop: gRPC would end the calls by itself then, and they are cut, and counted, before."""

OPEN_TO_ALL: Final = frozenset({HEALTH, REFLECTION_V1ALPHA, REFLECTION_V1, MULTIPLEXED})
"""Services that tell nothing of the cluster but whether it is well and what may be asked: probes have no rights. A
stream of calls is open, too, because each call in it is judged by itself."""

# The import puts the types of error details into the pool that reflection serves, so that grpcurl can print them.
assert error_details_pb2.DESCRIPTOR.pool.FindMessageTypeByName("google.rpc.ErrorInfo") is not None

Servicer = TypeVar("Servicer")


class Server:
    """A gRPC server: add services, listen, start and stop it, in this order.

    `quiet` are services that begin no trace, `logged_refusals` full names of methods whose refusals are warnings in the
    log; `on_fatal` gets the errors after which the process must end. By default it speaks in the clear, and everybody
    may call it; `log_in` reads a caller's credentials in a call's metadata, `guard` lets in whom it knows, and `claims`
    has each call under its own node id; `may_send` is asked before a large request is decoded. Health is served beside
    the services, and in the clear on a port of its own after `listen_for_probes`. `graceful_s` (s) is how long a stop
    waits for calls under way.
    """

    def __init__(
        self,
        *,
        telemetry: Telemetry = OFF,
        limits: ServerLimits = DEFAULT_SERVER_LIMITS,
        quiet: Collection[str] = (),
        logged_refusals: Collection[str] = (),
        on_fatal: Callable[[BaseException], None] | None = None,
        transport: Transport = PLAIN,
        guard: Guard | None = None,
        claims: Claims | None = None,
        log_in: LogIn | None = None,
        graceful_s: float = GRACEFUL_MS / 1000,
        may_send: MaySend | None = None,
    ) -> None:
        self._limits = limits
        self._graceful_s = graceful_s
        self._make_door = partial(
            Door,
            telemetry,
            quiet=QUIET.union(quiet),
            logged_refusals=logged_refusals,
            on_fatal=on_fatal,
            deadline_cap_ms=limits.deadline_cap_ms,
            taken_within_s=limits.taken_within_s,
            calls=limits.calls,
            open_to_all=OPEN_TO_ALL,
        )
        self._door = self._make_door(
            guard=guard, claims=claims, log_in=log_in, may_send=may_send, refuse=transport.check_not_revoked
        )
        self._server = WrappedServer(self._door, limits, transport)
        self._multiplexed = MultiplexedCalls(
            self._server.unary_methods,
            metadata_bytes_max=limits.metadata_bytes_max,
            send_bytes_max=limits.send_bytes_max,
        )
        self._for_probes: WrappedServer | None = None
        self._health = HealthServicer()
        self._services: list[str] = []

    @property
    def ports(self) -> list[int]:
        """The ports of the services' listeners, in the order in which they were bound; not those of probes."""
        return self._server.ports

    @property
    def methods(self) -> tuple[Mapping[str, UnaryMethod], Mapping[str, Answer]]:
        """The wrapped methods by `pkg.Service/Method`: the unary ones, and those that answer one request with a stream.

        For another listener of this process, at which a call goes through the same door.
        """
        return self._server.unary_methods, self._server.stream_methods

    @property
    def probe_port(self) -> int:
        """The port that `listen_for_probes` has bound; it must have been called with a listener."""
        assert self._for_probes is not None
        return self._for_probes.ports[0]

    def add(self, name: str, register: Callable[[Servicer, grpc.aio.Server], None], servicer: Servicer) -> None:
        """Adds a service by its full proto name, once, before `start`; `register` is the generated function for it."""
        assert name not in self._services, name
        assert is_described(name), f"{name}: reflection would not describe it, as its own _pb2 module is not imported"
        self._services.append(name)
        self._server.register(register, servicer)

    def multiplex(self) -> None:
        """Serves Multiplexed beside the other services: programs that make many unary calls send them in one stream."""
        self.add(MULTIPLEXED, add_MultiplexedServicer_to_server, self._multiplexed)

    def listen(self, address: str) -> int:
        """Binds `host:port` or `unix:/path` and returns the port; for port 0 the system chooses one.

        Without a host it listens on every address. Raises CannotListen.
        """
        return self._server.listen(address)

    def listen_as(self, settings: TransportSettings) -> list[int]:
        """Binds `listeners`, each in its security protocol, and `health.listeners`; returns the ports of `listeners`.

        Raises CannotListen.
        """
        ports = [
            self._server.listen(str(each.endpoint), in_the_clear=settings.security_protocol(each.name) == PLAINTEXT)
            for each in settings.listeners
        ]
        self.listen_for_probes(settings.health_listeners)
        return ports

    def listen_for_probes(self, listener: ListenerAddress | None) -> None:
        """Binds the setting `health.listeners`; does nothing without the setting. Raises CannotListen.

        Health is served there in the clear, and nothing else: no other service, and no reflection.
        """
        assert self._for_probes is None, self._for_probes
        if listener is None:
            return
        # Its calls are counted apart: a caller that fills one port with them does not fill the other.
        self._for_probes = WrappedServer(self._make_door(), self._limits, PLAIN)
        self._for_probes.register(health_pb2_grpc.add_HealthServicer_to_server, self._health)
        self._for_probes.listen(str(listener.endpoint))

    async def start(self) -> None:
        """Starts to answer calls. Startup and liveness are SERVING at once, readiness only after `set_ready`."""
        self._server.register(health_pb2_grpc.add_HealthServicer_to_server, self._health)
        self._add_reflection()
        await self._health.begin(self._services)
        await self._server.start()
        if self._for_probes is not None:
            await self._for_probes.start()
            log.info("answers probes in the clear", ports=self._for_probes.ports)
        log.info("listening", ports=self.ports, services=",".join(self._services))

    def _add_reflection(self) -> None:
        """Adds reflection under both of its names: grpcio has v1alpha only, and v1 has the same messages."""
        servicer = reflection.aio.ReflectionServicer((*self._services, HEALTH, REFLECTION_V1ALPHA), pool=Symbols())
        self._server.register(reflection_pb2_grpc.add_ServerReflectionServicer_to_server, servicer)
        same = grpc.stream_stream_rpc_method_handler(
            servicer.ServerReflectionInfo,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        self._server.register_methods(REFLECTION_V1, {"ServerReflectionInfo": same})

    async def set_ready(self, is_ready: bool) -> None:
        """Sets the readiness status: whether calls should be sent to this server. Without effect once it stops."""
        await self._health.set_ready(is_ready)

    async def tell_health(self, name: str, holds: bool) -> None:
        """Sets the status that a health check of one more name has. Without effect once the server stops."""
        await self._health.tell(name, holds)

    async def abort(self) -> None:
        """Refuses new calls, and cancels the others and the answers to probes at once. Does nothing after `stop`."""
        self._multiplexed.stop()
        await self._server.stop(None)
        await self._stop_probes()

    async def stop(self, *, drain_s: float = 0.0, grace_s: float | None = None, streams_s: float | None = None) -> None:
        """Shuts down gracefully: reports not ready for `drain_s` (s), then refuses new calls and lets others end.

        Returns once all calls are over. Calls that still run after `grace_s` (s), by default the `graceful_s` of the
        server, are cancelled; after `streams_s` (s) if only streams run, which their callers keep open. Cancelled unary
        calls are a warning in the log. Probes are answered until then: the process is alive.
        """
        await self._health.drain()
        await asyncio.sleep(drain_s)
        self._multiplexed.stop()
        grace_s = self._graceful_s if grace_s is None else grace_s
        async with asyncio.TaskGroup() as tasks:
            ending = tasks.create_task(self._server.stop(grace_s + CUT_S))
            await self._until_cut(ending, grace_s, grace_s if streams_s is None else min(streams_s, grace_s))
            await self._server.stop(None)
        await self._stop_probes()

    async def _until_cut(self, ending: asyncio.Task[None], grace_s: float, streams_s: float) -> None:
        """Waits for the end of all calls, but not beyond the given times."""
        await asyncio.wait([ending], timeout=streams_s)
        if self._door.under_way:
            await asyncio.wait([ending], timeout=grace_s - streams_s)
        if not ending.done() and (cut := self._door.under_way):
            warn_of_cut(cut, waited_s=grace_s)

    async def _stop_probes(self) -> None:
        if self._for_probes is not None:
            await self._for_probes.stop(None)


def warn_of_cut(calls: Mapping[str, int], *, waited_s: float) -> None:
    """Logs a warning that calls (a count by method) are cancelled: a stop has waited `waited_s` (s) for their end."""
    log.warning(
        "calls are cut: they have not ended within the time of a stop",
        waited_s=round(waited_s, 3),
        calls=sum(calls.values()),
        of=",".join(f"{name.rpartition('/')[2]}:{count}" for name, count in sorted(calls.items())),
        setting=STOP_TIMEOUT,
    )
