"""How long the worst requests that are not refused hold the event loop of each service, in processor time.

Every service exports its longest hold since its start (`quorate.runtime.holds`), so each request gets processes of its
own: the figure after it is its own, unless the start held the loop for longer.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc

from deploy.local.plan import Process
from deploy.local.ports import free_ports
from kraft.api.alter_partition_reassignments_pb2 import AlterPartitionReassignmentsRequest
from kraft.api.create_partitions_pb2 import CreatePartitionsRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.elect_leaders_pb2 import ElectLeadersRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from kraft.boxes_pb2 import Int32List
from tests.bench.controller_nodes import Controllers, controllers
from tests.bench.measure import Table
from tests.bench.synthetic import Shape, topic_name
from tests.run_loop import run_loop

TOPICS: Final = 10_000
"""As many items as a list may have (`services.controller.caps`), and as records as a write may have."""
SHAPE: Final = Shape(partitions=2 * TOPICS, partitions_per_topic=2, brokers=30)
REPLICATION_FACTOR: Final = 3
SESSION_TIMEOUT_MS: Final = 600_000
"""Nobody sends heartbeats."""
DEADLINE_S: Final = 60.0
QUIET_S: Final = 1.0
"""A service that has had no hold for so long is taken to have none any more."""
TRIES: Final = 3
TARGET_MS: Final = 50
TIMEOUT_MS: Final = 60_000
ENVIRON: Final = {
    "OTEL_TRACES_EXPORTER": "none",
    "OTEL_METRICS_EXPORTER": "prometheus",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
}
LONGEST: Final = re.compile(r"^kraft_loop_hold_longest_seconds(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_Topic = CreateTopicsRequest.CreatableTopic
_Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
_Config = _Resource.AlterableConfig
_Moved = AlterPartitionReassignmentsRequest.ReassignableTopic
_Elected = ElectLeadersRequest.TopicPartitions
_Deleted = DeleteTopicsRequest.DeleteTopicState
_TOPIC: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """A request at its cap, and the RPC that takes it."""

    what: str
    request: Callable[[], Any]

    @property
    def rpc(self) -> str:
        return type(self.request()).__name__.removesuffix("Request")


def _one_topic() -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[_Topic(name="large", num_partitions=TOPICS - 1, replication_factor=REPLICATION_FACTOR)],
        timeout_ms=TIMEOUT_MS,
    )


def _small_topics() -> CreateTopicsRequest:
    topics = [
        _Topic(name=f"small-{number}", num_partitions=1, replication_factor=REPLICATION_FACTOR)
        for number in range(TOPICS // 2)
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def _more_partitions() -> CreatePartitionsRequest:
    grown = CreatePartitionsRequest.CreatePartitionsTopic(name=topic_name(0), count=TOPICS + 2)
    return CreatePartitionsRequest(topics=[grown], timeout_ms=TIMEOUT_MS)


def _all_topics() -> DeleteTopicsRequest:
    return DeleteTopicsRequest(
        topics=[_Deleted(name=topic_name(number)) for number in range(TOPICS)], timeout_ms=TIMEOUT_MS
    )


def _all_configs() -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            _Resource(
                resource_type=_TOPIC,
                resource_name=topic_name(number),
                configs=[_Config(name="retention.ms", value=str(number))],
            )
            for number in range(TOPICS)
        ]
    )


def _all_moved() -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        topics=[_Moved(name=topic_name(number), partitions=[_moved(number)]) for number in range(TOPICS)],
        timeout_ms=TIMEOUT_MS,
    )


def _moved(number: int) -> _Moved.ReassignablePartition:
    """Partition 0, to brokers that few partitions have together."""
    replicas = [(number + step) % SHAPE.brokers for step in range(REPLICATION_FACTOR)]
    return _Moved.ReassignablePartition(partition_index=0, replicas=Int32List(items=replicas))


def _all_elected() -> ElectLeadersRequest:
    items = [_Elected(topic=topic_name(number), partitions=[0]) for number in range(TOPICS)]
    return ElectLeadersRequest(
        topic_partitions=ElectLeadersRequest.TopicPartitionsList(items=items), timeout_ms=TIMEOUT_MS
    )


WORST: Final = (
    Worst(what="CreateTopics: one of 9,999 partitions", request=_one_topic),
    Worst(what="CreateTopics: 5,000 of one partition", request=_small_topics),
    Worst(what="CreatePartitions: 10,000 more", request=_more_partitions),
    Worst(what="DeleteTopics: 10,000", request=_all_topics),
    Worst(what="IncrementalAlterConfigs: of 10,000 topics", request=_all_configs),
    Worst(what="AlterPartitionReassignments: 10,000", request=_all_moved),
    Worst(what="ElectLeaders: 10,000", request=_all_elected),
)


def run() -> list[Table]:
    """A whole control plane with 20,000 partitions for each request."""
    return [run_loop(_measure())]


async def _measure() -> Table:
    rows, data = [], []
    for worst in WORST:
        before, after = await _tried(worst)
        rows.append((worst.what, *(_cell(before[name], after[name]) for name in after)))
        data.append({"request": worst.what, "before_s": before, "after_s": after})
    return Table(
        title=f"The longest hold of each loop in CPU ms (target: {TARGET_MS}); < where the start held it for longer",
        columns=("request", *SERVICES),
        rows=rows,
        data=data,
    )


async def _tried(worst: Worst) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """As `_held`. Leadership may change meanwhile: then all begins anew. Raises AioRpcError at last."""
    for left in reversed(range(TRIES)):
        try:
            return await _held(worst)
        except grpc.aio.AioRpcError as failure:
            if not left:
                raise
            print(f"{worst.what}: {failure.details()}; once more")
    raise AssertionError(TRIES)


def _cell(before_s: float, after_s: float) -> str:
    return f"{after_s * 1000:.0f}" if after_s > before_s else f"< {before_s * 1000:.0f}"


SERVICES: Final = ("active controller", "standbys", "quorum nodes", "placer", "heartbeat", "observer")


async def _held(worst: Worst) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The longest hold of each kind of process, in seconds: before the request, and when all is quiet after it."""
    async with _plane() as (there, ports):
        active = await there.active()
        await there.create(active)
        before = await _quiet(ports)
        answer = await getattr(there.stub(active), worst.rpc)(worst.request(), timeout=DEADLINE_S)
        assert not getattr(answer, "error_code", 0), answer
        after = await _quiet(ports)
        return _by_service(there, active, before), _by_service(there, active, after)


@asynccontextmanager
async def _plane() -> AsyncIterator[tuple[Controllers, Mapping[str, int]]]:
    """Every process of a control plane, and the port at which each tells its metrics."""
    async with controllers(SHAPE, session_timeout_ms=SESSION_TIMEOUT_MS) as there:
        processes = there.plan.processes
        ports = dict(zip((each.name for each in processes), free_ports(len(processes)), strict=True))
        for process in processes:
            await there.running.spawn(process, environ=ENVIRON | _port(ports[process.name]))
        await there.ready(*processes)
        yield there, ports


def _port(port: int) -> dict[str, str]:
    return {"OTEL_EXPORTER_PROMETHEUS_PORT": str(port)}


async def _quiet(ports: Mapping[str, int]) -> dict[str, float]:
    """The longest hold of each process by its name, once none has grown for a while."""
    seen: dict[str, float] = {}
    while seen != (now := {name: await asyncio.to_thread(_longest, port) for name, port in ports.items()}):
        seen = now
        await asyncio.sleep(QUIET_S)
    return seen


def _longest(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE_S) as answer:
        found = LONGEST.search(answer.read().decode())
    assert found is not None, port
    return float(found[1])


def _by_service(there: Controllers, active: Process, held: Mapping[str, float]) -> dict[str, float]:
    """The longest of each service's processes; the active controller is a kind of its own."""
    plan = there.plan
    standbys = [each for each in plan.controllers if each is not active]
    groups = ([active], standbys, plan.quorum, [plan.placer], [plan.heartbeat], [plan.observer])
    return {name: max(held[process.name] for process in group) for name, group in zip(SERVICES, groups, strict=True)}
