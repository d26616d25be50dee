"""A gRPC server as every service has it: one door, health, reflection, limits, and a stop that loses no call."""

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
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from quorate.runtime.door import DEADLINE_CAP_MS, Door, Handler
from quorate.runtime.logs import logger
from quorate.runtime.loop import CannotListen
from quorate.runtime.telemetry import OFF, Telemetry

__all__ = ["LIVENESS", "READINESS", "Limits", "Server"]

log = logger(__name__)

LIVENESS: Final = "liveness"
"""The health service that says the event loop turns. It never depends on the quorum."""
READINESS: Final = "readiness"
"""The health service that says whether calls should be sent here. `""` and every API follow it."""

HEALTH: Final = "grpc.health.v1.Health"
REFLECTION_V1ALPHA: Final = reflection.SERVICE_NAME
REFLECTION_V1: Final = "grpc.reflection.v1.ServerReflection"
OTLP: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
QUIET: Final = frozenset({HEALTH, REFLECTION_V1ALPHA, REFLECTION_V1, OTLP})
"""Services whose calls begin no trace: nobody asks for them, and the export of spans would trace itself."""

# Reflection serves what is in the pool; imported, the types of error details are, and grpcurl can print them.
assert error_details_pb2.DESCRIPTOR.pool.FindMessageTypeByName("google.rpc.ErrorInfo") is not None

Servicer = TypeVar("Servicer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server takes before it refuses with RESOURCE_EXHAUSTED, without allocating first."""

    receive_bytes_max: int = 4 << 20
    """One message, received. A raft listener takes 16 MiB: a batch of 8 MiB, and room."""
    send_bytes_max: int = 16 << 20
    """One message, sent."""
    metadata_bytes_max: int = 8 << 10
    """All metadata of one call."""
    streams_per_connection_max: int = 128
    rpcs_max: int = 500
    """Calls under way at once, streams included."""
    deadline_cap_ms: int = DEADLINE_CAP_MS
    """How long a unary call may take that set no deadline."""
    connection_age_max_ms: int | None = None
    """After this time clients are asked to connect anew, so that load spreads over new copies; None for never."""


class Server:
    """A server to be filled with services, bound, started and stopped, in this order.

    `quiet` and `on_fatal` are the Door's.
    """

    def __init__(
        self,
        *,
        telemetry: Telemetry = OFF,
        limits: Limits = Limits(),
        quiet: Collection[str] = (),
        on_fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._door = Door(
            telemetry, quiet=QUIET.union(quiet), on_fatal=on_fatal, deadline_cap_ms=limits.deadline_cap_ms
        )
        self._server = grpc.aio.server(options=_options(limits), maximum_concurrent_rpcs=limits.rpcs_max)
        self._health = health.aio.HealthServicer()
        self._services: list[str] = []
        self.ports: list[int] = []

    def add(self, name: str, register: Callable[[Servicer, grpc.aio.Server], None], servicer: Servicer) -> None:
        """Serves `servicer` as the service `name` (full, as in the proto); `register` is the generated function."""
        assert name not in self._services, name
        self._services.append(name)
        collected = _Collected()
        # The generated function only calls the two methods that register handlers.
        register(servicer, cast("grpc.aio.Server", collected))
        self._server.add_generic_rpc_handlers(tuple(_Behind(self._door, each) for each in collected.generic))
        for service, handlers in collected.registered.items():
            self._server.add_registered_method_handlers(service, self._door.wrap(service, handlers))

    def listen(self, address: str) -> int:
        """Binds `host:port` or `unix:/path` and returns the port: the one chosen by the system if it was 0.

        Raises CannotListen.
        """
        try:
            # gRPC takes port 65536 for 0, so the system is only asked for what is an address.
            port = self._server.add_insecure_port(address) if _is_address(address) else 0
        except RuntimeError:
            port = 0
        if port == 0:
            raise CannotListen(_why_not(address))
        self.ports.append(port)
        return port

    async def start(self) -> None:
        """Answers from now on; alive, but not ready until `set_ready`."""
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        _add_reflection(self._server, (*self._services, HEALTH, REFLECTION_V1ALPHA))
        await self.set_ready(False)
        await self._server.start()
        await self._health.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        log.info("listening", ports=self.ports, services=",".join(self._services))

    async def set_ready(self, is_ready: bool) -> None:
        """Tells health checks whether calls should be sent here."""
        status = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", READINESS, *self._services):
            await self._health.set(name, status)

    async def stop(self, *, drain_s: float = 0.0, grace_s: float = 5.0) -> None:
        """Says NOT_SERVING for `drain_s` while still answering, then takes no new call and gives the rest `grace_s`."""
        await self._health.enter_graceful_shutdown()
        await asyncio.sleep(drain_s)
        await self._server.stop(grace_s)


class _Collected:
    """Stands in for a server, to get at the handlers that a generated function registers."""

    def __init__(self) -> None:
        self.generic: list[grpc.GenericRpcHandler] = []
        self.registered: dict[str, Mapping[str, Handler]] = {}

    def add_generic_rpc_handlers(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self.generic += handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        self.registered[service] = handlers


class _Behind(grpc.GenericRpcHandler):
    """A generic handler behind the door: for code that an older generator made, which registers no methods."""

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


def _options(limits: Limits) -> list[tuple[str, int]]:
    options = [
        # Without this two processes can bind one port, and each gets half of the connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.receive_bytes_max),
        ("grpc.max_send_message_length", limits.send_bytes_max),
        ("grpc.max_metadata_size", limits.metadata_bytes_max),
        ("grpc.max_concurrent_streams", limits.streams_per_connection_max),
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Our own clients ping every 10 s (client.py), also when no call is under way.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 2),
    ]
    if limits.connection_age_max_ms is not None:
        options += [
            ("grpc.max_connection_age_ms", limits.connection_age_max_ms),
            ("grpc.max_connection_age_grace_ms", 60_000),
        ]
    return options


def _add_reflection(server: grpc.aio.Server, names: tuple[str, ...]) -> None:
    """Reflection under both of its names. grpcio has v1alpha only; v1 is the same bytes under another name."""
    servicer = reflection.aio.ReflectionServicer(names)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    same = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handler = grpc.method_handlers_generic_handler(REFLECTION_V1, {"ServerReflectionInfo": same})
    server.add_generic_rpc_handlers((handler,))


def _is_address(address: str) -> bool:
    _, _, port = address.rpartition(":")
    return address.startswith("unix:") or (re.fullmatch(r"[0-9]{1,5}", port) is not None and int(port) <= 65535)


def _why_not(address: str) -> str:
    """Why `address` cannot be bound: gRPC does not say, so the question is put to the system once more."""
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
