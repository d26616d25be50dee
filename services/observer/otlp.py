"""OTLP receiver (TraceService over gRPC): takes spans from any OpenTelemetry exporter into the span store."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final, NamedTuple

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.requests.statuses import shortened
from quorate.traces import AttributeValue, SpanData
from services.observer.spans import SpanStore

__all__ = ["TRACE_SERVICE", "Sender", "TraceServicer", "sender_of", "span_of"]

TRACE_SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"

NS_MAX: Final = 2**63 - 1
"""The latest time (ns) that is stored: the database's integers are signed 64-bit, OTLP's times unsigned."""
SPANS_MAX: Final = 10_000
"""The most spans that are taken from one request: twenty times as many as OpenTelemetry's exporters send."""
ATTRIBUTES_MAX: Final = 128
"""The most attributes of a span, as OpenTelemetry's SDKs have them by default."""
ATTRIBUTE_BYTES_MAX: Final = 64 << 10
"""The most bytes of one span's attributes; those of lists and maps count `AS_JSON` times."""
AS_JSON: Final = 10
"""About how many times as long a list is as JSON, as which it is stored."""
NESTED: Final = frozenset({"array_value", "kvlist_value"})
NAME_BYTES_MAX: Final = 1_000
"""A longer name, of a span or of who has sent it, is shortened: PostgreSQL indexes no row of more than 2,700 bytes."""
NUL: Final = "\0"
"""PostgreSQL stores no text with it."""
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
STEPS_PER_TURN: Final = 500
"""Steps, each a small span or a part of a large one, before the event loop runs other tasks: a few ms."""
BYTES_PER_STEP: Final = 16


class Sender(NamedTuple):
    """The process that a span comes from."""

    service: str
    instance: str


class TraceServicer(trace_service_pb2_grpc.TraceServiceServicer):
    """Serves OTLP's TraceService; spans that are malformed or find no room are counted in `partial_success`."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store

    async def Export(
        self,
        request: ExportTraceServiceRequest,
        context: grpc.aio.ServicerContext[ExportTraceServiceRequest, ExportTraceServiceResponse],
    ) -> ExportTraceServiceResponse:
        sent, good, kept = await in_turns(_taken(request, self._store))
        if kept == sent:
            return ExportTraceServiceResponse()
        why = (
            f"{sent - good} spans without valid ids and times, with more than {ATTRIBUTES_MAX} attributes or "
            f"{ATTRIBUTE_BYTES_MAX} bytes of them, or after the first {SPANS_MAX} of a request; "
            f"{good - kept} for which the store has no room"
        )
        partial = ExportTracePartialSuccess(rejected_spans=sent - kept, error_message=why)
        return ExportTraceServiceResponse(partial_success=partial)


def _taken(request: ExportTraceServiceRequest, store: SpanStore) -> Generator[None, None, tuple[int, int, int]]:
    """Offers the spans of a request to the store. Returns how many were sent, are well-formed, and were taken."""
    sent = good = kept = steps = 0
    ready: list[SpanData] = []
    for sender, span in _walk(request):
        steps += 1
        if span is not None:
            sent += 1
            found = span_of(span, sender) if sent <= SPANS_MAX else None
            if found is not None:
                ready.append(found)
                steps += span.ByteSize() // BYTES_PER_STEP
        if steps >= STEPS_PER_TURN:
            good, kept = good + len(ready), kept + store.offer(ready)
            ready, steps = [], 0
            yield
    return sent, good + len(ready), kept + store.offer(ready)


def _walk(request: ExportTraceServiceRequest) -> Iterator[tuple[Sender, OtlpSpan | None]]:
    """Yields each span with its sender; None in its place for each level above, of which there may be many empty."""
    for resource_spans in request.resource_spans:
        sender = sender_of(resource_spans)
        yield sender, None
        for scope in resource_spans.scope_spans:
            yield sender, None
            for span in scope.spans:
                yield sender, span


def sender_of(resource_spans: ResourceSpans) -> Sender:
    """Returns who has sent spans, by the first `ATTRIBUTES_MAX` attributes; a name that is no text is empty."""
    pairs = islice(resource_spans.resource.attributes, ATTRIBUTES_MAX)
    found = {pair.key: pair.value.string_value for pair in pairs}
    return Sender(_name(found.get("service.name", "")), _name(found.get("service.instance.id", "")))


def span_of(span: OtlpSpan, sender: Sender) -> SpanData | None:
    """Returns a span as it is stored; None if it is not well-formed.

    Its ids have 16 and 8 bytes and are not zero, it does not end before its start, and it has at most `ATTRIBUTES_MAX`
    attributes with `ATTRIBUTE_BYTES_MAX` bytes.
    """
    if not _is_well_formed(span) or (attributes := _attributes(span)) is None:
        return None
    return SpanData(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        name=_name(span.name),
        service=sender.service,
        instance=sender.instance,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        error=span.status.code == Status.STATUS_CODE_ERROR,
        attributes=attributes,
    )


def _is_well_formed(span: OtlpSpan) -> bool:
    return (
        len(span.trace_id) == 16
        and any(span.trace_id)
        and len(span.span_id) == 8
        and any(span.span_id)
        and len(span.parent_span_id) in (0, 8)
        and len(span.attributes) <= ATTRIBUTES_MAX
        and span.start_time_unix_nano <= span.end_time_unix_nano <= NS_MAX
    )


def _name(text: str) -> str:
    return shortened(text.replace(NUL, REPLACEMENT), NAME_BYTES_MAX)


def _attributes(span: OtlpSpan) -> dict[str, AttributeValue] | None:
    """Returns a span's attributes; None if they are too large."""
    sizes = (pair.ByteSize() * (AS_JSON if pair.value.WhichOneof("value") in NESTED else 1) for pair in span.attributes)
    if sum(sizes) > ATTRIBUTE_BYTES_MAX:
        return None
    return {pair.key.replace(NUL, REPLACEMENT): _value(pair) for pair in span.attributes}


def _value(pair: KeyValue) -> AttributeValue:
    """Converts an attribute value: scalars unchanged, lists and maps to JSON, bytes to hexadecimal."""
    value: AnyValue = pair.value
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value.replace(NUL, REPLACEMENT)
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            # JSON cannot express NaN and infinity, and PostgreSQL refuses Python's spelling of them.
            number = value.double_value
            return number if number - number == 0 else str(number)
        case "bytes_value":
            return value.bytes_value.hex()
        case None:
            return ""
        case _:
            return json.dumps(MessageToDict(value), sort_keys=True)
