"""OTLP receiver (TraceService over gRPC): takes spans from any OpenTelemetry exporter into the span store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

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

from quorate.runtime.statuses import shortened
from quorate.traces import AttributeValue, SpanData
from services.observer.spans import SpanStore

__all__ = ["TRACE_SERVICE", "TraceServicer", "spans_of"]

TRACE_SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"

NS_MAX: Final = 2**63 - 1
"""The latest time (ns) that is stored: the database's integers are signed 64-bit, OTLP's times unsigned."""
ATTRIBUTE_BYTES_MAX: Final = 64 << 10
"""The most bytes of one span's attributes, as they come and as they are stored."""
NAME_BYTES_MAX: Final = 1_000
"""A longer name, of a span or of who has sent it, is shortened: PostgreSQL indexes no row of more than 2,700 bytes."""
NUL: Final = "\0"
"""PostgreSQL stores no text with it."""
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


class TraceServicer(trace_service_pb2_grpc.TraceServiceServicer):
    """Serves OTLP's TraceService; spans that are malformed or find no room are counted in `partial_success`."""

    def __init__(self, store: SpanStore) -> None:
        self._store = store

    async def Export(
        self,
        request: ExportTraceServiceRequest,
        context: grpc.aio.ServicerContext[ExportTraceServiceRequest, ExportTraceServiceResponse],
    ) -> ExportTraceServiceResponse:
        sent = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
        good = [span for resource in request.resource_spans for span in spans_of(resource)]
        kept = self._store.offer(good)
        if kept == sent:
            return ExportTraceServiceResponse()
        why = (
            f"{sent - len(good)} spans without valid ids and times, or with more than {ATTRIBUTE_BYTES_MAX} bytes of "
            f"attributes, {len(good) - kept} for which the store has no room"
        )
        partial = ExportTracePartialSuccess(rejected_spans=sent - kept, error_message=why)
        return ExportTraceServiceResponse(partial_success=partial)


def spans_of(resource_spans: ResourceSpans) -> Iterator[SpanData]:
    """Yields a resource's well-formed spans: ids of 16 and 8 bytes, not zero, and an end not before the start.

    Their attributes have at most `ATTRIBUTE_BYTES_MAX` bytes.
    """
    resource = {pair.key: pair for pair in resource_spans.resource.attributes}
    service, instance = (
        _name(str(_value(resource[key]))) if key in resource else "" for key in ("service.name", "service.instance.id")
    )
    for scope in resource_spans.scope_spans:
        for span in scope.spans:
            if not _is_well_formed(span) or (attributes := _attributes(span)) is None:
                continue
            yield SpanData(
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_span_id=span.parent_span_id.hex(),
                name=_name(span.name),
                service=service,
                instance=instance,
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
        and span.start_time_unix_nano <= span.end_time_unix_nano <= NS_MAX
    )


def _name(text: str) -> str:
    return shortened(text.replace(NUL, REPLACEMENT), NAME_BYTES_MAX)


def _attributes(span: OtlpSpan) -> dict[str, AttributeValue] | None:
    """Returns a span's attributes; None if they are too large."""
    if sum(pair.ByteSize() for pair in span.attributes) > ATTRIBUTE_BYTES_MAX:
        return None
    found = {pair.key.replace(NUL, REPLACEMENT): _value(pair) for pair in span.attributes}
    # A list of numbers is many times as long in JSON.
    is_stored = sum(len(value) for value in found.values() if isinstance(value, str)) <= ATTRIBUTE_BYTES_MAX
    return found if is_stored else None


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
