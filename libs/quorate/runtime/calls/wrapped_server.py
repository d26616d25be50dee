"""A gRPC server whose handlers all go through one door, on addresses that are bound once; the limits of a server."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import grpc

from quorate.runtime.calls.admission import DEFAULT_LIMITS, CallLimits
from quorate.runtime.calls.call_endings import Answer
from quorate.runtime.calls.door import DEADLINE_CAP_MS, Door, Handler, UnaryMethod
from quorate.runtime.connections.transport import KEEPALIVE, Options, Transport
from quorate.runtime.event_loop.loop import CannotListen

__all__ = ["DEFAULT_SERVER_LIMITS", "ServerLimits", "WrappedServer"]

Servicer = TypeVar("Servicer")

PENDING_MAX: Final = 10_000
"""The most calls that wait for the server to look at them, in one queue of gRPC's for all methods. By default gRPC
cancels some from a thousand on; the call limits refuse with a reason, and each purpose for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server; beyond them it answers RESOURCE_EXHAUSTED before it allocates memory."""

    receive_bytes_max: int = 4 << 20
    """The largest received message in bytes. A raft listener allows 16 MiB: a batch of 8 MiB, and room."""
    send_bytes_max: int = 16 << 20
    """The largest sent message in bytes."""
    metadata_bytes_max: int = 8 << 10
    """The largest metadata of one call, in bytes."""
    streams_per_connection_max: int = 32
    """The calls and streams that one connection may have open. A client that knows gRPC has further ones wait."""
    calls: CallLimits = DEFAULT_LIMITS
    """The limits on concurrent calls."""
    deadline_cap_ms: int = DEADLINE_CAP_MS
    """The time in ms that a unary call without a deadline may take."""
    taken_within_s: Mapping[str, float] = field(default_factory=dict)
    """By method, as `pkg.Service/Method`: within which time (s) the caller of a stream has to take each part of it."""
    connection_age_max_ms: int | None = None
    """After this time in ms a client must reconnect, so that new server instances get load; None means never."""


DEFAULT_SERVER_LIMITS: Final = ServerLimits()


class WrappedServer:
    """A gRPC server that serves only what is registered with it, through `door`: register, listen, start, stop."""

    def __init__(self, door: Door, limits: ServerLimits, transport: Transport) -> None:
        self._door = door
        self._transport = transport
        self._server = grpc.aio.server(options=_options(limits))
        self.ports: list[int] = []

    def register(self, register: Callable[[Servicer, grpc.aio.Server], None], servicer: Servicer) -> None:
        """Adds a servicer's handlers, wrapped by the door; `register` is the generated function. Before `start`."""
        collected = _HandlerCollector()
        # The generated function only calls the two methods that register handlers.
        register(servicer, cast("grpc.aio.Server", collected))
        if not collected.registered:
            wrapped = tuple(_WrappedHandler(self._door, each) for each in collected.generic)
            self._server.add_generic_rpc_handlers(wrapped)
        for service, handlers in collected.registered.items():
            self.register_methods(service, handlers)

    def register_methods(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """Adds the methods of a service by name, for one that has no generated function.

        They are not registered with gRPC, whose server waits on one accept for each registered method at each call.
        """
        handler = grpc.method_handlers_generic_handler(service, self._door.wrap(service, handlers))
        self._server.add_generic_rpc_handlers((handler,))

    @property
    def unary_methods(self) -> Mapping[str, UnaryMethod]:
        """The unary methods, by `pkg.Service/Method`: of what is registered, and of what will be."""
        return self._door.unary_methods

    @property
    def stream_methods(self) -> Mapping[str, Answer]:
        """Those that answer one request with a stream, by `pkg.Service/Method`: of what is registered, and will be."""
        return self._door.stream_methods

    def listen(self, address: str, *, in_the_clear: bool = False) -> int:
        """Binds `host:port` or `unix:/path` and returns the port; for port 0 the system chooses one.

        Without a host it listens on every address. It speaks as `transport` says, or `in_the_clear`. Raises
        CannotListen.
        """
        if address.startswith(":"):
            address = f"[::]{address}"  # gRPC takes it for IPv4, too, and for IPv4 alone where there is no IPv6
        try:
            # gRPC treats port 65536 as 0, so only valid addresses reach it.
            port = self._bind(address, in_the_clear=in_the_clear) if _is_address(address) else 0
        except RuntimeError:
            port = 0
        if port == 0:
            raise CannotListen(_why_not(address))
        self.ports.append(port)
        return port

    def _bind(self, address: str, *, in_the_clear: bool) -> int:
        if in_the_clear or self._transport.is_plain:
            return self._server.add_insecure_port(address)
        return self._server.add_secure_port(address, self._transport.server_credentials())

    async def start(self) -> None:
        """Starts to answer calls."""
        await self._server.start()

    async def stop(self, grace_s: float | None) -> None:
        """Refuses new calls, and waits for the others: they are cancelled after `grace_s` (s), or at once if None."""
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


def _options(limits: ServerLimits) -> Options:
    options: list[tuple[str, str | int]] = [
        *KEEPALIVE,
        # Otherwise two processes can bind the same port, and each gets half of the connections.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.receive_bytes_max),
        ("grpc.max_send_message_length", limits.send_bytes_max),
        ("grpc.max_metadata_size", limits.metadata_bytes_max),
        ("grpc.max_concurrent_streams", limits.streams_per_connection_max),
        # 0: a stream counts until it has ended (RFC 9113, 5.1.2), as at the client. By default gRPC counts calls that
        # it has not freed yet, too, and refuses streams of a client that keeps the limit. Their memory is bounded while
        # a handler runs by the call limits, and before by PENDING_MAX; a million streams that were reset at once took
        # the same memory with 0 and 1 (tests/fuzz/storms.py).
        ("grpc.http.overload_protection", 0),
        ("grpc.server.max_pending_requests", PENDING_MAX),
        ("grpc.server.max_pending_requests_hard_limit", PENDING_MAX),
        ("grpc.server_handshake_timeout_ms", 10_000),
        # 0: each PING is answered. With a limit of 2 a flood of them held all other connections for 3 to 10 s, and half
        # a second without (tests/fuzz/storms.py). gRPC stops reading from who does not read the answers.
        ("grpc.http2.max_ping_strikes", 0),
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
        return f"cannot listen on {address}: its directory must be writable, and the path at most 107 bytes long"
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
