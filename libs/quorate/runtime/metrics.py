"""Metrics, each declared once with unit and help: recorded through OpenTelemetry, read by push or by scrape.

    APPENDS = counter("kraft.append.count", "{append}", "Batches appended to the log.")
    APPENDS.add(1)

Until `start_metrics` they cost a call that does nothing. OTEL_METRICS_EXPORTER=otlp pushes to the OTLP endpoint.
Labels have few values: never a topic's name.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, MetricReader, NumberDataPoint
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource

__all__ = ["DECLARED", "Declared", "Metrics", "counter", "gauge", "histogram", "start_metrics"]

Point: TypeAlias = NumberDataPoint | HistogramDataPoint

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets of a duration: from a commit on a fast disk to an RPC's patience."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the reference says of a metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str


DECLARED: Final[dict[str, Declared]] = {}
"""Every metric of the program by name."""

_METER: Final = metrics.get_meter("quorate")


def counter(name: str, unit: str, help: str) -> metrics.Counter:
    """A count that only rises."""
    _declare(Declared(name, "counter", unit, help))
    return _METER.create_counter(name, unit, help)


def gauge(name: str, unit: str, help: str) -> metrics._Gauge:
    """A value that rises and falls."""
    _declare(Declared(name, "gauge", unit, help))
    return _METER.create_gauge(name, unit, help)


def histogram(name: str, unit: str, help: str, *, buckets: Sequence[float] = SECONDS) -> metrics.Histogram:
    """A distribution; `buckets` are upper bounds in `unit`, rising."""
    assert list(buckets) == sorted(set(buckets)), buckets
    _declare(Declared(name, "histogram", unit, help))
    return _METER.create_histogram(name, unit, help, explicit_bucket_boundaries_advisory=buckets)


class Metrics:
    """The metrics of a running process."""

    __slots__ = ("_provider", "_reader")

    def __init__(self, provider: MeterProvider, reader: InMemoryMetricReader) -> None:
        self._provider = provider
        self._reader = reader

    def text(self) -> str:
        """All values now, in Prometheus' text form."""
        data = self._reader.get_metrics_data()
        lines: list[str] = []
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = getattr(metric.data, "data_points", ())
                    lines += _exposition(DECLARED[metric.name], points) if metric.name in DECLARED else ()
        return "".join(f"{line}\n" for line in lines)

    async def serve(self, host: str, port: int) -> tuple[asyncio.Server, int]:
        """Answers every HTTP request with `text`; the server to be closed, and the port it got."""
        server = await asyncio.start_server(self._answer, host, port, limit=8192)
        return server, server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Pushes what waits, then stops."""
        await asyncio.to_thread(self._provider.shutdown)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
                body = self.text().encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a scraper that went away or spoke no HTTP
        finally:
            writer.close()


def start_metrics(*, service: str, instance: str, environ: Mapping[str, str]) -> Metrics:
    """Begins to record every declared metric, once in a process."""
    scrape = InMemoryMetricReader()
    readers: list[MetricReader] = [scrape]
    if environ.get("OTEL_METRICS_EXPORTER") == "otlp":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    resource = Resource.create({SERVICE_NAME: service, SERVICE_INSTANCE_ID: instance})
    provider = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    return Metrics(provider, scrape)


def _declare(declared: Declared) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_.]*", declared.name), declared.name
    assert declared.name not in DECLARED, f"{declared.name} is declared twice"
    assert declared.help.endswith("."), declared
    DECLARED[declared.name] = declared


def _exposition(declared: Declared, points: Iterable[Point]) -> list[str]:
    """One metric as Prometheus reads it: `kraft.append.count` is kraft_append_count_total."""
    name = _prometheus_name(declared)
    lines = [f"# HELP {name} {declared.help}", f"# TYPE {name} {declared.kind}"]
    for point in points:
        labels = {key.replace(".", "_"): str(value) for key, value in (point.attributes or {}).items()}
        if isinstance(point, HistogramDataPoint):
            total = 0
            for bound, count in zip((*point.explicit_bounds, None), point.bucket_counts, strict=True):
                total += count
                bucket = {**labels, "le": "+Inf" if bound is None else f"{bound:g}"}
                lines.append(f"{name}_bucket{_labels(bucket)} {total}")
            lines += [f"{name}_sum{_labels(labels)} {point.sum}", f"{name}_count{_labels(labels)} {point.count}"]
        else:
            lines.append(f"{name}{_labels(labels)} {point.value}")
    return lines


def _prometheus_name(declared: Declared) -> str:
    unit = {"s": "_seconds", "By": "_bytes", "ms": "_milliseconds"}.get(declared.unit, "")
    name = declared.name.replace(".", "_")
    name += "" if name.endswith(unit) else unit
    return name + "_total" if declared.kind == "counter" and not name.endswith("_total") else name


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (
        (key, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for key, value in labels.items()
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"
