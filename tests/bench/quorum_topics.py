"""P1, P2, P22: CreateTopics through the active controller, one at a time and 64 in flight, without traces and with."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from deploy.local.__main__ import stand_in
from deploy.local.client import Admin
from deploy.local.plan import Plan, make_plan
from deploy.local.processes import Running
from kraft.api.create_topics_pb2 import CreateTopicsRequest
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
TARGETS: Final = ("≤ 4 ms (P1)", "≥ 1,500/s (P2)")


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
            serial, rate, took = await _create(plan)
        finally:
            await running.stop()
            shutil.rmtree(directory)
        rows += [
            (
                what,
                "1",
                f"{1 / statistics.fmean(serial):,.0f}",
                ms(statistics.median(serial)),
                ms(percentile(serial, 99)),
                TARGETS[0],
            ),
            (what, str(IN_FLIGHT), f"{rate:,.0f}", ms(statistics.median(took)), ms(percentile(took, 99)), TARGETS[1]),
        ]
        data.append({"traces": what, "serial_p50_s": statistics.median(serial), "rate": rate})
    columns = ("traces", "in flight", "topics/s", "p50", "p99", "target")
    return [
        Table(title="P1, P2: CreateTopics, one topic of one partition, RF 3", columns=columns, rows=rows, data=data)
    ]


async def _start(plan: Plan, running: Running, environ: dict[str, str]) -> None:
    for node in plan.quorum:
        await running.format(node)
    for process in plan.processes:
        await running.spawn(process, environ=environ)
    await running.ready(plan.processes)


async def _create(plan: Plan) -> tuple[list[float], float, list[float]]:
    """Seconds of each, one at a time; then how many a second, and seconds of each, many at once."""
    brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]
    async with asyncio.TaskGroup() as joining:
        for broker in brokers:
            joining.create_task(broker.start())
    admin = Admin(plan)
    described = (await admin.describe_quorum()).topics[0].partitions[0]
    await admin.close()
    active = next(each for each in plan.controllers if each.settings["node.id"] == str(described.leader_id))
    numbers = iter(range(1_000_000))
    async with open_channel(active.address) as channel:
        stub = ControllerStub(channel)

        async def create() -> float:
            topic = CreateTopicsRequest.CreatableTopic(
                name=f"bench-{next(numbers)}", num_partitions=1, replication_factor=3
            )
            started = time.perf_counter()
            answer = await stub.CreateTopics(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), timeout=DEADLINE_S)
            assert not answer.topics[0].error_code, answer
            return time.perf_counter() - started

        async def several(count: int) -> list[float]:
            return [await create() for _ in range(count)]

        await several(WARM_UP)
        serial = await several(SERIAL)
        began = time.perf_counter()
        took = await asyncio.gather(*(several(AT_ONCE // IN_FLIGHT) for _ in range(IN_FLIGHT)))
        rate = sum(map(len, took)) / (time.perf_counter() - began)
    for broker in brokers:
        await broker.close()
    return serial, rate, [seconds for one in took for seconds in one]
