"""Our encoder of spans against the SDK's own."""

from __future__ import annotations

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from quorate.runtime.telemetry.export import LeanSpanExporter, encode
from quorate.runtime.telemetry.tracing import SpanKind, Telemetry

TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_it_writes_what_the_sdk_writes() -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry.to(SimpleSpanProcessor(exporter), service="quorum", instance="quorum-1")
    attributes = {"a": "text", "b": 7, "c": True, "d": 0.5, "e": ("x", "y")}
    for kind in SpanKind:
        with telemetry.span("outer", kind=kind, attributes=attributes), telemetry.span("inner"):
            pass
    with pytest.raises(ValueError, match="x"), telemetry.span("failed"):
        raise ValueError("x")
    telemetry.span_from(TRACEPARENT, "apply", start_ns=1, end_ns=2, error="CORRUPT_MESSAGE", links=[TRACEPARENT])
    spans = exporter.get_finished_spans()

    assert len(SpanKind) * 2 + 2 == len(spans)
    assert encode_spans(spans) == encode(spans)
    assert encode_spans(spans[::-1]) == encode(spans[::-1])


def test_no_spans_are_an_empty_request() -> None:
    assert encode([]).ByteSize() == 0


def test_the_sdk_s_exporter_has_the_private_members_that_ours_uses_or_overrides() -> None:
    """A release may rename them. Without `_translate_data` spans would go out all the same, by the slower encoder."""
    used = {name for name in LeanSpanExporter.export.__code__.co_names if name.startswith("_")} - {
        "_ours",
        "_transport",
    }
    exporter = LeanSpanExporter("http://127.0.0.1:1")
    exporter.shutdown()

    assert {"_insecure", "_credentials"} < used
    assert set() == {*used, "_translate_data"} - {*dir(OTLPSpanExporter), *vars(exporter)}
