"""Trace spans of every call, also under a trace context that travels in the log (W3C Trace Context, OpenTelemetry).

Tracing is on if OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT) is set; the OTEL_* variables have the SDK's meaning.
If it is off, a span costs a call that does nothing.

The SDK's own spans take locks and check every attribute (20 µs each). Ours are a trace context while they are open, and
one `ReadableSpan` when they end (4 µs), which the SDK's batch processor exports.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Token
from functools import lru_cache
from types import TracebackType
from typing import Final, TypeAlias

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.logging.logs import logger
from quorate.runtime.telemetry.otlp_settings import channel_options, checked_variables

__all__ = [
    "OFF",
    "Attributes",
    "Span",
    "SpanKind",
    "Telemetry",
    "current_traceparent",
    "format_traceparent",
    "parse_traceparent",
]

log = logger(__name__)

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = Mapping[str, AttributeValue]

EXPORT_DELAY_MS: Final = 500
"""The time in ms that a finished span waits for a batch, unless OTEL_BSP_SCHEDULE_DELAY is set.

Short for people who look for the trace of what they have just done. Each export is a call for sender and receiver: of
nine processes that commit 30 writes/s, spans took 40 % more CPU with 100 ms, 9 % with 500 and 5 % with 1,000.
"""

QUEUE_MAX: Final = 16_384
"""The number of spans that may wait for export: a burst of 4,000 writes. Further ones are dropped; calls never wait."""

SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_CERTIFICATES: Final = frozenset(
    f"OTEL_EXPORTER_OTLP_{which}{what}" for which in ("", "TRACES_") for what in ("CERTIFICATE", "CLIENT_CERTIFICATE")
)
"""The variables by which OpenTelemetry has certificates of its own."""
_SCOPE: Final = InstrumentationScope("quorate")
_TRACEPARENT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Telemetry:
    """The span export of one service. A process may have several, each with its own service name."""

    __slots__ = ("_abandon", "_processor", "_provider", "enabled")

    def __init__(
        self,
        provider: TracerProvider | None = None,
        processor: SpanProcessor | None = None,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        assert (provider is None) == (processor is None)
        self._abandon = abandon
        self._provider = provider
        self._processor = processor
        self.enabled = provider is not None

    @staticmethod
    def start(*, service: str, instance: str, environ: Mapping[str, str], transport: Transport = PLAIN) -> Telemetry:
        """Starts the export of spans of `service` (such as "controller") to the endpoint in `environ`.

        `instance` identifies the process. Telemetry is off without an endpoint, or with OTEL_SDK_DISABLED=true or
        OTEL_TRACES_EXPORTER=none. An https endpoint is spoken to with the certificate of `transport`, unless one of
        OpenTelemetry's own variables names another. Raises ConfigError for variables that cannot be read.
        """
        if not _is_wanted(environ):
            return OFF
        # Imported only here: it takes as long as all other imports together.
        from quorate.runtime.telemetry.export import LeanSpanExporter

        delay_ms = None if "OTEL_BSP_SCHEDULE_DELAY" in environ else EXPORT_DELAY_MS
        queue_max = None if "OTEL_BSP_MAX_QUEUE_SIZE" in environ else QUEUE_MAX
        ours = PLAIN if _CERTIFICATES & environ.keys() else transport
        with checked_variables(environ):
            exporter = LeanSpanExporter(_endpoint(environ), ours, options=channel_options(environ))
            processor = BatchSpanProcessor(exporter, max_queue_size=queue_max, schedule_delay_millis=delay_ms)
        return Telemetry.to(processor, service=service, instance=instance, abandon=exporter.shutdown)

    @staticmethod
    def to(
        processor: SpanProcessor, *, service: str, instance: str, abandon: Callable[[], None] = lambda: None
    ) -> Telemetry:
        """Returns telemetry that gives spans of `service` to a processor of the SDK; `abandon` cancels an export."""
        resource = Resource.create({SERVICE_NAME: service, SERVICE_INSTANCE_ID: instance})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(processor)
        return Telemetry(provider, processor, abandon)

    def span(
        self,
        name: str,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        parent: bytes | None = None,
        attributes: Attributes | None = None,
        root: bool = True,
    ) -> Span:
        """Returns a span, to be used as a context manager: it is current inside the block and ends with it.

        Its parent is `parent`, a traceparent from outside, or else the current span. Without either it begins a trace,
        unless `root` is False: then nothing is recorded.
        """
        if self._provider is None:
            return _NO_SPAN
        above = parse_traceparent(parent) or _current()
        if above is None and not root:
            return _NO_SPAN
        made = _child(above) if above is not None and parent is None else self._sampled(above, name, kind, attributes)
        return Span(self, made, above, name, kind, attributes)

    def span_from(
        self,
        parent: bytes | None,
        name: str,
        *,
        start_ns: int,
        end_ns: int,
        attributes: Attributes | None = None,
        error: str | None = None,
        links: Sequence[bytes] = (),
    ) -> bytes | None:
        """Records a span that is already over, with `parent`, a traceparent, as its parent. Returns its traceparent.

        Times are in ns since 1970; `error` is the error's name if it failed. It does nothing and returns None if
        telemetry is off, or if `parent` is absent, malformed or not sampled: the log may contain any bytes there.
        """
        above = parse_traceparent(parent) if self._provider is not None else None
        if above is None or not above.trace_flags.sampled:
            return None
        made = _child(above)
        linked = tuple(Link(link) for link in map(parse_traceparent, links) if link is not None)
        noted = dict(attributes or {})
        if error is not None:
            noted["error.type"] = error
        self._end(made, above, name, SpanKind.INTERNAL, noted, error, start_ns, end_ns, linked)
        return format_traceparent(made)

    async def flush(self, timeout_s: float = 3.0) -> None:
        """Exports the waiting spans; those that cannot be sent within `timeout_s` go on waiting."""
        if self._processor is not None:
            with suppress(TimeoutError):
                await _in_thread(self._processor.force_flush, timeout_s)

    async def close(self, timeout_s: float = 3.0) -> None:
        """Exports the waiting spans and stops. Spans that cannot be sent within `timeout_s` are lost."""
        if self._provider is None:
            return
        try:
            await _in_thread(self._finish, timeout_s)
        except TimeoutError:
            log.warning("the last spans could not be sent and are lost", timeout_s=timeout_s)
            self._abandon()

    def _finish(self) -> None:
        assert self._processor is not None
        assert self._provider is not None
        self._processor.force_flush()
        self._provider.shutdown()

    def _sampled(
        self, above: SpanContext | None, name: str, kind: SpanKind, attributes: Attributes | None
    ) -> SpanContext:
        """Returns the context of a span that begins a trace, or continues one from outside; the sampler decides."""
        assert self._provider is not None
        trace_id = above.trace_id if above else _random_id(128)
        parent = trace.set_span_in_context(NonRecordingSpan(above)) if above else Context()
        result = self._provider.sampler.should_sample(parent, trace_id, name, kind, attributes)
        sampled = result.decision is Decision.RECORD_AND_SAMPLE
        return SpanContext(trace_id, _random_id(64), False, SAMPLED if sampled else TraceFlags())

    def _end(
        self,
        made: SpanContext,
        above: SpanContext | None,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        error: str | None,
        start_ns: int,
        end_ns: int,
        links: Sequence[Link] = (),
    ) -> None:
        assert self._provider is not None
        assert self._processor is not None
        status = Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, error)
        ended = ReadableSpan(
            name,
            context=made,
            parent=above,
            resource=self._provider.resource,
            attributes=attributes,
            links=links,
            kind=kind,
            status=status,
            start_time=start_ns,
            end_time=max(start_ns, end_ns),
            instrumentation_scope=_SCOPE,
        )
        self._processor.on_end(ended)


class Span:
    """An open span. As a context manager it is the current span; at exit it ends, as failed after an `Exception`.

    A cancellation (CancelledError) and GeneratorExit do not count as a failure.
    """

    __slots__ = ("_above", "_attributes", "_context", "_error", "_kind", "_name", "_start_ns", "_telemetry", "_token")

    def __init__(
        self,
        telemetry: Telemetry,
        made: SpanContext,
        above: SpanContext | None,
        name: str,
        kind: SpanKind,
        attributes: Attributes | None,
    ) -> None:
        self._telemetry = telemetry
        self._context = made
        self._above = above
        self._name = name
        self._kind = kind
        self._attributes: dict[str, AttributeValue] = dict(attributes or {})
        self._error: str | None = None
        self._token: Token[Context] | None = None
        self._start_ns = 0

    @property
    def is_recording(self) -> bool:
        """Whether the span is sampled, and so will be exported."""
        return bool(self._context.trace_flags.sampled)

    @property
    def traceparent(self) -> bytes | None:
        """The W3C traceparent to send with a call, so that other spans get this one as parent; None if not sampled."""
        return format_traceparent(self._context) if self.is_recording else None

    def set(self, key: str, value: AttributeValue) -> None:
        """Sets one attribute of the span."""
        self._attributes[key] = value

    def fail(self, error_type: str) -> None:
        """Marks the span as failed, with the error's name as `error.type`."""
        self._error = error_type
        self._attributes["error.type"] = error_type

    def __enter__(self) -> Span:
        self._token = context.attach(trace.set_span_in_context(NonRecordingSpan(self._context)))
        self._start_ns = time.time_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        end_ns = time.time_ns()
        context.detach(self._token)
        # A cancelled call has not failed: its caller does not want the result any more.
        if kind is not None and self._error is None and not issubclass(kind, asyncio.CancelledError | GeneratorExit):
            self.fail(kind.__name__)
        if self.is_recording:
            self._telemetry._end(
                self._context,
                self._above,
                self._name,
                self._kind,
                self._attributes,
                self._error,
                self._start_ns,
                end_ns,
            )


class _NoSpan(Span):
    """The span that is used if telemetry is off: it records nothing and changes no context."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(OFF, trace.INVALID_SPAN_CONTEXT, None, "", SpanKind.INTERNAL, None)

    def set(self, key: str, value: AttributeValue) -> None:
        pass

    def fail(self, error_type: str) -> None:
        pass

    def __enter__(self) -> Span:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def current_traceparent() -> bytes | None:
    """Returns the W3C traceparent of the current span, 55 bytes; None without one, or if it is not sampled."""
    current = _current()
    return format_traceparent(current) if current is not None and current.trace_flags.sampled else None


def format_traceparent(span: SpanContext) -> bytes:
    """Returns the W3C traceparent of a span's context."""
    return b"00-%032x-%016x-%02x" % (span.trace_id, span.span_id, span.trace_flags)


@lru_cache(1024)  # every record of a batch has the same one
def parse_traceparent(text: bytes | None) -> SpanContext | None:
    """Returns the trace context in a W3C traceparent; None if it is absent or invalid.

    >>> parse_traceparent(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").span_id == 0xb7ad6b7169203331
    True
    """
    match = _TRACEPARENT.fullmatch(text) if text else None
    # W3C: version ff is forbidden, only a version after 00 may be longer, ids of zeros are invalid.
    if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5]):
        return None
    made = SpanContext(int(match[2], 16), int(match[3], 16), True, TraceFlags(int(match[4], 16) & SAMPLED))
    return made if made.is_valid else None


async def _in_thread(work: Callable[[], object], timeout_s: float) -> None:
    """Waits for `work` in a thread of its own. Raises TimeoutError, and leaves the thread running.

    The SDK's flush has no timeout and tries for 15 s if no collector listens. A daemon thread does not keep the process
    from its end; a thread of the loop's executor would be waited for.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        work()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, daemon=True).start()
    async with asyncio.timeout(timeout_s):
        await done.wait()


def _current() -> SpanContext | None:
    current = trace.get_current_span().get_span_context()
    return current if current.is_valid else None


def _child(above: SpanContext) -> SpanContext:
    return SpanContext(above.trace_id, _random_id(64), False, above.trace_flags)


def _random_id(bits: int) -> int:
    return random.getrandbits(bits) or 1


def _is_wanted(environ: Mapping[str, str]) -> bool:
    disabled = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return not disabled and environ.get("OTEL_TRACES_EXPORTER") != "none" and bool(_endpoint(environ))


def _endpoint(environ: Mapping[str, str]) -> str:
    return environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""


OFF: Final = Telemetry()
"""Telemetry that is switched off: it records no spans."""

_NO_SPAN: Final = _NoSpan()
