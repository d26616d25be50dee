"""Traces of writes as the services would tell them, and the two ways in which they come to files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from quorate.traces import AttributeValue, SpanData
from services.observer.spans import SpanStore
from tests.pipeline.logs import NOON_MS

NOON_NS: Final = NOON_MS * 1_000_000
REQUEST: Final = "kraft.service.Controller/CreateTopics"


def trace_id(number: int) -> str:
    return f"{number:032x}"


def traceparent(number: int) -> bytes:
    """What the log has of a trace."""
    return f"00-{trace_id(number)}-{number:016x}-01".encode()


def span(name: str, of: str, start_us: int, end_us: int, number: int, **more: Any) -> SpanData:
    """A span of trace `number`, below its request, by the process `of`: times in µs since noon."""
    start_ns, end_ns = NOON_NS + start_us * 1000, NOON_NS + end_us * 1000
    fields: dict[str, Any] = {
        "trace_id": trace_id(number),
        # Nobody has two spans of one name at one time in one trace.
        "span_id": sha256(repr((name, of, start_us, more)).encode()).hexdigest()[:16],
        "parent_span_id": f"{number:016x}",
        "service": of.rpartition("-")[0],
        "instance": of,
        **more,
    }
    return SpanData(name=name, start_ns=start_ns, end_ns=end_ns, **fields)


def noted(node: int | None = None, **more: AttributeValue | None) -> dict[str, AttributeValue]:
    """Attributes by the last part of their names."""
    names = {"count": "kraft.record_count", "node": "kraft.node.id"}
    every = {"node": node, **more}
    return {names.get(key, f"kraft.{key}"): value for key, value in every.items() if value is not None}


def request(number: int, start_us: int, end_us: int, leader: int = 1) -> SpanData:
    return span(REQUEST, f"controller-{leader}", start_us, end_us, number, span_id=f"{number:016x}", parent_span_id="")


def write(
    number: int,
    base: int,
    count: int = 1,
    *,
    at_us: int = 0,
    epoch: int = 1,
    leader: int = 1,
    decided_base: int | None = None,
    flushed_us: Mapping[int, int] = {1: 500, 2: 700, 3: 600},
    committed_us: int = 900,
    applied_us: Mapping[str, int] = {"controller-2": 1_200, "controller-3": 1_300, "observer-201": 1_500},
    error: str | None = None,
) -> list[SpanData]:
    """All spans of one write. It is decided in 100 µs, 200 µs later the flushes begin; all times from `at_us` on."""
    decided = base if decided_base is None else decided_base
    writer = f"controller-{leader}"
    batch = {"epoch": epoch, "base_offset": base, "count": count}
    failed = {} if error is None else {"error": True}
    ends = {"error.type": error} if error is not None else {}
    spans = [
        span(
            "write",
            writer,
            at_us + 100,
            at_us + 200,
            number,
            attributes=noted(api="CreateTopics", base_offset=decided, count=count),
        ),
        span(
            "apply",
            writer,
            at_us + 180,
            at_us + 200,
            number,
            attributes=noted(leader, **{**batch, "base_offset": decided}),
        ),
        span(
            "commit",
            writer,
            at_us + 200,
            at_us + committed_us,
            number,
            attributes={**noted(api="CreateTopics", epoch=epoch, end_offset=base + count), **ends},
            **failed,
        ),
    ]
    for node, end_us in flushed_us.items():
        spans.append(
            span("append", f"quorum-{node}", at_us + 400, at_us + end_us, number, attributes=noted(node, **batch))
        )
    for process, end_us in applied_us.items():
        service, _, node_id = process.partition("-")
        attributes = noted(int(node_id) if service == "controller" else None, **batch)
        spans.append(span("apply", process, at_us + end_us - 50, at_us + end_us, number, attributes=attributes))
    return spans


def stored(path: Path, spans: Sequence[SpanData]) -> Path:
    """A trace store of the observer's."""

    async def keep() -> None:
        store = SpanStore(f"sqlite:///{path}")
        await store.open()
        assert len(spans) == store.offer(spans)
        await store.close()

    asyncio.run(keep())
    return path


def export(spans: Iterable[SpanData], **resource: str) -> str:
    """One export as a collector's file exporter writes it: a line of OTLP's JSON."""
    owners = groupby(sorted(spans, key=_owner), key=_owner)
    resources = [
        {
            "resource": {"attributes": _pairs({"service.name": service, "service.instance.id": instance, **resource})},
            "scopeSpans": [{"scope": {"name": "quorate"}, "spans": [_otlp(each) for each in of]}],
        }
        for (service, instance), of in owners
    ]
    return json.dumps({"resourceSpans": resources}, separators=(",", ":"))


def _owner(one: SpanData) -> tuple[str, str]:
    return one.service, one.instance


def _otlp(one: SpanData) -> dict[str, Any]:
    return {
        "traceId": one.trace_id,
        "spanId": one.span_id,
        "parentSpanId": one.parent_span_id,
        "name": one.name,
        "kind": 1,
        "startTimeUnixNano": str(one.start_ns),
        "endTimeUnixNano": str(one.end_ns),
        "attributes": _pairs(one.attributes),
        "status": {"code": 2} if one.error else {},
    }


def _pairs(attributes: Mapping[str, AttributeValue]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: AttributeValue) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
    return {"stringValue": value}
