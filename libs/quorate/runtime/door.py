"""The door of a server: every call passes here once, for its deadline, its errors and its span.

Handlers are wrapped when they are registered. An interceptor of gRPC's would do the same for each call, and cost it
40 µs.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Any, Final, Never, TypeAlias

import grpc
from google.protobuf.message import Message

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.runtime.logs import logger
from quorate.runtime.statuses import status_code, trailing_metadata
from quorate.runtime.telemetry import Span, SpanKind, Telemetry

__all__ = ["DEADLINE_CAP_MS", "Door"]

log = logger(__name__)

DEADLINE_CAP_MS: Final = 60_000
"""What a unary call without a deadline gets: none may stay for ever because its caller forgot to say."""

TRACEPARENT: Final = "traceparent"

SERVER_FAULTS: Final = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""The statuses for which a server's span is an error; the others are the caller's fault (semantic conventions)."""

# Handlers of every message type pass here; gRPC's own types of context and handler are generic in them.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Unary: TypeAlias = Callable[[Any, Context], Awaitable[Message | None]]
Stream: TypeAlias = Callable[[Any, Context], AsyncIterator[Message]]


class Door:
    """Turns what handlers raise into statuses, caps calls without a deadline, and traces.

    A handler may raise ApiError (answered with its details), AssertionError or Corrupt (also told to `on_fatal`:
    the process must not go on), or anything else by mistake (INTERNAL with a correlation id; the traceback stands
    in the log under it). `quiet` are full method or service names that continue a trace but never begin one.
    """

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        quiet: Collection[str] = (),
        on_fatal: Callable[[BaseException], None] | None = None,
        deadline_cap_ms: int = DEADLINE_CAP_MS,
    ) -> None:
        assert deadline_cap_ms > 0, deadline_cap_ms
        self._telemetry = telemetry
        self._quiet = frozenset(quiet)
        self._on_fatal = on_fatal
        self._deadline_cap_s = deadline_cap_ms / 1000

    def wrap(self, service: str, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """The handlers of a service by method name, each behind the door."""
        return {method: self._wrap(f"{service}/{method}", handler) for method, handler in handlers.items()}

    def _wrap(self, method: str, handler: Handler) -> Handler:
        behavior = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        streams = handler.response_streaming or handler.request_streaming
        begins_trace = not streams and self._quiet.isdisjoint((method, method.rpartition("/")[0]))
        if inspect.isasyncgenfunction(behavior):
            made: object = self._stream(method, behavior)
        elif inspect.iscoroutinefunction(behavior):
            made = self._unary(method, behavior, begins_trace=begins_trace, capped=not streams)
        else:
            # What the servicer does not implement is the generated method, which answers UNIMPLEMENTED.
            assert getattr(behavior, "__module__", "").endswith("_pb2_grpc"), f"{method}: a handler must be async"
            return handler
        kinds = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        rpc_method_handler: Callable[..., Handler] = kinds[handler.request_streaming, handler.response_streaming]
        return rpc_method_handler(made, handler.request_deserializer, handler.response_serializer)

    def _unary(self, method: str, behavior: Unary, *, begins_trace: bool, capped: bool) -> Unary:
        cap_s = self._deadline_cap_s

        async def answer(request: object, context: Context) -> Message | None:
            with self._span(method, context, begins_trace) as span:
                try:
                    if capped and context.time_remaining() is None:
                        response = await _capped(behavior(request, context), cap_s)
                    else:
                        response = await behavior(request, context)
                except asyncio.CancelledError:
                    _note_status(span, grpc.StatusCode.CANCELLED.name)
                    raise
                except Exception as error:  # the one place that answers for every error (style.md, rule 15)
                    refusal = self._refusal(method, context, span, error)
                else:
                    _note_status(span, _name(context))
                    return response
            return await _abort(context, refusal)

        return answer

    def _stream(self, method: str, behavior: Stream) -> Stream:
        async def answer(request: object, context: Context) -> AsyncIterator[Message]:
            with self._span(method, context, False) as span:
                try:
                    async with aclosing(behavior(request, context)) as responses:  # type: ignore[type-var]
                        async for response in responses:
                            yield response
                except Exception as error:  # as above
                    refusal = self._refusal(method, context, span, error)
                else:
                    _note_status(span, _name(context))
                    return
            await _abort(context, refusal)

        return answer

    def _span(self, method: str, context: Context, begins_trace: bool) -> Span:
        if not self._telemetry.enabled:
            return self._telemetry.span(method)
        parent = next((value for key, value in context.invocation_metadata() or () if key == TRACEPARENT), None)
        return self._telemetry.span(
            method,
            kind=SpanKind.SERVER,
            parent=parent.encode("latin-1") if isinstance(parent, str) else parent,
            attributes={"rpc.system.name": "grpc", "rpc.method": method, **_peer(context.peer())},
            root=begins_trace,
        )

    def _refusal(self, method: str, context: Context, span: Span, error: Exception) -> ApiError | grpc.aio.AbortError:
        """What the call ends with, noted on its span."""
        if isinstance(error, grpc.aio.AbortError):  # the handler chose a status itself, as gRPC's own servicers do
            _note_status(span, _name(context))
            return error
        refusal = error if isinstance(error, ApiError) else self._accident(method, error)
        _note_status(span, status_code(refusal.code).name)
        span.set("kraft.error", refusal.code.name)
        if refusal is error:
            log.debug("refused", method=method, code=refusal.code.name, reason=refusal.message)
        return refusal

    def _accident(self, method: str, error: Exception) -> ApiError:
        """What a caller may know of an error that is not its own: an id to look up in the log."""
        correlation_id = secrets.token_hex(8)
        log.error("unexpected error", exception=error, method=method, correlation_id=correlation_id)
        if isinstance(error, AssertionError | Corrupt) and self._on_fatal is not None:
            self._on_fatal(error)
        message = f"{method} failed by a fault of the server; its log has it under correlation_id {correlation_id}"
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message, {"correlation_id": correlation_id})


async def _abort(context: Context, refusal: ApiError | grpc.aio.AbortError) -> Never:
    if isinstance(refusal, grpc.aio.AbortError):
        raise refusal
    # What the handler has said in trailing metadata (which leader, which offset) holds for a refusal, too.
    kept = tuple(context.trailing_metadata() or ())
    await context.abort(status_code(refusal.code), refusal.message, kept + trailing_metadata(refusal))


async def _capped(behavior: Awaitable[Message | None], cap_s: float) -> Message | None:
    try:
        async with asyncio.timeout(cap_s) as cap:
            return await behavior
    except TimeoutError:
        if not cap.expired():
            raise
    message = f"the call set no deadline and took longer than the {cap_s:g} s that such a call may take"
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, message, {"deadline_cap_ms": f"{cap_s * 1000:.0f}"})


def _name(context: Context) -> str:
    """The status of a call by name, as its handler leaves it."""
    code: object = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    return next((each.name for each in grpc.StatusCode if each.value[0] == code), "OK")


def _note_status(span: Span, status: str) -> None:
    span.set("rpc.response.status_code", status)
    if status in SERVER_FAULTS:
        span.fail(status)


def _peer(peer: str) -> dict[str, str | int]:
    """`ipv4:127.0.0.1:9093` as attributes; nothing for a unix socket, which has no address of the other end."""
    family, _, address = peer.partition(":")
    host, _, port = address.rpartition(":")
    if family not in ("ipv4", "ipv6") or not port.isdigit():
        return {}
    return {
        "network.peer.address": host.replace("%5B", "").replace("%5D", "").strip("[]"),
        "network.peer.port": int(port),
    }
