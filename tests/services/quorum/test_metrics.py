"""A quorum node's metrics: its page has all of them, and real nodes say right values by scrape and by push."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)

from deploy.local.plan import ClusterPlan, make_plan
from deploy.local.ports import free_ports
from deploy.local.processes import Running
from kraft.service.quorum_pb2 import FindQuorumResponse
from quorate.nouns import ReplicaKey
from quorate.raft.log import BatchInfo
from quorate.raft.ready import Ready
from quorate.raft.roles import Follower, Leader, Role
from quorate.runtime.telemetry.metrics import DECLARED
from services.quorum.metrics import ROWS, markdown
from services.quorum.recorder import Recorder
from tests.bench.quorum_nodes import Writer, caught_up, find, value

PAGE = Path(__file__).parents[3] / "services" / "quorum" / "SETTINGS.md"
COMMITS = 7
WITHIN_S = 120
PATIENT = {"controller.absence.timeout.ms": "0", "controller.quorum.fetch.timeout.ms": "600000"}
"""No controller is there, and a busy machine is no reason to elect again."""
FIRST = 1
WAITS = {"controller.quorum.election.timeout.ms": "600000"}
"""Of all but the first, which so is elected, and once: two candidates at a time may need several elections."""

Values = dict[str, float]


def test_the_readme_has_the_table() -> None:
    assert "\n".join(markdown()) in PAGE.read_text()


def test_each_row_is_declared_once_and_each_name_of_kafkas_stands_once() -> None:
    assert {row.name: (row.kind, row.unit, row.help) for row in ROWS} == {
        name: (each.kind, each.unit, each.help) for name, each in DECLARED.items() if name.startswith("kraft.quorum.")
    }
    theirs = [name for row in ROWS for name in row.kafka]

    assert sorted(set(theirs)) == sorted(theirs)


def test_a_leader_counts_what_it_appends_and_a_follower_what_it_fetches() -> None:
    recorder = Recorder(now_ns=lambda: 0)
    ready = Ready(append=(BatchInfo(base_offset=5, last_offset=7, epoch=2),))
    recorder.carried_out(ready, leader(epoch=2), leo=2)

    assert (3, 0) == (recorder.counts.appended, recorder.counts.fetched)

    recorder.carried_out(ready, Follower(epoch=2, leader_id=2, voted=None, fetch_deadline_ms=0), leo=2)

    assert (3, 3) == (recorder.counts.appended, recorder.counts.fetched)


def leader(*, epoch: int) -> Role:
    return Leader(epoch=epoch, leader_id=1, voted=ReplicaKey(1), epoch_start_offset=0, check_quorum_deadline_ms=1)


class Receiver(MetricsServiceServicer):
    """Where OTLP metrics are pushed to: the last of each process."""

    def __init__(self) -> None:
        self.pushed: dict[str, ExportMetricsServiceRequest] = {}
        self.came = asyncio.Event()

    async def Export(self, request: ExportMetricsServiceRequest, context: object) -> ExportMetricsServiceResponse:
        attributes = {each.key: each.value.string_value for each in request.resource_metrics[0].resource.attributes}
        self.pushed[attributes["service.instance.id"]] = request
        self.came.set()
        return ExportMetricsServiceResponse()


@asynccontextmanager
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    server, servicer = grpc.aio.server(), Receiver()
    add_MetricsServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield servicer, f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def scraped(port: int) -> Values:
    """Every value of a node by its name, with its labels as Prometheus writes them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    lines = text.partition("\r\n\r\n")[2].splitlines()
    return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def pushed(request: ExportMetricsServiceRequest) -> dict[str, list[float]]:
    """Gauges and sums by name, and how many values each histogram has."""
    found = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        points = getattr(metric, metric.WhichOneof("data") or "").data_points
        found[metric.name] = [
            float(point.count) if metric.HasField("histogram") else float(point.as_int or point.as_double)
            for point in points
        ]
    return found


class Nodes:
    """Three quorum nodes and no controller, with their metrics to be had in both ways."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self.plan: ClusterPlan = make_plan(directory)
        self.running = Running(self.plan)
        self.port = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self._endpoint = endpoint

    async def start(self) -> None:
        for node_id, node in enumerate(self.plan.quorum, 1):
            node.settings.update(PATIENT if node_id == FIRST else {**PATIENT, **WAITS})
            await self.running.format(node)
            await self.running.spawn(node, environ=self._environ(node_id))
        await self.running.ready(self.plan.quorum)

    def _environ(self, node_id: int) -> Mapping[str, str]:
        return {
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "otlp,prometheus",
            "OTEL_METRIC_EXPORT_INTERVAL": "100",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": self._endpoint,
            "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
            "OTEL_EXPORTER_PROMETHEUS_PORT": str(self.port[node_id]),
        }


@pytest.mark.e2e
async def test_real_nodes_say_right_values(tmp_path: Path) -> None:
    async with receiver() as (collector, endpoint):
        nodes = Nodes(tmp_path, endpoint)
        try:
            await nodes.start()
            async with Writer(nodes.plan.quorum) as writer:
                await writer.active()
                for _ in range(COMMITS):
                    await writer.commit(value())
                assert writer.leader is not None
                leads, end = int(writer.leader.settings["node.id"]), writer.committed
                for node in nodes.plan.quorum:
                    await caught_up(node, end)
                await settled(nodes, end, leads)
                views = {node_id: await find(node) for node_id, node in enumerate(nodes.plan.quorum, 1)}
                values = {node_id: await scraped(port) for node_id, port in nodes.port.items()}
                await came_after(collector, end, leads)
            for node_id, view in views.items():
                check_any(values[node_id], view)
                check_leader(values[node_id], end) if node_id == leads else check_follower(values[node_id], end)
            check_pushed(pushed(collector.pushed[f"quorum-{leads}"]), values[leads])
        finally:
            await nodes.running.stop()


async def settled(nodes: Nodes, end: int, leads: int) -> None:
    """Until all is on every disk, and the leader knows it: that may be later than a commit."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            flushed = [(await scraped(port))["kraft_quorum_log_flushed_offset"] for port in nodes.port.values()]
            if [end] * 3 == flushed and [0, 0, 0] == lags(await scraped(nodes.port[leads])):
                return
            await asyncio.sleep(0.01)


def lags(values: Values) -> list[float]:
    return [number for name, number in values.items() if name.startswith("kraft_quorum_replica_lag{")]


async def came_after(collector: Receiver, end: int, leads: int) -> None:
    """Until the leader has pushed a high watermark of `end`."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            request = collector.pushed.get(f"quorum-{leads}")
            if request is not None and pushed(request)["kraft.quorum.high_watermark"] == [end]:
                return
            await collector.came.wait()
            collector.came.clear()


def check_any(values: Values, view: FindQuorumResponse) -> None:
    """What every node says is what FindQuorum says of it."""
    said = {
        "kraft_quorum_leader_id": view.leader_id,
        "kraft_quorum_epoch": view.leader_epoch,
        "kraft_quorum_log_end_epoch": view.leader_epoch,
        "kraft_quorum_high_watermark": view.high_watermark,
        "kraft_quorum_log_end_offset": view.high_watermark,
        "kraft_quorum_log_flushed_offset": view.high_watermark,
        "kraft_quorum_log_start_offset": 0,
        "kraft_quorum_voters": 3,
        "kraft_quorum_voters_unreached": 0,
        "kraft_quorum_voters_static_ignored": 0,
        "kraft_quorum_snapshot_size_bytes": 0,
        f'kraft_quorum_state{{kraft_role="{view.role.lower()}"}}': 1,
    }

    assert said == {name: values.get(name) for name in said}
    assert 1 == sum(number for name, number in values.items() if name.startswith("kraft_quorum_state{"))
    assert values["kraft_quorum_log_size_bytes"] > 0
    assert values["kraft_quorum_flush_duration_seconds_count"] >= 1
    assert values["kraft_quorum_busy_time_seconds_total"] > 0
    assert values["kraft_loop_hold_longest_seconds"] >= 0


def check_leader(values: Values, end: int) -> None:
    said = {
        "kraft_quorum_observers": 0,
        "kraft_quorum_voters_changing": 0,
        "kraft_quorum_append_records_total": end,
        "kraft_quorum_fetch_records_total": 0,
        "kraft_quorum_commit_duration_seconds_count": COMMITS + 1,  # and its LeaderChange
        "kraft_quorum_election_duration_seconds_count": 1,
    }

    assert said == {name: values.get(name) for name in said}
    assert [
        f'kraft_quorum_replica_lag{{kraft_node_id="{node_id}",kraft_replica_kind="voter"}}' for node_id in (1, 2, 3)
    ] == sorted(name for name in values if name.startswith("kraft_quorum_replica_lag{"))
    assert values["kraft_quorum_commit_duration_seconds_sum"] > 0


def check_follower(values: Values, end: int) -> None:
    assert end == values["kraft_quorum_fetch_records_total"]
    assert 0 == values["kraft_quorum_append_records_total"]
    assert not [
        name for name in values if re.match("kraft_quorum_(replica_lag|observers|voters_changing|commit)", name)
    ]


def check_pushed(pushed: dict[str, list[float]], values: Values) -> None:
    """The same by OTLP, under the names of the table; what rises may have risen."""
    of_any_service = {"kraft.loop.hold.duration", "kraft.loop.hold.longest"}
    assert {row.name for row in ROWS} - {"kraft.quorum.snapshot.age"} == pushed.keys() - of_any_service
    for name in ("leader.id", "epoch", "high_watermark", "log.end_offset", "voters"):
        assert [values["kraft_quorum_" + name.replace(".", "_")]] == pushed["kraft.quorum." + name]
    assert [COMMITS + 1] == pushed["kraft.quorum.commit.duration"]
