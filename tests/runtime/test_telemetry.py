"""Spans as an exporter receives them: who hangs on whom, across calls, and across a log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kraft.service.placer_pb2 import PlaceRequest, PlaceResponse
from kraft.service.placer_pb2_grpc import PlacerServicer, PlacerStub, add_PlacerServicer_to_server
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import call, open_channel
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.telemetry.tracing import (
    OFF,
    SpanKind,
    Telemetry,
    current_traceparent,
    format_traceparent,
    parse_traceparent,
)

PLACER = "kraft.service.Placer"
TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Recorded:
    """A telemetry whose spans can be looked at."""

    def __init__(self, service: str) -> None:
        self.exporter = InMemorySpanExporter()
        self.telemetry = Telemetry.to(SimpleSpanProcessor(self.exporter), service=service, instance=f"{service}-1")

    def spans(self) -> dict[str, ReadableSpan]:
        return {f"{span.name} {span.kind.name}": span for span in self.exporter.get_finished_spans()}


@pytest.fixture
def recorded() -> Recorded:
    return Recorded("controller")


class Placer(PlacerServicer):
    """Notes the traceparent that its code sees; refuses on command."""

    def __init__(self, error: ApiError | None = None) -> None:
        self.seen: list[bytes | None] = []
        self._error = error

    async def Place(self, request: PlaceRequest, context: Any) -> PlaceResponse:
        self.seen.append(current_traceparent())
        if self._error is not None:
            raise self._error
        return PlaceResponse()


@asynccontextmanager
async def placing(placer: Placer, telemetry: Telemetry, **options: Any) -> AsyncIterator[PlacerStub]:
    server = Server(telemetry=telemetry, **options)
    server.add(PLACER, add_PlacerServicer_to_server, placer)
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        yield PlacerStub(channel)
    await server.stop(grace_s=0)


def test_a_span_inside_another_hangs_on_it(recorded: Recorded) -> None:
    attributes = {"kraft.base_offset": 7}
    with recorded.telemetry.span("outer") as outer, recorded.telemetry.span("inner", attributes=attributes):
        inside = current_traceparent()

    spans = recorded.spans()
    inner = spans["inner INTERNAL"]
    assert inner.parent is not None
    assert outer.traceparent == format_traceparent(inner.parent)
    assert inside == format_traceparent(inner.context)
    assert spans["outer INTERNAL"].parent is None
    assert {"kraft.base_offset": 7} == dict(inner.attributes or {})
    assert current_traceparent() is None


def test_a_span_that_an_error_leaves_has_failed(recorded: Recorded) -> None:
    with pytest.raises(KeyError), recorded.telemetry.span("write"):
        raise KeyError("x")

    span = recorded.spans()["write INTERNAL"]
    assert not span.status.is_ok
    assert {"error.type": "KeyError"} == dict(span.attributes or {})


def test_a_span_that_is_over_is_written_under_a_context_from_the_log(recorded: Recorded) -> None:
    made = recorded.telemetry.span_from(
        TRACEPARENT, "apply", start_ns=1_000, end_ns=3_000, attributes={"kraft.base_offset": 42}
    )

    span = recorded.spans()["apply INTERNAL"]
    assert made == format_traceparent(span.context)
    assert span.parent is not None
    assert TRACEPARENT == format_traceparent(span.parent)
    assert (1_000, 3_000, {"kraft.base_offset": 42}) == (span.start_time, span.end_time, dict(span.attributes or {}))
    assert {"service.name": "controller", "service.instance.id": "controller-1"}.items() <= dict(
        span.resource.attributes
    ).items()


def test_links_and_an_error_go_along(recorded: Recorded) -> None:
    other = b"00-11111111111111111111111111111111-2222222222222222-01"
    recorded.telemetry.span_from(
        TRACEPARENT, "commit", start_ns=1, end_ns=2, error="NOT_CONTROLLER", links=[other, b"x"]
    )

    span = recorded.spans()["commit INTERNAL"]
    assert [other] == [format_traceparent(link.context) for link in span.links]
    assert {"error.type": "NOT_CONTROLLER"} == dict(span.attributes or {})
    assert not span.status.is_ok


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"garbage",
        TRACEPARENT[:-1],
        TRACEPARENT.upper(),
        b"ff" + TRACEPARENT[2:],
        TRACEPARENT + b"-more",
        b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01",
        b"00-0af7651916cd43dd8448eb211c80319c-" + b"0" * 16 + b"-01",
    ],
)
def test_what_is_not_a_traceparent_leaves_no_span(recorded: Recorded, text: bytes | None) -> None:
    assert parse_traceparent(text) is None
    assert recorded.telemetry.span_from(text, "apply", start_ns=1, end_ns=2) is None
    assert {} == recorded.spans()


def test_what_is_not_sampled_leaves_no_span_and_does_not_travel(recorded: Recorded) -> None:
    unsampled = TRACEPARENT[:-1] + b"0"
    with recorded.telemetry.span("write", parent=unsampled) as span:
        inside = current_traceparent()

    assert (None, None, False) == (inside, span.traceparent, span.is_recording)
    assert recorded.telemetry.span_from(unsampled, "apply", start_ns=1, end_ns=2) is None
    assert {} == recorded.spans()


def test_a_later_version_of_traceparent_may_be_longer() -> None:
    assert parse_traceparent(b"01" + TRACEPARENT[2:] + b"-more") == parse_traceparent(TRACEPARENT)


@given(st.binary(max_size=80))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    parsed = parse_traceparent(data)

    assert parsed is None or format_traceparent(parsed)[2:] == data[2:55]


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_a_traceparent_comes_back(trace_id: int, span_id: int, sampled: bool) -> None:
    text = b"00-%032x-%016x-%02x" % (trace_id, span_id, sampled)
    parsed = parse_traceparent(text)

    assert parsed is not None
    assert text == format_traceparent(parsed)


async def test_off_nothing_is_current_and_nothing_is_written() -> None:
    with OFF.span("write", attributes={"a": 1}) as span:
        span.set("b", 2)
        inside = current_traceparent()

    assert (None, None) == (inside, span.traceparent)
    assert OFF.span_from(TRACEPARENT, "apply", start_ns=1, end_ns=2) is None
    await OFF.close()


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_telemetry_is_off_unless_asked_for(environ: dict[str, str]) -> None:
    assert OFF is Telemetry.start(service="quorum", instance="1", environ=environ)


@pytest.mark.parametrize("way", ["the collector", "the proxy for spans"])
async def test_spans_go_through_a_proxy_only_if_it_is_named_for_them(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def listen(name: str) -> tuple[asyncio.Server, str]:
        async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.put_nowait((name, (await reader.readline()).decode()))
            writer.close()

        server = await asyncio.start_server(note, "127.0.0.1", 0)
        return server, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    servers = {name: await listen(name) for name in ("the collector", "the proxy for spans", "the proxy for all")}
    monkeypatch.setenv("https_proxy", f"http://{servers['the proxy for all'][1]}")
    collector, own = servers["the collector"][1], servers["the proxy for spans"][1]
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector}"}
    if way != "the collector":
        environ["QUORATE_OTLP_PROXY"] = f"http://{own}"
    telemetry = Telemetry.start(service="quorum", instance="1", environ=environ)
    with telemetry.span("write"):
        pass
    async with asyncio.timeout(60):
        first = await heard.get()
        await telemetry.close(timeout_s=0.1)
    for server, _ in servers.values():
        server.close()

    said = "PRI * HTTP/2.0" if way == "the collector" else f"CONNECT {collector} HTTP/1.1"
    assert (way, f"{said}\r\n") == first


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("QUORATE_OTLP_PROXY", "proxy:3128", "QUORATE_OTLP_PROXY = 'proxy:3128': must be a URL http://host:port"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "OTEL_EXPORTER_OTLP_TIMEOUT): could not convert string to float"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "x", 'Invalid value "x" for compression envvar OTEL_EXPORTER_OTLP_COMPRESS'),
        (
            "OTEL_BSP_MAX_QUEUE_SIZE",
            "0",
            "OTEL_BSP_MAX_QUEUE_SIZE, OTEL_EXPORTER_OTLP_ENDPOINT): max_queue_size must be",
        ),
    ],
)
def test_a_variable_that_says_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(variable, value)  # the SDK reads its own
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317", variable: value}
    with pytest.raises(ConfigError) as refused:
        Telemetry.start(service="quorum", instance="1", environ=environ)

    assert says in str(refused.value)


async def test_a_collector_that_is_gone_does_not_hold_up_the_stop() -> None:
    telemetry = Telemetry.start(
        service="quorum", instance="1", environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    )
    with telemetry.span("write"):
        pass
    async with asyncio.timeout(5):
        await telemetry.flush(timeout_s=0.1)
        await telemetry.close(timeout_s=0.1)


async def test_a_flush_exports_what_waits_for_a_batch_and_the_export_goes_on() -> None:
    exporter = InMemorySpanExporter()
    processor = BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000)
    telemetry = Telemetry.to(processor, service="observer", instance="observer-1")
    exported = []
    for name, export in (("before", telemetry.flush), ("after", telemetry.close)):
        with telemetry.span(name):
            pass
        await export()
        exported.append([span.name for span in exporter.get_finished_spans()])

    assert [["before"], ["before", "after"]] == exported


async def test_one_trace_goes_from_client_to_handler(recorded: Recorded) -> None:
    server, placer = Recorded("placer"), Placer()
    async with placing(placer, server.telemetry) as stub:
        with recorded.telemetry.span("write"):
            await call(stub.Place, PlaceRequest(), deadline_ms=60_000, telemetry=recorded.telemetry, server="placer:1")

    write = recorded.spans()["write INTERNAL"]
    client = recorded.spans()["kraft.service.Placer/Place CLIENT"]
    served = server.spans()["kraft.service.Placer/Place SERVER"]
    assert client.parent is not None
    assert served.parent is not None
    assert [write.context.span_id, client.context.span_id] == [client.parent.span_id, served.parent.span_id]
    assert {write.context.trace_id} == {client.context.trace_id, served.context.trace_id}
    assert [format_traceparent(served.context)] == placer.seen
    common = {"rpc.system.name": "grpc", "rpc.method": "kraft.service.Placer/Place", "rpc.response.status_code": "OK"}
    assert {**common, "server.address": "placer:1"} == dict(client.attributes or {})
    attributes = dict(served.attributes or {})
    assert "127.0.0.1" == attributes.pop("network.peer.address")
    assert isinstance(attributes.pop("network.peer.port"), int)
    assert common == attributes


@pytest.mark.parametrize(
    ("code", "status", "servers_fault"),
    [(ErrorCode.INVALID_REQUEST, "INVALID_ARGUMENT", False), (ErrorCode.NOT_CONTROLLER, "UNAVAILABLE", True)],
    ids=str,
)
async def test_a_refusal_is_an_error_for_the_client_and_for_the_server_only_if_it_is_its_fault(
    recorded: Recorded, code: ErrorCode, status: str, servers_fault: bool
) -> None:
    server = Recorded("placer")
    async with placing(Placer(ApiError(code, "no")), server.telemetry) as stub:
        with recorded.telemetry.span("write"), pytest.raises(ApiError):
            await call(stub.Place, PlaceRequest(), deadline_ms=60_000, telemetry=recorded.telemetry)

    client = recorded.spans()["kraft.service.Placer/Place CLIENT"]
    served = server.spans()["kraft.service.Placer/Place SERVER"]
    assert (False, not servers_fault) == (client.status.is_ok, served.status.is_ok)
    assert {"rpc.response.status_code": status, "kraft.error": code.name}.items() <= dict(
        served.attributes or {}
    ).items()
    assert status == (client.attributes or {})["error.type"]


async def test_a_call_from_outside_begins_a_trace_but_a_quiet_one_does_not(recorded: Recorded) -> None:
    loud, quiet = Placer(), Placer()
    async with placing(loud, recorded.telemetry) as stub:
        await stub.Place(PlaceRequest(), timeout=60)
    async with placing(quiet, recorded.telemetry, quiet=[f"{PLACER}/Place"]) as stub:
        await stub.Place(PlaceRequest(), timeout=60)
        await stub.Place(PlaceRequest(), timeout=60, metadata=(("traceparent", TRACEPARENT.decode()),))

    assert 2 == len(recorded.exporter.get_finished_spans())
    assert [True] == [seen is not None for seen in loud.seen]
    unasked, continued = quiet.seen
    assert unasked is None
    assert continued is not None
    assert TRACEPARENT[:36] == continued[:36]


async def test_a_traceparent_that_is_garbage_does_no_harm(recorded: Recorded) -> None:
    async with placing(Placer(), recorded.telemetry) as stub:
        await stub.Place(PlaceRequest(), timeout=60, metadata=(("traceparent", "00-zz"),))

    (span,) = recorded.exporter.get_finished_spans()
    assert span.parent is None


async def test_concurrent_calls_keep_their_own_traces(recorded: Recorded) -> None:
    placer = Placer()
    async with placing(placer, recorded.telemetry) as stub:
        parents = [b"00-%032x-%016x-01" % (number, number) for number in range(1, 21)]
        calls = (
            stub.Place(PlaceRequest(), timeout=60, metadata=(("traceparent", parent.decode()),)) for parent in parents
        )
        await asyncio.gather(*calls)

    assert {parent[:36] for parent in parents} == {seen[:36] for seen in placer.seen if seen}


def test_the_kind_of_a_span_is_kept(recorded: Recorded) -> None:
    with recorded.telemetry.span("send", kind=SpanKind.PRODUCER):
        pass

    assert ["send PRODUCER"] == list(recorded.spans())
