"""Metrics through OpenTelemetry: declared once with unit and help, exported by push (OTLP) or by scrape (Prometheus).

    APPENDS = counter("kraft.append.count", "{append}", "Batches appended to the log.")
    APPENDS.add(1)

    LAG = observed("kraft.lag", "gauge", "{record}", "Records behind.")
    LAG.read_by(lambda: [(leo - high_watermark, {})])

If they are off, they cost a call that does nothing. OTEL_METRICS_EXPORTER selects the export: otlp, prometheus, both
separated by a comma, or none (the default). Labels have few values: never a topic's name.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    MetricExporter,
    NumberDataPoint,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource

from quorate.runtime.connections.transport import WITHOUT_PROXY, Options
from quorate.runtime.event_loop.holds import watch_holds
from quorate.runtime.event_loop.loop import CannotListen
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.config import ConfigError
from quorate.runtime.telemetry.otlp_settings import channel_options, checked_variables

__all__ = [
    "DECLARED",
    "Declared",
    "Export",
    "Metrics",
    "Observed",
    "counter",
    "exported_metrics",
    "histogram",
    "observed",
    "start_metrics",
]

log = logger(__name__)

Point: TypeAlias = NumberDataPoint | HistogramDataPoint
Value: TypeAlias = tuple[float, Mapping[str, str | int]]
"""A metric's value and its labels."""

EXPORTERS: Final = {"none", "otlp", "prometheus"}
PROMETHEUS_HOST: Final = "localhost"
PROMETHEUS_PORT: Final = 9464
EXPORT_INTERVAL_MS: Final = 60_000
"""The host and port of the Prometheus endpoint, and the export interval in ms: OpenTelemetry's defaults."""
CLOSE_TIMEOUT_MS: Final = 1_000
"""The time in ms that the last push may delay the end of the process."""

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of a duration, in seconds: from a commit on a fast disk to an RPC's deadline."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of a metric, as the reference lists it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    help: str


DECLARED: Final[dict[str, Declared]] = {}
"""Every declared metric by name."""

_METER: Final = metrics.get_meter("quorate")


def counter(name: str, unit: str, help: str) -> metrics.Counter:
    """Declares a counter, which only rises; each name once in a process, and `help` is a sentence."""
    _declare(Declared(name, "counter", unit, help))
    return _METER.create_counter(name, unit, help)


def histogram(name: str, unit: str, help: str, *, buckets: Sequence[float] = SECONDS) -> metrics.Histogram:
    """Declares a histogram; `buckets` are upper bounds in `unit`, ascending."""
    assert list(buckets) == sorted(set(buckets)), buckets
    _declare(Declared(name, "histogram", unit, help))
    return _METER.create_histogram(name, unit, help, explicit_bucket_boundaries_advisory=buckets)


class Observed:
    """A metric whose value is read when it is exported, on the event loop."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: Callable[[], Iterable[Value]] = tuple

    def read_by(self, read: Callable[[], Iterable[Value]]) -> None:
        """Sets the function that returns the values: one value for each set of labels."""
        self._read = read

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(value, labels) for value, labels in self._read()]


def observed(name: str, kind: Literal["counter", "gauge"], unit: str, help: str) -> Observed:
    """Declares a metric whose value is stored elsewhere and read at export; a counter only rises."""
    _declare(Declared(name, kind, unit, help))
    found = Observed()
    create = _METER.create_observable_counter if kind == "counter" else _METER.create_observable_gauge
    create(name, [found._observe], unit, help)
    return found


class Metrics:
    """The metrics of a running process, and their export. They are read on the event loop, which owns their sources."""

    __slots__ = ("_provider", "_reader")

    def __init__(self, provider: MeterProvider, reader: InMemoryMetricReader) -> None:
        self._provider = provider
        self._reader = reader

    def text(self) -> str:
        """Reads every metric, and returns the values in Prometheus' text format."""
        data = self._reader.get_metrics_data()
        lines: list[str] = []
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = getattr(metric.data, "data_points", ())
                    lines += _exposition(DECLARED[metric.name], points) if metric.name in DECLARED else ()
        return "".join(f"{line}\n" for line in lines)

    async def serve(self, host: str, port: int) -> tuple[asyncio.Server, int]:
        """Starts an HTTP server that answers every request with `text`. Returns it, to be closed, and its port.

        Raises OSError for an address that cannot be bound.
        """
        server = await asyncio.start_server(self._answer, host, port, limit=8192)
        return server, server.sockets[0].getsockname()[1]

    async def push(self, exporter: MetricExporter, *, every_s: float) -> None:
        """Exports all values every `every_s` seconds until cancelled, then once more, and shuts the exporter down."""
        try:
            while True:
                await asyncio.sleep(every_s)
                await self._export(exporter)
        finally:
            await self._export(exporter, timeout_ms=CLOSE_TIMEOUT_MS)
            await asyncio.to_thread(exporter.shutdown, CLOSE_TIMEOUT_MS)

    def close(self) -> None:
        """Stops the recording of metrics."""
        self._provider.shutdown()

    async def _export(self, exporter: MetricExporter, *, timeout_ms: float = 10_000) -> None:
        data = self._reader.get_metrics_data()
        if data is not None:
            await asyncio.to_thread(exporter.export, data, timeout_ms)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                await reader.readuntil(b"\r\n\r\n")
                body = self.text().encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the scraper disconnected or did not speak HTTP
        finally:
            writer.close()


def start_metrics(*, service: str, instance: str) -> Metrics:
    """Has this process record every declared metric from now on; once in a process. The result exports them."""
    reader = InMemoryMetricReader()
    resource = Resource.create({SERVICE_NAME: service, SERVICE_INSTANCE_ID: instance})
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    return Metrics(provider, reader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The settings of the metrics export. `endpoint` is the OTLP endpoint for pushes; None is the default one."""

    exporters: frozenset[str] = frozenset()
    host: str = PROMETHEUS_HOST
    port: int = PROMETHEUS_PORT
    endpoint: str | None = None
    interval_ms: int = EXPORT_INTERVAL_MS
    options: Options = WITHOUT_PROXY
    """gRPC's options of the channel for pushes."""

    @staticmethod
    def of(environ: Mapping[str, str]) -> Export:
        """Returns the settings in OpenTelemetry's environment variables. Raises ConfigError.

        OTEL_METRICS_EXPORTER; OTEL_EXPORTER_PROMETHEUS_HOST and _PORT for a scrape; OTEL_EXPORTER_OTLP_METRICS_ENDPOINT
        (or …_ENDPOINT), OTEL_METRIC_EXPORT_INTERVAL (ms) and QUORATE_OTLP_PROXY for a push.
        """
        endpoint = environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        return Export(
            exporters=_exporters(environ),
            host=environ.get("OTEL_EXPORTER_PROMETHEUS_HOST", PROMETHEUS_HOST),
            port=_number(environ, "OTEL_EXPORTER_PROMETHEUS_PORT", PROMETHEUS_PORT),
            endpoint=endpoint or None,
            interval_ms=_number(environ, "OTEL_METRIC_EXPORT_INTERVAL", EXPORT_INTERVAL_MS),
            options=channel_options(environ),
        )


@asynccontextmanager
async def exported_metrics(
    tasks: asyncio.TaskGroup, export: Export, *, service: str, instance: str
) -> AsyncIterator[None]:
    """Exports metrics as `export` says while the block runs, in `tasks` and by a scrape server; once in a process.

    Without exporters nothing is recorded. Raises CannotListen, and ConfigError for variables that cannot be read.
    """
    if not export.exporters:
        yield
        return
    running = start_metrics(service=service, instance=instance)
    server, pushing = None, None
    holding: asyncio.Task[None] | None = None
    try:
        if "prometheus" in export.exporters:
            server = await _scrape_server(running, export.host, export.port)
        if "otlp" in export.exporters:
            pushing = tasks.create_task(running.push(_otlp_exporter(export), every_s=export.interval_ms / 1000))
        holding = tasks.create_task(watch_holds(_hold_recorder()))
        yield
    finally:
        if server is not None:
            server.close()
        if pushing is not None:
            pushing.cancel()
            await asyncio.wait([pushing])
        if holding is not None:
            holding.cancel()
        running.close()


def _hold_recorder() -> Callable[[float], None]:
    """Returns a function that records each block of the event loop in the two metrics for it."""
    longest_s = 0.0

    def note(held_s: float) -> None:
        nonlocal longest_s
        longest_s = max(longest_s, held_s)
        HOLDS.record(held_s)

    LONGEST_HOLD.read_by(lambda: [(longest_s, {})])
    return note


async def _scrape_server(running: Metrics, host: str, port: int) -> asyncio.Server:
    try:
        server, _ = await running.serve(host, port)
    except OSError as error:
        why = f"OTEL_EXPORTER_PROMETHEUS_HOST = {host}, OTEL_EXPORTER_PROMETHEUS_PORT = {port}: {error.strerror}"
        raise CannotListen(why) from None
    log.info("serves metrics", host=host, port=port)
    return server


def _exporters(environ: Mapping[str, str]) -> frozenset[str]:
    text = environ.get("OTEL_METRICS_EXPORTER", "none")
    found = frozenset(name.strip() for name in text.split(","))
    if not found <= EXPORTERS:
        known = ", ".join(sorted(EXPORTERS))
        raise ConfigError([f"OTEL_METRICS_EXPORTER = {text!r}: must be a list of {known}"])
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    return frozenset() if is_off else found - {"none"}


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if text and not text.isdecimal():
        raise ConfigError([f"{name} = {text!r}: must be a number"])
    return int(text or default)


def _otlp_exporter(export: Export) -> MetricExporter:
    # Imported only here: it takes as long as all other imports together.
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    with checked_variables(os.environ):
        # The SDK says that a value is a text, and passes numbers on as well.
        return OTLPMetricExporter(endpoint=export.endpoint, channel_options=cast(Any, tuple(export.options)))


def _declare(declared: Declared) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_.]*", declared.name), declared.name
    assert declared.name not in DECLARED, f"{declared.name} is declared twice"
    assert declared.help.endswith("."), declared
    DECLARED[declared.name] = declared


def _exposition(declared: Declared, points: Iterable[Point]) -> list[str]:
    """Returns one metric in Prometheus' text format: `kraft.append.count` becomes kraft_append_count_total."""
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


HOLDS: Final = histogram(
    "kraft.loop.hold.duration",
    "s",
    "Processor time of a run of the event loop, in which nothing else was answered: of each that took 15 ms or more.",
)
LONGEST_HOLD: Final = observed("kraft.loop.hold.longest", "gauge", "s", "The longest of these since the start.")
