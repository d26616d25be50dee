"""`quorate trace`: the traces that an observer keeps, each as a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kraft.service.observer_pb2 import GetTraceRequest, ListTracesRequest, Span
from quorate.cli.documents import TableOutput, is_document, print_document, print_lines
from quorate.cli.failures import Failed
from quorate.cli.image import columns
from quorate.cli.observer_call import answer_of, ask_first
from quorate.cli.tables import print_rows
from quorate.cli.waterfall import waterfall_lines
from quorate.traces import SpanData

__all__ = ["list_traces", "show_trace", "span_of"]

COLUMNS: Final = ("traceId", "root", "beganAt", "durationMs", "spans")
NS_PER_MS: Final = 1_000_000


def list_traces(observers: str, command_config: Path | None, *, span_name: str, limit: int, output: str) -> None:
    """Prints the latest `limit` traces, newest first, that have a span of this name; "" for any.

    Raises Misused, Failed, Unreached, OSError.
    """

    def ask(address: str, stub: Any) -> Any:  # Any: the generated types are those of asyncio's stub
        return answer_of(address, stub.ListTraces, ListTracesRequest(span_name=span_name, limit=limit)).traces

    rows = [
        (each.trace_id, each.root, _time(each.start_unix_nano), each.duration_nano / NS_PER_MS, each.span_count)
        for each in ask_first(observers, command_config, ask)
    ]
    if is_document(output):
        print_document({"traces": [dict(zip(COLUMNS, each, strict=True)) for each in rows]}, output)
    elif output == TableOutput.TEXT:
        _print_text(rows)
    else:
        print_rows(COLUMNS, rows, output)


def show_trace(observers: str, command_config: Path | None, trace_id: str, *, width: int, output: str) -> None:
    """Prints one trace as a waterfall of `width` columns, or its spans as a document.

    Raises Failed if the observer has none of it; Misused, Unreached, OSError.
    """

    def ask(address: str, stub: Any) -> list[Span]:
        spans: list[Span] = []
        while True:
            request = GetTraceRequest(trace_id=trace_id, skip=len(spans))
            answer = answer_of(address, stub.GetTrace, request)
            spans += answer.spans
            if not answer.spans or len(spans) >= answer.span_count:
                return spans

    spans = [span_of(trace_id, each) for each in ask_first(observers, command_config, ask)]
    if not spans:
        raise Failed(f"the observer has no trace {trace_id}: the oldest ones make room for others")
    if is_document(output):
        print_document(_trace_document(trace_id, spans), output)
    else:
        print_lines(waterfall_lines(spans, width))


def span_of(trace_id: str, span: Span) -> SpanData:
    """Returns a span of a GetTrace answer, which has no trace id, as a span of the trace `trace_id`."""
    return SpanData(
        trace_id=trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        service=span.service,
        instance=span.instance,
        start_ns=span.start_unix_nano,
        end_ns=span.end_unix_nano,
        error=span.error,
        attributes=dict(span.attributes),
    )


def _trace_document(trace_id: str, spans: Sequence[SpanData]) -> dict[str, Any]:
    names = {"span_id": "spanId", "parent_span_id": "parentSpanId", "start_ns": "startNs", "end_ns": "endNs"}
    told = [
        {names.get(name, name): value for name, value in asdict(each).items() if name != "trace_id"} for each in spans
    ]
    return {"traceId": trace_id, "spans": told}


def _time(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print_text(rows: Sequence[Sequence[Any]]) -> None:
    print_lines(columns([COLUMNS, *([*each[:3], f"{each[3]:.1f}", each[4]] for each in rows)]))
