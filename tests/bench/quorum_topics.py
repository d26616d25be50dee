"""P1 to P4, P22: CreateTopics by the active controller, one by one, many at once, large; without traces and with."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from deploy.local.broker import stand_in
from deploy.local.client import Admin
from deploy.local.plan import ClusterPlan, Process, ProcessHost, make_plan
from deploy.local.processes import Running
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.service.admin_pb2 import AdminRequest, AdminRequests
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.runtime.clients.client import open_channel
from tests.bench.measure import Table, cpu_seconds, ms, percentile
from tests.bench.quorum_nodes import QUIET
from tests.run_loop import run_loop

WARM_UP: Final = 100
SERIAL: Final = 500
IN_FLIGHT: Final = 64
AT_ONCE: Final = 2_000
DEADLINE_S: Final = 20.0
STREAMED: Final = 8_000
LARGE: Final = 8
CPU_COLUMNS: Final = ("CPU a topic", "of the active controller")
"""CPU a topic is that of all processes."""

Used = Callable[[], tuple[float, float]]
"""Seconds of CPU so far: of all processes, and of the active controller."""


def run() -> list[Table]:
    """A whole control plane with three brokers; the client asks the active controller itself."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    rows, data = [], []
    for what, environ in (("off", QUIET), ("on", {})):
        async with control_plane(environ) as (plan, running):
            for figure in await _create(plan, running):
                rows.append((what, *figure.row()))
                data.append({"traces": what, **figure.data()})
    columns = ("traces", "door", "in flight", "topics/s", "partitions/s", "p50", "p99", *CPU_COLUMNS, "target")
    title = "P1, P2, P3, P4: CreateTopics by the active controller, RF 3, one partition where nothing is said"
    return [Table(title=title, columns=columns, rows=rows, data=data)]


@asynccontextmanager
async def control_plane(
    environ: Mapping[str, str],
    *,
    nodes_at: Mapping[int, ProcessHost] | None = None,
    quorum_settings: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[ClusterPlan, Running]]:
    """Nine processes on free ports and in a directory of their own, until the block ends."""
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    plan = make_plan(directory, nodes_at=nodes_at)
    running = Running(plan)
    try:
        for node in plan.quorum:
            node.settings.update(quorum_settings or {})
            await running.format(node)
        for process in plan.processes:
            await running.spawn(process, environ=environ)
        await running.ready(plan.processes)
        yield plan, running
    finally:
        await running.stop()
        shutil.rmtree(directory)


@asynccontextmanager
async def active_controller(plan: ClusterPlan) -> AsyncIterator[Process]:
    """The active controller, with the plan's brokers unfenced until the block ends."""
    brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]
    async with asyncio.TaskGroup() as joining:
        for broker in brokers:
            joining.create_task(broker.start())
    admin = Admin(plan)
    described = (await admin.describe_quorum()).topics[0].partitions[0]
    await admin.close()
    yield next(each for each in plan.controllers if each.settings["node.id"] == str(described.leader_id))
    for broker in brokers:
        await broker.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One way to ask, `took` in seconds for each request; CPU of all processes and of the active controller."""

    door: str
    in_flight: int
    took: Sequence[float]
    seconds: float
    cpu_s: float
    cpu_active_s: float
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
            *(ms(cpu_s / (self.topics * len(self.took))) for cpu_s in (self.cpu_s, self.cpu_active_s)),
            self.target,
        )

    def data(self) -> dict[str, object]:
        return {
            "door": self.door,
            "in_flight": self.in_flight,
            "topics_per_s": self.topics_per_s,
            "p50_s": statistics.median(self.took),
            "cpu_s": self.cpu_s,
            "cpu_active_s": self.cpu_active_s,
        }


async def _create(plan: ClusterPlan, running: Running) -> list[Figure]:
    async with active_controller(plan) as active, open_channel(active.address) as channel:

        def used() -> tuple[float, float]:
            return sum(cpu_seconds(running.pid(each)) for each in plan.processes), cpu_seconds(running.pid(active))

        return await _ask(ControllerStub(channel), used)


async def _ask(stub: ControllerStub, used: Used) -> list[Figure]:
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

    async def at_once() -> list[float]:
        each = await asyncio.gather(*(several(AT_ONCE // IN_FLIGHT) for _ in range(IN_FLIGHT)))
        return [seconds for one in each for seconds in one]

    async def large(topics: int, partitions: int) -> list[float]:
        return [await unary(topics, partitions) for _ in range(LARGE)]

    await several(WARM_UP)
    one, many = partial(_timed, used, door="unary", in_flight=1), partial(_timed, used, in_flight=IN_FLIGHT)
    figures = [
        await one(several(SERIAL), target="≤ 4 ms (P1)"),
        await many(at_once(), door="unary", target="≥ 1,500/s (P2)"),
    ]
    for in_flight, target in ((IN_FLIGHT, "≥ 5,000/s (P3)"), (1_000, "≥ 8,000/s (P3)")):
        asked = streamed(stub, [wanted() for _ in range(STREAMED)], in_flight=in_flight)
        figures.append(await _timed(used, asked, door="stream", in_flight=in_flight, target=target))
    for topics, partitions, target in ((100, 1, ""), (1, 1_000, ""), (1, 5_000, "≥ 60,000/s (P4)")):
        figures.append(await one(large(topics, partitions), topics=topics, partitions=partitions, target=target))
    return figures


async def _timed(
    used: Used,
    asked: Awaitable[Sequence[float]],
    *,
    door: str,
    in_flight: int,
    target: str,
    topics: int = 1,
    partitions: int = 1,
) -> Figure:
    """What was asked, with the time on the wall and of the processors until the last answer."""
    before, began = used(), time.perf_counter()
    took = await asked
    seconds = time.perf_counter() - began
    cpu_s, cpu_active_s = (end - begin for begin, end in zip(before, used(), strict=True))
    return Figure(
        door=door,
        in_flight=in_flight,
        took=took,
        seconds=seconds,
        cpu_s=cpu_s,
        cpu_active_s=cpu_active_s,
        topics=topics,
        partitions=partitions,
        target=target,
    )


async def streamed(stub: ControllerStub, requests: Sequence[CreateTopicsRequest], *, in_flight: int) -> list[float]:
    """Seconds of each: a new one leaves for each one that is answered."""
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
    return took


def check(answer: CreateTopicsResponse) -> None:
    """Every topic was created."""
    assert answer.topics, answer
    assert not any(topic.error_code for topic in answer.topics), answer
