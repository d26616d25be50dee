"""What TLS costs: the same commits and topics in the clear and by TLS with certificates on both sides, in turns."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from deploy.local.broker import stand_in
from deploy.local.client import Admin
from deploy.local.plan import CLIENTS, ClusterPlan, PlanTls, make_plan, secured
from deploy.local.processes import Running
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.runtime.clients.client import open_channel
from tests.bench.measure import REPEATS, Table, cpu_seconds, ms, percentile
from tests.bench.quorum_nodes import QUIET, Writer, quorum, value
from tests.bench.quorum_topics import DEADLINE_S, check
from tests.e2e.cluster import topics_request
from tests.network.certificates import authority
from tests.run_loop import run_loop

WARM_UP: Final = 200
COMMITS: Final = 500
TOPICS: Final = 300
IN_FLIGHT: Final = 64
AT_ONCE: Final = 1_280


@dataclass(slots=True)
class Figures:
    """Of one way to speak, over all repeats: seconds of each commit and each topic, topics/s, CPU seconds a topic."""

    commits: list[float] = field(default_factory=list)
    topics: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def values(self) -> dict[str, float]:
        return {
            "commit p50": statistics.median(self.commits),
            "commit p99": percentile(self.commits, 99),
            "CreateTopics p50, one by one": statistics.median(self.topics),
            f"CreateTopics/s, {IN_FLIGHT} in flight": statistics.median(self.rates),
            "CPU a CreateTopics, all processes": statistics.median(self.cpu),
        }


def run() -> list[Table]:
    """Three quorum nodes alone for the commits, a whole control plane for the topics, on loopback; traces are off."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    plain, tls = Figures(), Figures()
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    try:
        certificates = _certificates(directory)
        for _ in range(REPEATS):
            for figures, made in ((plain, None), (tls, certificates)):
                await _commits(figures, made)
                await _topics(figures, made)
    finally:
        shutil.rmtree(directory)
    rows, data = [], []
    for (what, one), other in zip(plain.values().items(), tls.values().values(), strict=True):
        texts = (f"{one:,.0f}", f"{other:,.0f}") if "/s" in what else (ms(one), ms(other))
        rows.append((what, *texts, f"{other / one - 1:+.0%}"))
        data.append({"what": what, "plain": one, "tls": other})
    title = f"TLS 1.3 with certificates on both sides, beside clear text; {REPEATS} turns each"
    return [Table(title=title, columns=("what", "in the clear", "TLS", "TLS costs"), rows=rows, data=data)]


def _certificates(directory: Path) -> Callable[[ClusterPlan], PlanTls]:
    """One certificate for all: that they differ costs nothing."""
    issuer = authority(directory)
    keystore = issuer.issue("node", "/O=bench/CN=node")

    def made(plan: ClusterPlan) -> PlanTls:
        names = [*(each.name for each in plan.processes), CLIENTS]
        return PlanTls(stores=dict.fromkeys(names, (keystore, issuer.certificate)))

    return made


async def _commits(figures: Figures, tls: Callable[[ClusterPlan], PlanTls] | None) -> None:
    record = value()
    async with quorum(tls=tls) as (plan, _), Writer(plan.quorum, plan.transport) as writer:
        await writer.active()
        for _ in range(WARM_UP):
            await writer.commit(record)
        figures.commits += [await writer.commit(record) for _ in range(COMMITS)]
        assert not writer.refusals, writer.refusals


async def _topics(figures: Figures, tls: Callable[[ClusterPlan], PlanTls] | None) -> None:
    directory = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    plan = make_plan(directory)
    plan = plan if tls is None else secured(plan, tls(plan))
    running = Running(plan)
    brokers = [stand_in(plan, broker_id) for broker_id in plan.brokers]
    try:
        for node in plan.quorum:
            await running.format(node)
        for process in plan.processes:
            await running.spawn(process, environ=QUIET)
        await running.ready(plan.processes)
        for broker in brokers:
            await broker.start()
        await _create(figures, plan, running)
    finally:
        for broker in brokers:
            await broker.close()
        await running.stop()
        shutil.rmtree(directory)


async def _create(figures: Figures, plan: ClusterPlan, running: Running) -> None:
    admin, numbers = Admin(plan), count()
    described = (await admin.describe_quorum()).topics[0].partitions[0]
    await admin.close()
    active = next(each for each in plan.controllers if each.settings["node.id"] == str(described.leader_id))

    def spent() -> float:
        return sum(cpu_seconds(running.pid(process)) for process in plan.processes)

    async with open_channel(active.address, plan.transport) as channel:
        stub = ControllerStub(channel)

        async def several(requests: int) -> list[float]:
            took = []
            for _ in range(requests):
                request = topics_request([f"bench-{next(numbers)}"], timeout_ms=int(DEADLINE_S * 1000))
                started = time.perf_counter()
                check(await stub.CreateTopics(request, timeout=DEADLINE_S))
                took.append(time.perf_counter() - started)
            return took

        await several(WARM_UP)
        figures.topics += await several(TOPICS)
        before, began = spent(), time.perf_counter()
        await asyncio.gather(*(several(AT_ONCE // IN_FLIGHT) for _ in range(IN_FLIGHT)))
        figures.rates.append(AT_ONCE / (time.perf_counter() - began))
        figures.cpu.append((spent() - before) / AT_ONCE)
