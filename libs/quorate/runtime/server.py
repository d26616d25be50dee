"""A gRPC server as every service needs it: wrapped handlers, health checks, reflection, limits, graceful shutdown."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from quorate.runtime.admission import DEFAULT_LIMITS, CallLimits
from quorate.runtime.door import DEADLINE_CAP_MS, Door, Handler
from quorate.runtime.guard import Guard
from quorate.runtime.health import HealthServicer
from quorate.runtime.logs import logger
from quorate.runtime.loop import CannotListen
from quorate.runtime.symbols import Symbols
from quorate.runtime.telemetry import OFF, Telemetry
from quorate.runtime.transport import PLAIN, Transport

__all__ = ["LIVENESS", "READINESS", "Server", "ServerLimits"]

log = logger(__name__)

LIVENESS: Final = "liveness"
"""The health service name for liveness: the event loop runs. It never depends on the quorum."""
READINESS: Final = "readiness"
"""The health service name for readiness: calls should be sent here. `""` and every API have the same status."""

HEALTH: Final = "grpc.health.v1.Health"
REFLECTION_V1ALPHA: Final = reflection.SERVICE_NAME
REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"
OTLP: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
QUIET: Final = frozenset({HEALTH, REFLECTION_V1ALPHA, REFLECTION_V1, OTLP})
"""Services whose calls begin no trace: they are of no interest, and the export of spans would trace itself."""

OPEN_TO_ALL: Final = frozenset({HEALTH, REFLECTION_V1ALPHA, REFLECTION_V1})
"""Services that tell nothing of the cluster but whether it is well and what may be asked: probes have no rights."""

# The import puts the types of error details into the pool that reflection serves, so that grpcurl can print them.
assert error_details_pb2.DESCRIPTOR.pool.FindMessageTypeByName("google.rpc.ErrorInfo") is not None

Servicer = TypeVar("Servicer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server; beyond them it answers RESOURCE_EXHAUSTED before it allocates memory."""

    receive_bytes_max: int = 4 << 20
    """The largest received message in bytes. A raft listener allows 16 MiB: a batch of 8 MiB, and room."""
    send_bytes_max: int = 16 << 20
    """The largest sent message in bytes."""
    metadata_bytes_max: int = 8 << 10
    """The largest metadata of one call, in bytes."""
    streams_per_connection_max: int = 128
    calls: CallLimits = DEFAULT_LIMITS
    """The limits on concurrent calls."""
    deadline_cap_ms: int = DEADLINE_CAP_MS
    """The time in ms that a unary call without a deadline may take."""
    connection_age_max_ms: int | None = None
    """After this time in ms a client must reconnect, so that new server instances get load; None means never."""


class Server:
    """A gRPC server: add services, listen, start and stop it, in this order.

    `quiet` are services that begin no trace; `on_fatal` gets the errors after which the process must end. By default it
    speaks in the clear, and everybody may call it; `guard` lets in whom it knows.
    """

    def __init__(
        self,
        *,
        telemetry: Telemetry = OFF,
        limits: ServerLimits = ServerLimits(),
        quiet: Collection[str] = (),
        on_fatal: Callable[[BaseException], None] | None = None,
        transport: Transport = PLAIN,
        guard: Guard | None = None,
    ) -> None:
        self._transport = transport
        self._door = Door(
            telemetry,
            quiet=QUIET.union(quiet),
            on_fatal=on_fatal,
            deadline_cap_ms=limits.deadline_cap_ms,
            calls=limits.calls,
            guard=guard,
            open_to_all=OPEN_TO_ALL,
        )
        self._server = grpc.aio.server(options=_options(limits))
        self._health = HealthServicer()
        self._services: list[str] = []
        self.ports: list[int] = []

    def add(self, name: str, register: Callable[[Servicer, grpc.aio.Server], None], servicer: Servicer) -> None:
        """Adds a service by its full proto name; `register` is the generated function for it."""
        assert name not in self._services, name
        self._services.append(name)
        self._register(register, servicer)

    def _register(self, register: Callable[[Servicer, grpc.aio.Server], None], servicer: Servicer) -> None:
        collected = _HandlerCollector()
        # The generated function only calls the two methods that register handlers.
        register(servicer, cast("grpc.aio.Server", collected))
        self._server.add_generic_rpc_handlers(tuple(_WrappedHandler(self._door, each) for each in collected.generic))
        for service, handlers in collected.registered.items():
            self._server.add_registered_method_handlers(service, self._door.wrap(service, handlers))

    def listen(self, address: str) -> int:
        """Binds `host:port` or `unix:/path` and returns the port; for port 0 the system chooses one.

        Raises CannotListen.
        """
        try:
            # gRPC treats port 65536 as 0, so only valid addresses reach it.
            port = self._bind(address) if _is_address(address) else 0
        except RuntimeError:
            port = 0
        if port == 0:
            raise CannotListen(_why_not(address))
        self.ports.append(port)
        return port

    def _bind(self, address: str) -> int:
        if self._transport.is_plain:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._transport.server_credentials())

    async def start(self) -> None:
        """Starts to answer calls. Liveness is SERVING at once, readiness only after `set_ready`."""
        self._register(health_pb2_grpc.add_HealthServicer_to_server, self._health)
        self._add_reflection()
        await self.set_ready(False)
        await self._server.start()
        await self._health.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        log.info("listening", ports=self.ports, services=",".join(self._services))

    def _add_reflection(self) -> None:
        """Adds reflection under both of its names: grpcio has v1alpha only, and v1 has the same messages."""
        servicer = reflection.aio.ReflectionServicer((*self._services, HEALTH, REFLECTION_V1ALPHA), pool=Symbols())
        self._register(reflection_pb2_grpc.add_ServerReflectionServicer_to_server, servicer)
        same = grpc.stream_stream_rpc_method_handler(
            servicer.ServerReflectionInfo,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        handlers = self._door.wrap(REFLECTION_V1, {"ServerReflectionInfo": same})
        self._server.add_registered_method_handlers(REFLECTION_V1, handlers)

    async def set_ready(self, is_ready: bool) -> None:
        """Sets the readiness status: whether calls should be sent to this server."""
        status = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", READINESS, *self._services):
            await self._health.set(name, status)

    async def abort(self) -> None:
        """Refuses new calls and ends the others at once. Does nothing after `stop`."""
        await self._server.stop(None)

    async def stop(self, *, drain_s: float = 0.0, grace_s: float = 5.0) -> None:
        """Shuts down gracefully: reports NOT_SERVING for `drain_s`, then refuses new calls and lets others end.

        Calls that still run after `grace_s` seconds are cancelled.
        """
        await self._health.enter_graceful_shutdown()
        await asyncio.sleep(drain_s)
        await self._server.stop(grace_s)


class _HandlerCollector:
    """A stand-in for a gRPC server that collects the handlers which a generated function registers."""

    def __init__(self) -> None:
        self.generic: list[grpc.GenericRpcHandler] = []
        self.registered: dict[str, Mapping[str, Handler]] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self.generic += handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        self.registered[service] = handlers


class _WrappedHandler(grpc.GenericRpcHandler):
    """A generic handler with each of its methods wrapped, for older generated code that registers no methods."""

    def __init__(self, door: Door, inner: grpc.GenericRpcHandler) -> None:
        self._door = door
        self._inner = inner
        self._wrapped: dict[str, Handler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        path = str(handler_call_details.method)
        if path not in self._wrapped:
            handler = self._inner.service(handler_call_details)
            if handler is None:
                return None
            service, _, method = path.lstrip("/").rpartition("/")
            self._wrapped[path] = self._door.wrap(service, {method: handler})[method]
        return self._wrapped[path]


def _options(limits: ServerLimits) -> list[tuple[str, int]]:
    options = [
        # Otherwise two processes can bind the same port, and each gets half of the connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.receive_bytes_max),
        ("grpc.max_send_message_length", limits.send_bytes_max),
        ("grpc.max_metadata_size", limits.metadata_bytes_max),
        ("grpc.max_concurrent_streams", limits.streams_per_connection_max),
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Our own clients ping every 10 s (client.py), also without a call in progress.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 2),
    ]
    if limits.connection_age_max_ms is not None:
        options += [
            ("grpc.max_connection_age_ms", limits.connection_age_max_ms),
            ("grpc.max_connection_age_grace_ms", 60_000),
        ]
    return options


def _is_address(address: str) -> bool:
    _, _, port = address.rpartition(":")
    return address.startswith("unix:") or (re.fullmatch(r"[0-9]{1,5}", port) is not None and int(port) <= 65535)


def _why_not(address: str) -> str:
    """Returns why `address` cannot be bound. gRPC does not say, so it is bound once more by a plain socket."""
    if not _is_address(address):
        return f"cannot listen on {address}: an address is host:port with a port from 0 to 65535, or unix:/path"
    if address.startswith("unix:"):
        return f"cannot listen on {address}: the path takes a directory that can be written to, and at most 107 bytes"
    host, _, port = address.rpartition(":")
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host.strip("[]") or None, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
            probe.listen(1)
    except OSError as error:
        number = error.errno or 0
        # The resolver's own errors have negative numbers, which strerror does not know.
        reason = os.strerror(number) if number > 0 else str(error.strerror)
        if number == errno.EADDRINUSE:
            reason += "; an address has one listener: stop the process that has it, or choose another port"
        return f"cannot listen on {address}: {reason}"
    return f"cannot listen on {address}: gRPC refuses it, though the system does not"
