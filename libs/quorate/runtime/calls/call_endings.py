"""How a call ends at gRPC's server: with a status, or as its caller goes away; nothing of it is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Never, TypeAlias

import grpc
from google.protobuf.message import Message

from quorate.runtime.logging.logs import logger
from quorate.runtime.telemetry.tracing import Span

log = logger(__name__)

# Handlers of every message type are wrapped; gRPC's own type of context is generic in them.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Answer: TypeAlias = Callable[[Any, Context], Awaitable[Message | None]]

_STATUS_NAMES: Final[Mapping[object, str]] = {each.value[0]: each.name for each in grpc.StatusCode}
"""The names of gRPC's statuses by their numbers."""

_STOPPED: Final[Sequence[type[Exception]]] = [
    each for each in grpc.aio.BaseError.__subclasses__() if each.__name__ == "_ServerStoppedError"
]
GONE: Final[tuple[type[Exception], ...]] = (grpc.aio.InternalError, *_STOPPED)
"""Errors of gRPC where the caller has gone, or this server has stopped; it has no public name for the second."""

SERVER_FAULTS: Final = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""Statuses that make a server's span an error; others are the caller's fault (OpenTelemetry's semantic conventions)."""


class Refused(NamedTuple):
    """How a refused call ends. Not the exception itself: its traceback has frames, and these have the request."""

    status: grpc.StatusCode
    message: str
    trailing: tuple[tuple[str, str | bytes], ...]


def cancelled(method: str, gone: Exception) -> asyncio.CancelledError:
    """Returns (and does not raise) the cancellation with which a call ends whose caller has gone, and logs it at debug.

    `gone` is gRPC's error: it tells so by a failed batch, instead of the cancellation, if the loop was held meanwhile.
    """
    log.debug("the caller has gone", method=method, reason=str(gone))
    return asyncio.CancelledError()


def leaving_nothing(answer: Answer) -> Answer:
    """Wraps what answers a call, so that a refused call does not keep its request and its context in memory.

    gRPC keeps the AbortError of a call in its context. If a frame of that error's traceback had the context or the
    request, they would keep each other until the next full garbage collection, which an idle process never runs.
    """

    async def forgetting(request: object, context: Context) -> Message | None:
        try:
            return await answer(request, context)
        except grpc.aio.AbortError as aborted:
            del request, context
            aborted.__context__ = None
            raise aborted.with_traceback(None) from None

    return forgetting


async def abort(method: str, context: Context, refused: Refused) -> Never:
    """Ends a refused call with its status. Raises AbortError, or CancelledError if the caller has gone."""
    # Trailing metadata that the handler has set (leader, offset) is also sent with a refusal.
    kept = tuple(context.trailing_metadata() or ())
    try:
        await context.abort(refused.status, refused.message, kept + refused.trailing)
    except GONE as gone:
        raise cancelled(method, gone) from None


def name_of_status(context: Context) -> str:
    """Returns the name of the call's status as the handler has set it; OK by default."""
    code: object = context.code()
    return code.name if isinstance(code, grpc.StatusCode) else _STATUS_NAMES.get(code, "OK")


def note_status(span: Span, status: str) -> None:
    """Sets the status of a call on its span, as an error if it is the server's fault."""
    span.set("rpc.response.status_code", status)
    if status in SERVER_FAULTS:
        span.fail(status)
