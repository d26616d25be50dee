"""P1 to P4, P22: CreateTopics by the active controller, one by one, many at once, large; without traces and with."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from deploy.local.broker import stand_in
from deploy.local.client import Admin
from deploy.local.plan import ClusterPlan, make_plan
from deploy.local.processes import Running
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.service.admin_pb2 import AdminRequest, AdminRequests
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.runtime.client import open_channel
from tests.bench.measure import Table
from tests.bench.quorum_commit import ms, percentile
from tests.bench.quorum_nodes import QUIET, run_loop

WARM_UP: Final = 100
SERIAL: Final = 500
IN_FLIGHT: Final = 64
AT_ONCE: Final = 2_000
DEADLINE_S: Final = 20.0
STREAMED: Final = 8_000
LARGE: Final = 8


def run() -> list[Table]:
    """A whole control plane with three brokers; the client asks the active controller itself."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    rows, data = [], []
    for what, environ in (("off", QUIET), ("on", {})):
        directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
        plan = make_plan(directory)
        running = Running(plan)
        try:
            await _start(plan, running, environ)
            for figure in await _create(plan):
                rows.append((what, *figure.row()))
                data.append({"traces": what, **figure.data()})
        finally:
            await running.stop()
            shutil.rmtree(directory)
    columns = ("traces", "door", "in flight", "topics/s", "partitions/s", "p50", "p99", "target")
    title = "P1, P2, P3, P4: CreateTopics by the active controller, RF 3, one partition where nothing is said"
    return [Table(title=title, columns=columns, rows=rows, data=data)]


async def _start(plan: ClusterPlan, running: Running, environ: dict[str, str]) -> None:
    for node in plan.quorum:
        await running.format(node)
    for process in plan.processes:
        await running.spawn(process, environ=environ)
    await running.ready(plan.processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One way to ask, `took` in seconds for each request."""

    door: str
    in_flight: int
    took: Sequence[float]
    seconds: float
    topics: int = 1
    partitions: int = 1
    target: str

    @property
    def topics_per_s(self) -> float:
        return self.topics * len(self.took) / self.seconds

    def row(self) -> tuple[str, ...]:
        return (
            self.door,
            str(self.in_flight),
            f"{self.topics_per_s:,.0f}",
            f"{self.topics_per_s * self.partitions:,.0f}",
            ms(statistics.median(self.took)),
            ms(percentile(self.took, 99)),
            self.target,
        )

    def data(self) -> dict[str, object]:
        return {
            "door": self.door,
            "in_flight": self.in_flight,
            "topics_per_s": self.topics_per_s,
            "p50_s": statistics.median(self.took),
        }


async def _create(plan: ClusterPlan) -> list[Figure]:
    brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]
    async with asyncio.TaskGroup() as joining:
        for broker in brokers:
            joining.create_task(broker.start())
    admin = Admin(plan)
    described = (await admin.describe_quorum()).topics[0].partitions[0]
    await admin.close()
    active = next(each for each in plan.controllers if each.settings["node.id"] == str(described.leader_id))
    async with open_channel(active.address) as channel:
        figures = await _ask(ControllerStub(channel))
    for broker in brokers:
        await broker.close()
    return figures


async def _ask(stub: ControllerStub) -> list[Figure]:
    numbers = count()

    def wanted(topics: int = 1, partitions: int = 1) -> CreateTopicsRequest:
        topic = CreateTopicsRequest.CreatableTopic
        return CreateTopicsRequest(
            topics=[
                topic(name=f"bench-{next(numbers)}", num_partitions=partitions, replication_factor=3)
                for _ in range(topics)
            ],
            timeout_ms=20_000,
        )

    async def unary(topics: int = 1, partitions: int = 1) -> float:
        request, started = wanted(topics, partitions), time.perf_counter()
        check(await stub.CreateTopics(request, timeout=DEADLINE_S))
        return time.perf_counter() - started

    async def several(requests: int) -> list[float]:
        return [await unary() for _ in range(requests)]

    await several(WARM_UP)
    figures = []
    began = time.perf_counter()
    took = await several(SERIAL)
    figures.append(
        Figure(door="unary", in_flight=1, took=took, seconds=time.perf_counter() - began, target="≤ 4 ms (P1)")
    )
    began = time.perf_counter()
    each = await asyncio.gather(*(several(AT_ONCE // IN_FLIGHT) for _ in range(IN_FLIGHT)))
    figures.append(
        Figure(
            door="unary",
            in_flight=IN_FLIGHT,
            took=[seconds for one in each for seconds in one],
            seconds=time.perf_counter() - began,
            target="≥ 1,500/s (P2)",
        )
    )
    for in_flight, target in ((IN_FLIGHT, "≥ 5,000/s (P3)"), (1_000, "≥ 8,000/s (P3)")):
        took, seconds = await streamed(stub, [wanted() for _ in range(STREAMED)], in_flight=in_flight)
        figures.append(Figure(door="stream", in_flight=in_flight, took=took, seconds=seconds, target=target))
    for topics, partitions, target in ((100, 1, ""), (1, 1_000, ""), (1, 5_000, "≥ 60,000/s (P4)")):
        took = [await unary(topics, partitions) for _ in range(LARGE)]
        figures.append(
            Figure(
                door="unary",
                in_flight=1,
                took=took,
                seconds=sum(took),
                topics=topics,
                partitions=partitions,
                target=target,
            )
        )
    return figures


async def streamed(
    stub: ControllerStub, requests: Sequence[CreateTopicsRequest], *, in_flight: int
) -> tuple[list[float], float]:
    """Seconds of each, and of all: a new one leaves for each one that is answered."""
    call = stub.AdminStream()
    sent: dict[int, float] = {}
    took: list[float] = []

    async def send(first: int, end: int) -> None:
        now = time.perf_counter()
        sent.update((number, now) for number in range(first, end))
        envelopes = [
            AdminRequest(correlation_id=number, create_topics=requests[number]) for number in range(first, end)
        ]
        await call.write(AdminRequests(requests=envelopes))

    began = time.perf_counter()
    await send(0, in_flight)
    following = in_flight
    while len(took) < len(requests):
        answered: Any = await call.read()  # the stubs say object
        now = time.perf_counter()
        for answer in answered.responses:
            check(answer.create_topics)
            took.append(now - sent[answer.correlation_id])
        end = min(len(requests), following + len(answered.responses))
        if following < end:
            await send(following, end)
            following = end
    await call.done_writing()
    return took, time.perf_counter() - began


def check(answer: CreateTopicsResponse) -> None:
    """Every topic was created."""
    assert answer.topics, answer
    assert not any(topic.error_code for topic in answer.topics), answer
