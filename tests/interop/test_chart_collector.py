"""A real OpenTelemetry collector with the settings that the chart writes: by TLS it takes spans, and hands them on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls
from deploy.local.ports import free_ports
from tests.deploy.chart import named, render
from tests.e2e.calls import eventually
from tests.e2e.cluster import PATIENT, Cluster, control_plane
from tests.interop.collector import PROGRAM, absent
from tests.network.certificates import Authority, authority

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
END_S: Final = 120
TOPIC: Final = "told"
WRITE: Final = {"kraft.service.Controller/CreateTopics", "write", "append", "commit", "apply"}
"""Spans of a topic that is made, of several services."""

pytestmark = [
    pytest.mark.interop,
    pytest.mark.e2e,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(absent() is not None, reason=str(absent())),
]


def settings(issuer: Authority, *, file: Path, port: int, health: int, observer: int) -> str:
    """The collector's settings as the chart writes them, but for what a pod has: files and addresses."""
    values = {"collector": {"enabled": True, "exporters": {"file": {"path": str(file)}}}}
    text = str(named(render(values), "ConfigMap", "q-quorate-collector")["data"]["collector.yaml"])
    here = {
        "/etc/quorate/tls/tls-combined.pem": str(issuer.issue("collector", "/CN=collector")),
        "/etc/quorate/tls/ca.crt": str(issuer.certificate),
        "0.0.0.0:4317": f"127.0.0.1:{port}",
        "0.0.0.0:13133": f"127.0.0.1:{health}",
        "dns:///q-quorate-observer.kraft.svc:9097": f"dns:///localhost:{observer}",
    }
    for there, instead in here.items():
        assert there in text, there
        text = text.replace(there, instead)
    return text


@asynccontextmanager
async def running(directory: Path, text: str) -> AsyncIterator[None]:
    """The collector, until the block ends."""
    (directory / "collector.yaml").write_text(text)
    with (directory / "collector.log").open("wb") as output:
        child = await asyncio.create_subprocess_exec(
            PROGRAM, f"--config={directory / 'collector.yaml'}", stdout=output, stderr=output
        )
    try:
        yield
        assert child.returncode is None, (directory / "collector.log").read_text()
    finally:
        if child.returncode is None:
            child.terminate()
        async with asyncio.timeout(END_S):
            await child.wait()


async def test_spans_by_tls_reach_the_observer_and_an_exporter_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer, port, health = authority(tmp_path), *free_ports(2)
    lines = tmp_path / "spans.jsonl"
    monkeypatch.setenv(ENDPOINT, f"https://localhost:{port}")

    def certificates(plan: ClusterPlan) -> PlanTls:
        names = [*(each.name for each in plan.processes), CLIENTS]
        stores = {name: issuer.issue(name, f"/O=cluster/CN={name}") for name in names}
        return PlanTls(stores={name: (store, issuer.certificate) for name, store in stores.items()})

    async with control_plane(tmp_path / "run", quorum_settings=PATIENT, tls=certificates) as cluster:
        text = settings(issuer, file=lines, port=port, health=health, observer=cluster.plan.observer.port)
        async with running(tmp_path, text):
            await told(cluster, lines)
            await refused(issuer, tmp_path, port)


async def told(cluster: Cluster, lines: Path) -> None:
    """A topic is made until its spans are with the observer and in the file: what came before the collector is gone."""
    number = 0

    async def names() -> tuple[set[str], set[str]]:
        nonlocal number
        number += 1
        await cluster.create(f"{TOPIC}-{number}", at=1)
        return in_store(cluster.plan.directory), in_file(lines)

    stored, written = await eventually(names, lambda found: all(WRITE <= each for each in found))

    assert WRITE <= stored & written


def in_store(directory: Path) -> set[str]:
    """The names of the spans that the observer has."""
    (database,) = directory.glob("observer*.db")
    with closing(sqlite3.connect(database)) as store:
        return {str(name) for (name,) in store.execute("select distinct name from spans")}


def in_file(lines: Path) -> set[str]:
    """The names of the spans that the exporter besides has written, one export a line."""
    text = lines.read_text() if lines.exists() else ""
    whole = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    scopes = [scope for line in whole for each in json.loads(line)["resourceSpans"] for scope in each["scopeSpans"]]
    return {span["name"] for scope in scopes for span in scope["spans"]}


async def refused(issuer: Authority, directory: Path, port: int) -> None:
    """Nobody without a certificate of the authority hands it spans; one who has one does."""
    foreign = authority(directory, "foreign")
    trusted = issuer.certificate.read_bytes()
    known, stranger = issuer.issue("known", "/CN=known"), foreign.issue("stranger", "/CN=stranger")
    await export(grpc.ssl_channel_credentials(trusted, known.read_bytes(), known.read_bytes()), port)
    for credentials in (
        grpc.ssl_channel_credentials(trusted, stranger.read_bytes(), stranger.read_bytes()),
        grpc.ssl_channel_credentials(trusted),
    ):
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await export(credentials, port)


async def export(credentials: grpc.ChannelCredentials, port: int) -> None:
    """No spans at all, handed over as this one."""
    async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
        await TraceServiceStub(channel).Export(ExportTraceServiceRequest(), timeout=30)
