"""Metrics as Prometheus scrapes them. A process has one set, so the tests share it."""

from __future__ import annotations

import asyncio

import pytest

from quorate.runtime.event_loop.loop import CannotListen
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.telemetry.metrics import (
    DECLARED,
    Export,
    Metrics,
    counter,
    exported_metrics,
    histogram,
    observed,
    start_metrics,
)

APPENDS = counter("kraft.test.append.count", "{append}", "Batches appended.")
LAG = observed("kraft.test.lag", "gauge", "{record}", "Records behind.")
FLUSH = histogram("kraft.test.flush.duration", "s", "Flush time.", buckets=(0.001, 0.01))
DEPTH = observed("kraft.test.depth", "gauge", "{message}", "Messages that wait.")
SEEN = observed("kraft.test.seen", "counter", "{message}", "Messages that came.")


@pytest.fixture(scope="module")
def running() -> Metrics:
    APPENDS.add(100)  # before the start: not recorded, and no error
    return start_metrics(service="quorum", instance="1")


def test_values_stand_in_prometheus_text(running: Metrics) -> None:
    APPENDS.add(2, {"kraft.role": "leader"})
    APPENDS.add(1, {"kraft.role": 'a "b"\n\\'})
    LAG.read_by(lambda: [(5, {})])
    for seconds in (0.0005, 0.002, 0.5):
        FLUSH.record(seconds)

    lines = running.text().splitlines()

    assert [
        "# HELP kraft_test_append_count_total Batches appended.",
        "# TYPE kraft_test_append_count_total counter",
        'kraft_test_append_count_total{kraft_role="leader"} 2',
        'kraft_test_append_count_total{kraft_role="a \\"b\\"\\n\\\\"} 1',
    ] == [line for line in lines if "append" in line]
    assert "kraft_test_lag 5" in lines
    assert [
        'kraft_test_flush_duration_seconds_bucket{le="0.001"} 1',
        'kraft_test_flush_duration_seconds_bucket{le="0.01"} 2',
        'kraft_test_flush_duration_seconds_bucket{le="+Inf"} 3',
        "kraft_test_flush_duration_seconds_sum 0.5025",
        "kraft_test_flush_duration_seconds_count 3",
    ] == [line for line in lines if line.startswith("kraft_test_flush")]


async def test_they_are_served_over_http(running: Metrics) -> None:
    server, port = await running.serve("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read()
    writer.close()
    server.close()

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"# TYPE kraft_test_lag gauge" in body or body == b""


async def test_a_scraper_that_speaks_no_http_does_no_harm(running: Metrics) -> None:
    server, port = await running.serve("127.0.0.1", 0)
    for noise in (b"", b"\x00" * 20_000):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(noise)
        writer.write_eof()

        assert b"" == await reader.read()
        writer.close()
    server.close()


def test_a_name_is_declared_once() -> None:
    with pytest.raises(AssertionError, match=r"kraft\.test\.lag is declared twice"):
        observed("kraft.test.lag", "gauge", "{record}", "Again.")


def test_what_is_declared_can_be_listed() -> None:
    declared = DECLARED["kraft.test.flush.duration"]

    assert ("histogram", "s", "Flush time.") == (declared.kind, declared.unit, declared.help)


def test_what_is_kept_elsewhere_is_read_when_it_is_asked_for(running: Metrics) -> None:
    assert [] == [line for line in running.text().splitlines() if line.startswith("kraft_test_depth")]

    waiting = {"in": 3, "out": 4}
    DEPTH.read_by(lambda: [(count, {"kraft.way": way}) for way, count in waiting.items()])
    SEEN.read_by(lambda: [(sum(waiting.values()), {})])
    waiting["in"] = 5
    lines = running.text().splitlines()

    assert ['kraft_test_depth{kraft_way="in"} 5', 'kraft_test_depth{kraft_way="out"} 4'] == [
        line for line in lines if line.startswith("kraft_test_depth")
    ]
    assert "# TYPE kraft_test_seen_total counter" in lines
    assert "kraft_test_seen_total 9" in lines


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        (
            {"OTEL_METRICS_EXPORTER": "statsd"},
            "OTEL_METRICS_EXPORTER = 'statsd': must be a list of none, otlp, prometheus",
        ),
        (
            {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "http"},
            "OTEL_EXPORTER_PROMETHEUS_PORT = 'http': must be a number",
        ),
        (
            {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "0.5"},
            "OTEL_METRIC_EXPORT_INTERVAL = '0.5': must be a number",
        ),
    ],
)
def test_a_setting_that_is_not_understood_is_named(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Export.of(environ)

    assert (problem,) == refused.value.problems


async def test_a_port_that_is_taken_is_named() -> None:
    taken = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    environ = {
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
    }
    with pytest.raises(CannotListen, match=f"OTEL_EXPORTER_PROMETHEUS_PORT = {port}: "):
        await exported(environ)
    taken.close()


@pytest.mark.parametrize(
    "environ", [{}, {"OTEL_METRICS_EXPORTER": "none"}, {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}]
)
async def test_off_they_go_nowhere(environ: dict[str, str]) -> None:
    assert not await exported(environ)


async def exported(environ: dict[str, str]) -> set[asyncio.Task[object]]:
    """The tasks that it takes."""
    before = asyncio.all_tasks()
    async with asyncio.TaskGroup() as tasks:
        try:
            async with exported_metrics(tasks, Export.of(environ), service="quorum", instance="1"):
                return asyncio.all_tasks() - before
        except CannotListen as refusal:
            found = refusal
    raise found
