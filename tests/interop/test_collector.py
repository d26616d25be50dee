"""A real OpenTelemetry collector gets the spans of a real run: what it writes is read as what the observer keeps."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    add_TraceServiceServicer_to_server,
)

from deploy.local.plan import make_plan
from deploy.spark import HOW_TO_GET, environment, is_installed
from quorate.runtime.calls.server import Server
from services.observer.otlp import TRACE_SERVICE, TraceServicer
from services.observer.spans import SpanStore
from tests.e2e.cluster import Cluster
from tests.interop.collector import absent, collector

ROOT: Final = Path(__file__).parents[2]
TOPICS: Final = 5
INGEST_TIMEOUT_S: Final = 500
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
SERVICES: Final = {"quorum", "controller", "heartbeat", "placer", "observer"}

pytestmark = [
    pytest.mark.interop,
    pytest.mark.e2e,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(absent() is not None, reason=str(absent())),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]


class Told(NamedTuple):
    """A span, with its attributes as text in the order of their names."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    service: str
    instance: str
    start_ns: int
    end_ns: int
    error: bool
    attributes: tuple[tuple[str, str], ...]


async def test_what_a_collector_writes_is_what_the_observer_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_file, lines = tmp_path / "spans.db", tmp_path / "collected" / "spans.jsonl"
    lines.parent.mkdir()
    store = SpanStore(f"sqlite:///{store_file}")
    # An observer's door that outlives the control plane, whose own observer is one of those that tell.
    server = Server()
    port = server.listen("127.0.0.1:0")
    server.add(TRACE_SERVICE, add_TraceServiceServicer_to_server, TraceServicer(store))
    await server.start()
    try:
        async with collector(tmp_path, to_file=lines, to_observer=f"127.0.0.1:{port}") as between:
            monkeypatch.setenv(ENDPOINT, f"http://{between.address}")
            await run_a_control_plane(tmp_path / "run")
    finally:
        monkeypatch.delenv(ENDPOINT, raising=False)
        await server.stop()
        await store.close()
    code, said = await ingest(lines, tmp_path / "lake")
    kept, read = in_store(store_file), in_lake(tmp_path / "lake")

    assert 0 == code, said
    assert SERVICES == {span.service for span in kept}
    assert {"kraft.service.Controller/CreateTopics", "write", "append", "commit", "apply"} <= {
        span.name for span in kept
    }
    assert len(kept) == len(read)
    assert kept == read
    assert f"spans: {len(kept)} new" in said


async def run_a_control_plane(directory: Path) -> None:
    """Some topics are made, and one is refused; then everything ends, and has sent all it had."""
    cluster = Cluster(make_plan(directory))
    try:
        await cluster.start()
        for number in range(TOPICS):
            await cluster.admin.create_topic(f"topic-{number}", partitions=2, replication_factor=3)
    finally:
        await cluster.stop()


async def ingest(spans: Path, lake: Path) -> tuple[int, str]:
    """`quorate pipeline ingest`: its exit code, and what it said."""
    command = ("-m", "services.pipeline", "ingest", "--master", "local[2]", "--spans", str(spans), "--to", str(lake))
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=ROOT,
        env={**os.environ, **environment()},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(INGEST_TIMEOUT_S):
        output, _ = await child.communicate()
    assert child.returncode is not None
    return child.returncode, output.decode()


def in_store(path: Path) -> list[Told]:
    """The rows as they lie there."""
    with closing(sqlite3.connect(path)) as store:
        rows = store.execute(f"select {', '.join(Told._fields)} from spans").fetchall()
    return sorted(Told(*row[:-2], bool(row[-2]), _texts(json.loads(row[-1]))) for row in rows)


def in_lake(lake: Path) -> list[Told]:
    """The rows of bronze."""
    import pyarrow.parquet as pq

    rows = pq.read_table(lake / "bronze" / "spans", columns=list(Told._fields)).to_pylist()
    return sorted(
        Told(**{**row, "parent_span_id": row["parent_span_id"] or "", "attributes": _texts(dict(row["attributes"]))})
        for row in rows
    )


def _texts(attributes: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """In the store a value has its type, in bronze it is text: numbers and truth as JSON writes them."""
    said = {name: value if isinstance(value, str) else json.dumps(value) for name, value in attributes.items()}
    return tuple(sorted(said.items()))
