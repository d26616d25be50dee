"""Metrics as Prometheus scrapes them. A process has one set, so the tests share it."""

from __future__ import annotations

import asyncio

import pytest

from quorate.runtime.metrics import DECLARED, Metrics, counter, gauge, histogram, start_metrics

APPENDS = counter("kraft.test.append.count", "{append}", "Batches appended.")
LAG = gauge("kraft.test.lag", "{record}", "Records behind.")
FLUSH = histogram("kraft.test.flush.duration", "s", "Flush time.", buckets=(0.001, 0.01))


@pytest.fixture(scope="module")
def running() -> Metrics:
    APPENDS.add(100)  # before the start: not recorded, and no error
    return start_metrics(service="quorum", instance="1", environ={})


def test_values_stand_in_prometheus_text(running: Metrics) -> None:
    APPENDS.add(2, {"kraft.role": "leader"})
    APPENDS.add(1, {"kraft.role": 'a "b"\n\\'})
    LAG.set(7)
    LAG.set(5)
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
        gauge("kraft.test.lag", "{record}", "Again.")


def test_what_is_declared_can_be_listed() -> None:
    declared = DECLARED["kraft.test.flush.duration"]

    assert ("histogram", "s", "Flush time.") == (declared.kind, declared.unit, declared.help)
