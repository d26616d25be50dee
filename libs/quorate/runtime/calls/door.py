"""Wraps every RPC handler of a server: call limits, deadline, errors as gRPC statuses, and a trace span.

Handlers are wrapped when they are registered. A gRPC interceptor would do the same for each call, at a cost of 40 µs.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Any, Final, NamedTuple, Never, Protocol, TypeAlias

import grpc
from google.protobuf.message import Message

from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.runtime.calls.admission import DEFAULT_LIMITS, Admission, CallLimits, MethodLedger
from quorate.runtime.calls.call_bounds import capped, give
from quorate.runtime.calls.call_endings import (
    GONE,
    Answer,
    Context,
    Refused,
    abort,
    cancelled,
    leaving_nothing,
    name_of_status,
    note_status,
)
from quorate.runtime.calls.call_login import LogIn, set_login
from quorate.runtime.connections.peers import peer_attributes
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import RepeatFilter
from quorate.runtime.requests.decoded_cost import cost_limit
from quorate.runtime.requests.decoding import Encode, decoder, encoder
from quorate.runtime.requests.receiving import (
    SMALL,
    Check,
    Enter,
    Recheck,
    Take,
    entering,
    entering_stream,
    taking,
    taking_each,
)
from quorate.runtime.requests.statuses import is_retriable, shortened, status_code, trailing_metadata
from quorate.runtime.requests.stream_room import StreamRoom
from quorate.runtime.telemetry.tracing import Span, SpanKind, Telemetry

__all__ = ["DEADLINE_CAP_MS", "Claims", "Door", "Guard", "MaySend", "UnaryMethod"]

log = logger(__name__)

DEADLINE_CAP_MS: Final = 60_000
"""The time in ms that a unary call without a deadline may take, so that no call stays for ever."""

TRACEPARENT: Final = "traceparent"

# Handlers of every message type are wrapped here; gRPC's own type of handler is generic in them.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Stream: TypeAlias = Callable[[Any, Context], AsyncIterator[Message]]
MaySend: TypeAlias = Callable[[str, Any], None]
"""Of a method by its full name, and the context of a call."""


class UnaryMethod(NamedTuple):
    """A wrapped method, for a caller other than gRPC's server: `answer` takes a request's bytes and a context.

    `encode` makes bytes of what it returns.
    """

    answer: Any
    encode: Encode


class Guard(Protocol):
    """Decides who may call (`guard`, `entry_guard`)."""

    def check(self, method: str, context: Any) -> Recheck | None:
        """Checks that the caller may call the method (`pkg.Service/Method`). Raises ApiError if not.

        The result asks the same again, for a later request of a stream; None if the answer cannot change.
        """


class Claims(Protocol):
    """The check of which node a request says that its sender is (`claims`)."""

    def check_of(self, method: str) -> Callable[[Any, Any], None] | None:
        """Returns a function that checks a request with its context, or raises ApiError; None if it needs none."""


class Door:
    """The wrapper of RPC handlers: limits calls, refuses malformed requests, sets deadlines, maps errors, traces.

    A handler may raise ApiError, which is answered with its details. AssertionError and Corrupt are also passed to
    `on_fatal`: the process must not continue. These two and any other exception are answered as INTERNAL with a
    correlation id, under which the log has the traceback. `quiet` are full names of methods or services that continue a
    trace but never begin one. `logged_refusals` are full names of methods whose refusals are warnings in the log, each
    once an hour. `log_in` says whose credentials a call has in its metadata, and `guard` who may call; neither is asked
    for the services in `open_to_all`. `guard` and `claims` check each request, also of a stream, before its handler;
    the answer to a request that passed them is sent. Where handlers ask for rights themselves, `may_send` refuses the
    callers of large requests that have no right to the method, before these are decoded. `refuse` raises ApiError for
    the context of a caller that is not to be served any more; it is asked at each call, and for each message of a
    stream in either direction. A stream of a method in `taken_within_s` ends if its caller takes one part later than
    that (s).
    """

    def __init__(
        self,
        telemetry: Telemetry,
        *,
        quiet: Collection[str] = (),
        logged_refusals: Collection[str] = (),
        on_fatal: Callable[[BaseException], None] | None = None,
        deadline_cap_ms: int = DEADLINE_CAP_MS,
        calls: CallLimits = DEFAULT_LIMITS,
        guard: Guard | None = None,
        claims: Claims | None = None,
        log_in: LogIn | None = None,
        open_to_all: Collection[str] = (),
        may_send: MaySend | None = None,
        refuse: Check | None = None,
        taken_within_s: Mapping[str, float] | None = None,
    ) -> None:
        assert deadline_cap_ms > 0, deadline_cap_ms
        self._admission = Admission(calls)
        self._guard = guard
        self._claims = claims
        self._log_in = log_in
        self._may_send = may_send
        self._refuse = refuse or _refuse_nobody
        self._open_to_all = frozenset(open_to_all)
        self._telemetry = telemetry
        self._quiet = frozenset(quiet)
        self._logged_refusals = frozenset(logged_refusals)
        self._refusals = RepeatFilter()
        self._on_fatal = on_fatal
        self._deadline_cap_s = deadline_cap_ms / 1000
        self._taken_within_s = taken_within_s or {}
        self.unary_methods: dict[str, UnaryMethod] = {}
        """The unary methods that are wrapped so far, by `pkg.Service/Method`."""
        self.stream_methods: dict[str, Any] = {}  # those that answer one request in parts, by their context's `write`

    @property
    def under_way(self) -> Mapping[str, int]:
        """How many calls of each method are under way, streams left out."""
        return self._admission.under_way

    def wrap(self, service: str, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """Returns the handlers of a service, wrapped, by method name; notes them in `unary_methods`, `stream_methods`.

        Each must be async; a method that the servicer does not implement is refused with UNSUPPORTED_VERSION.
        """
        return {method: self._wrap(f"{service}/{method}", handler) for method, handler in handlers.items()}

    def _wrap(self, method: str, handler: Handler) -> Handler:
        behavior: Any = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        streams = handler.response_streaming or handler.request_streaming
        begins_trace = not streams and self._quiet.isdisjoint((method, method.rpartition("/")[0]))
        if not (inspect.isasyncgenfunction(behavior) or inspect.iscoroutinefunction(behavior)):
            # A method that the servicer does not implement is the generated one, which is not async and only raises.
            assert getattr(behavior, "__module__", "").endswith("_pb2_grpc"), f"{method}: a handler must be async"
            behavior = _not_served(method)
        ledger = self._admission.ledger(method)
        is_open = method.rpartition("/")[0] in self._open_to_all
        guard, log_in = (None, None) if is_open else (self._guard, self._log_in)
        claim = None if self._claims is None else self._claims.check_of(method)
        assert handler.request_deserializer is not None, method
        assert handler.response_serializer is not None, method
        decode, encode = decoder(method, handler.request_deserializer), encoder(handler.response_serializer)
        take = taking_each(decode, claim, self._refuse) if handler.request_streaming else taking(decode, claim)
        message: Any = handler.request_deserializer.__self__  # type: ignore[attr-defined]  # whose method it is
        limit = cost_limit(method, message.DESCRIPTOR)
        may_send = None if self._may_send is None else partial(self._may_send, method)
        enter = entering(limit, ledger.room, may_send)
        if handler.request_streaming:
            enter = entering_stream(limit, ledger.stream_room, self._deadline_cap_s)
        if inspect.isasyncgenfunction(behavior):
            made: object = self._stream(method, behavior, take, enter, ledger, guard, log_in)
        else:
            made = self._unary(
                method, behavior, take, enter, ledger, guard, log_in, begins_trace=begins_trace, is_stream=streams
            )
        kinds = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        rpc_method_handler: Callable[..., Handler] = kinds[handler.request_streaming, handler.response_streaming]
        if not streams:
            self.unary_methods[method] = UnaryMethod(made, encode)
        elif not handler.request_streaming:
            self.stream_methods[method] = made
        # gRPC gives the bytes: it would decode them before the caller's right is checked.
        return rpc_method_handler(made, None, encode)

    def _unary(
        self,
        method: str,
        behavior: Answer,
        take: Take,
        enter: Enter,
        ledger: MethodLedger,
        guard: Guard | None,
        log_in: LogIn | None,
        *,
        begins_trace: bool,
        is_stream: bool,
    ) -> Answer:
        cap_s, late = self._deadline_cap_s, self._admission.late.turn

        async def admitted(request: object, context: Context) -> Message | None:
            try:
                ip = ledger.enter(context.peer(), is_stream=is_stream)
            except ApiError:
                await late(request)
                raise
            try:
                self._refuse(context)
                if log_in is not None:
                    set_login(await log_in(context))
                recheck = None if guard is None else guard.check(method, context)
                served = _served(behavior, take, enter(request, context, ip), request, context, recheck)
                if is_stream or context.time_remaining() is not None:
                    return await served
                return await capped(served, cap_s)
            finally:
                ledger.leave(ip, is_stream=is_stream)

        async def answer(request: object, context: Context) -> Message | None:
            with self._span(method, context, begins_trace) as span:
                try:
                    response = await admitted(request, context)
                except asyncio.CancelledError:
                    note_status(span, grpc.StatusCode.CANCELLED.name)
                    raise
                except grpc.aio.AbortError:
                    note_status(span, name_of_status(context))
                    raise
                except GONE as gone:
                    note_status(span, grpc.StatusCode.CANCELLED.name)
                    raise cancelled(method, gone) from None
                except Exception as error:  # the one place that answers every error
                    refused = self._refused(method, span, error)
                else:
                    note_status(span, name_of_status(context))
                    return response
            return await abort(method, context, refused)

        return leaving_nothing(answer)

    def _stream(
        self,
        method: str,
        behavior: Stream,
        take: Take,
        enter: Enter,
        ledger: MethodLedger,
        guard: Guard | None,
        log_in: LogIn | None,
    ) -> Answer:
        late = self._admission.late.turn

        # A coroutine that writes, not a generator: gRPC would write what a generator yields, and log its own traceback
        # of each write that fails because the caller has gone.
        async def answer(request: object, context: Context) -> None:
            with self._span(method, context, False) as span:
                ip = None
                try:
                    try:
                        ip = ledger.enter(context.peer(), is_stream=True)
                    except ApiError:
                        await late(None)
                        raise
                    self._refuse(context)
                    if log_in is not None:
                        set_login(await log_in(context))
                    recheck = None if guard is None else guard.check(method, context)
                    async with enter(request, context, ip) as room:
                        taken = await take(request, context, recheck, room)
                        # gRPC's stubs say iterator; a handler with `yield` is a generator, which has `aclose`.
                        async with aclosing(behavior(taken, context)) as responses:  # type: ignore[type-var]
                            async for response in responses:
                                self._refuse(context)
                                await give(context, response, self._taken_within_s.get(method))
                except grpc.aio.AbortError:
                    note_status(span, name_of_status(context))
                    raise
                except GONE as gone:
                    note_status(span, grpc.StatusCode.CANCELLED.name)
                    raise cancelled(method, gone) from None
                except Exception as error:  # as above
                    refused = self._refused(method, span, error)
                else:
                    note_status(span, name_of_status(context))
                    return
                finally:
                    if ip is not None:
                        ledger.leave(ip, is_stream=True)
            await abort(method, context, refused)

        return leaving_nothing(answer)

    def _span(self, method: str, context: Context, begins_trace: bool) -> Span:
        if not self._telemetry.enabled:
            return self._telemetry.span(method)
        parent = next((value for key, value in context.invocation_metadata() or () if key == TRACEPARENT), None)
        return self._telemetry.span(
            method,
            kind=SpanKind.SERVER,
            parent=parent.encode("latin-1") if isinstance(parent, str) else parent,
            attributes={"rpc.system.name": "grpc", "rpc.method": method, **peer_attributes(context.peer())},
            root=begins_trace,
        )

    def _refused(self, method: str, span: Span, error: Exception) -> Refused:
        """Returns how the call ends, and notes it on the span."""
        refusal = error if isinstance(error, ApiError) else self._internal_error(method, error)
        status = status_code(refusal.code)
        note_status(span, status.name)
        span.set("kraft.error", refusal.code.name)
        if refusal is error:
            tell = log.warning if self._is_news(method, refusal) else log.debug
            tell("refused", method=method, code=refusal.code.name, reason=refusal.message)
        return Refused(status, shortened(refusal.message), trailing_metadata(refusal))

    def _is_news(self, method: str, refusal: ApiError) -> bool:
        """Returns whether the refusal is logged as a warning: of a named method, not retriable, not a repeat."""
        if method not in self._logged_refusals or is_retriable(refusal):
            return False
        return self._refusals.passes(f"{method}: {refusal}", time.monotonic())

    def _internal_error(self, method: str, error: Exception) -> ApiError:
        """Logs an unexpected error and returns what the caller may see: a correlation id to find it in the log."""
        correlation_id = secrets.token_hex(8)
        log.error("unexpected error", exception=error, method=method, correlation_id=correlation_id)
        if isinstance(error, AssertionError | Corrupt) and self._on_fatal is not None:
            self._on_fatal(error)
        message = f"{method} failed by a fault of the server; its log has it under correlation_id {correlation_id}"
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message, {"correlation_id": correlation_id})


def _refuse_nobody(context: Any) -> None:
    """Serves every caller."""


async def _served(
    behavior: Answer,
    take: Take,
    entered: AbstractAsyncContextManager[StreamRoom | None],
    request: object,
    context: Context,
    recheck: Recheck | None,
) -> Message | None:
    if entered is SMALL:
        return await behavior(await take(request, context, recheck, None), context)
    async with entered as room:
        return await behavior(await take(request, context, recheck, room), context)


def _not_served(method: str) -> Answer:
    async def refuse(request: object, context: Context) -> Never:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{method} is not served here")

    return refuse
