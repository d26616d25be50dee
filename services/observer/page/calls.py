"""Calls of the page: each goes through the door of the gRPC listener, so rights, limits, errors and traces are its.

The request comes as proto3 JSON, and so do the answers go.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Never, TypeAlias

import grpc
from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.status_pb2 import Status

from kraft.service import observer_pb2
from quorate.runtime.calls.server import Server
from quorate.runtime.event_loop.daemon_threads import DaemonThreads
from services.observer.page.connection import Connection, Gone
from services.observer.page.http import HttpError

__all__ = ["SERVICE", "Give", "PageCalls", "Refused"]

SERVICE: Final = "kraft.service.Observer"
DETAILS: Final = "grpc-status-details-bin"
SPIFFE: Final = "spiffe://"
SMALL_BYTES: Final = 16 << 10
"""A message of so many bytes is JSON within some ms; a larger one is made so beside the event loop."""
DEPTH_MAX: Final = 20
"""How deep a request may be; the deepest one is 3."""

_S: Final = grpc.StatusCode
HTTP_STATUS: Final[Mapping[grpc.StatusCode, HTTPStatus]] = {
    _S.INVALID_ARGUMENT: HTTPStatus.BAD_REQUEST,
    _S.FAILED_PRECONDITION: HTTPStatus.BAD_REQUEST,
    _S.OUT_OF_RANGE: HTTPStatus.BAD_REQUEST,
    _S.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    _S.PERMISSION_DENIED: HTTPStatus.FORBIDDEN,
    _S.NOT_FOUND: HTTPStatus.NOT_FOUND,
    _S.ABORTED: HTTPStatus.CONFLICT,
    _S.ALREADY_EXISTS: HTTPStatus.CONFLICT,
    _S.RESOURCE_EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    _S.UNIMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
    _S.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    _S.DEADLINE_EXCEEDED: HTTPStatus.GATEWAY_TIMEOUT,
}
"""The status of a refused call, as google.rpc.Code has it; of the others 500."""

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
Give: TypeAlias = Callable[[Message], Awaitable[None]]


class Refused(grpc.aio.AbortError):
    """A call that ended with another status than OK; `status` is what its gRPC details say."""

    def __init__(self, code: grpc.StatusCode, message: str, trailing: Metadata) -> None:
        super().__init__(message)
        details = next((value for key, value in trailing if key == DETAILS and isinstance(value, bytes)), None)
        self.status = Status(code=code.value[0], message=message) if details is None else Status.FromString(details)
        self.http_status = HTTP_STATUS.get(code, HTTPStatus.INTERNAL_SERVER_ERROR)


class PageCalls:
    """Calls the observer's own service in this process, as its gRPC server does: with its rights, limits and errors."""

    def __init__(self, server: Server) -> None:
        self._unary, self._streams = server.methods
        self._thread = DaemonThreads(1, "page-json")
        self._methods = observer_pb2.DESCRIPTOR.services_by_name["Observer"].methods_by_name

    def request(self, name: str, body: bytes) -> Message:
        """Returns the request of a method as its JSON has it. Raises HttpError."""
        message = self.blank(name)
        try:
            json_format.Parse(body.decode("utf-8"), message, max_recursion_depth=DEPTH_MAX)
        except (json_format.ParseError, UnicodeDecodeError, RecursionError) as problem:
            why = f"the body is no {message.DESCRIPTOR.full_name} as proto3 JSON: {str(problem)[:200]}"
            raise HttpError(HTTPStatus.BAD_REQUEST, why) from None
        return message

    def blank(self, name: str) -> Message:
        """Returns an empty request of a method. Raises HttpError for a method that does not exist."""
        method = self._methods.get(name)
        if method is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"{SERVICE} has no method {name[:80]}")
        return GetMessageClass(method.input_type)()

    def is_stream(self, name: str) -> bool:
        """Returns whether a method answers in parts."""
        return f"{SERVICE}/{name}" in self._streams

    async def call(self, name: str, request: Message, connection: Connection, give: Give) -> None:
        """Calls a method; `give` gets its answer, or each part of it. Raises Refused, Gone, and what `give` does."""
        method = f"{SERVICE}/{name}"
        context: Any = CallContext(connection, give)  # it has of gRPC's context what the door and the handlers ask for
        try:
            if self.is_stream(name):
                await self._streams[method](request.SerializeToString(), context)
            else:
                await give(await self._unary[method].answer(request.SerializeToString(), context))
        except asyncio.CancelledError:
            if context.is_gone:  # so the door ends a call whose caller has gone
                raise Gone from None
            raise

    async def json(self, message: Message) -> bytes:
        """Returns a message as proto3 JSON, in one line."""
        if message.ByteSize() <= SMALL_BYTES:
            return _json(message)
        return await asyncio.get_running_loop().run_in_executor(self._thread, _json, message)


def _json(message: Message) -> bytes:
    return json_format.MessageToJson(message, indent=None, ensure_ascii=False).encode("utf-8", "replace")


class CallContext:
    """The part of gRPC's context of a call that the server and the handlers use, for one that has come by HTTP."""

    def __init__(self, connection: Connection, give: Give) -> None:
        self._connection = connection
        self._give = give
        self._trailing: Metadata = ()
        self.is_gone = False
        """Whether the caller has gone before it had its answer."""

    def peer(self) -> str:
        """Returns the other end as gRPC names it."""
        host, port = self._connection.host, self._connection.port
        return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        """Returns `transport_security_type`, and the client certificate's `x509_pem_cert`; empty without TLS.

        Further `peer_spiffe_id`, if the certificate's only URI is a SPIFFE id. gRPC's other names are left out.
        """
        tls = self._connection.tls
        if tls is None:
            return {}
        found = {"transport_security_type": [b"ssl"]}
        if tls.certificate is not None:
            found["x509_pem_cert"] = [ssl.DER_cert_to_PEM_cert(tls.certificate).encode("ascii")]
            if len(tls.uris) == 1 and tls.uris[0].startswith(SPIFFE):
                found["peer_spiffe_id"] = [tls.uris[0].encode()]
        return found

    def invocation_metadata(self) -> Metadata:
        """Returns none: a browser sends no metadata."""
        return ()

    def time_remaining(self) -> None:
        """Returns that no deadline was set: the server's own holds."""

    def code(self) -> None:
        """Returns the status that a handler has set: none does, as they raise ApiError."""

    def set_trailing_metadata(self, trailing: Metadata) -> None:
        """Notes the offset of the state, which is also sent with a refusal."""
        self._trailing = trailing

    def trailing_metadata(self) -> Metadata:
        """Returns the trailing metadata that was set; empty before."""
        return self._trailing

    async def write(self, part: Message) -> None:
        """Gives a part of an answer to its receiver. Raises grpc's InternalError if the caller has gone (`is_gone`)."""
        try:
            await self._give(part)
        except Gone:
            self.is_gone = True
            raise grpc.aio.InternalError("the caller has gone") from None

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> Never:
        """Ends the call with a status, by Refused."""
        raise Refused(code, details, trailing_metadata)
