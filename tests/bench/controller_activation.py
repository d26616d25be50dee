"""P8, P14: how long a cluster of many partitions has no active controller, after a failover and from a cold start."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Final

from deploy.local.plan import Process
from quorate.controller.activation import activate
from quorate.controller.configs.settings import ControllerSettings
from tests.bench.controller_core import standby
from tests.bench.controller_nodes import Controllers, controllers
from tests.bench.measure import REPEATS, Table, cpu_seconds, memory, ms
from tests.bench.quorum_nodes import caught_up, find
from tests.bench.synthetic import Shape
from tests.run_loop import run_loop

SIZES: Final = (0, 100_000, 1_000_000)
TARGETS: Final = {1_000_000: "≤ 6 s, ≤ 600 MB (P8)"}
COMMITS: Final = 20
"""Before each kill, so that the cluster is at work when it comes."""


def run(sizes: Sequence[int] = SIZES) -> list[Table]:
    """Each size in processes of its own; the first and the last are to be alike."""
    return [run_loop(_failovers(sizes)), _claims(sizes), run_loop(_cold_starts(sizes))]


# -- kill -9 of the active controller and of its quorum node ---------------------------------------------


async def _failovers(sizes: Sequence[int]) -> Table:
    rows, data = [], []
    for partitions in sizes:
        shape = Shape(partitions=partitions)
        async with controllers(shape) as there:
            everything = (*there.plan.quorum, *there.plan.controllers, there.plan.placer)
            await there.spawn(*everything)
            await there.ready(*everything)
            before, resets, after = zip(*[await _fail_over(there) for _ in range(REPEATS)], strict=True)
        rows.append((f"{partitions:,}", *_spread(before)[:1], *_spread(resets), *_spread(after), "no growth (P14)"))
        data.append({"partitions": partitions, "before_s": before, "reset_s": resets, "after_s": after})
    return Table(
        title="P14: kill -9 of the active controller and its quorum node, until the next CreateTopics is committed",
        columns=(
            *("partitions", "one before", "reset is seen", "least", "most"),
            *("next is committed", "least", "most", "target"),
        ),
        rows=rows,
        data=data,
    )


async def _fail_over(there: Controllers) -> tuple[float, float, float]:
    """Seconds of a CreateTopics before (median), and from the kill to its being seen, and to the next one's answer."""
    active = await there.active()
    quorum_node = _beside(there, active)
    (asked, *_) = (each for each in there.plan.controllers if each is not active)
    before = []
    for _ in range(COMMITS):
        begun = time.perf_counter()
        await there.create(asked)
        before.append(time.perf_counter() - begun)
    reader, writer = await asyncio.open_connection(quorum_node.place.host, quorum_node.port)
    begun = time.perf_counter()
    seen = asyncio.ensure_future(_reset(reader))
    await asyncio.gather(there.running.kill(active), there.running.kill(quorum_node))
    await there.create(asked)
    after = time.perf_counter() - begun
    reset = await seen - begun
    writer.close()
    await there.spawn(quorum_node, active)
    await there.ready(quorum_node, active)
    await caught_up(quorum_node, (await find(_beside(there, asked))).high_watermark)
    return statistics.median(before), reset, after


async def _reset(reader: asyncio.StreamReader) -> float:
    """When the other end is gone."""
    try:
        while await reader.read(1024):
            pass
    except ConnectionResetError:
        pass
    return time.perf_counter()


def _beside(there: Controllers, controller: Process) -> Process:
    return there.plan.quorum[there.plan.controllers.index(controller)]


# -- in the engine alone -----------------------------------------------------------------------------


def _claims(sizes: Sequence[int]) -> Table:
    """A claim, and the first write of the epoch decided; a renouncement puts the state back."""
    rows, data = [], []
    command = activate((), ControllerSettings())
    for partitions in sizes:
        engine = standby(Shape(partitions=partitions))
        took = []
        for epoch in range(1, REPEATS + 1):
            begun = time.perf_counter()
            engine.claim(epoch, engine.next_offset)
            engine.write(None, command, now_ms=0)
            took.append(time.perf_counter() - begun)
            assert [None] == [answer.error for answer in engine.ready().answers]
            engine.renounce()
        rows.append((f"{partitions:,}", *(f"{seconds * 1e6:,.0f} µs" for seconds in _three(took))))
        data.append({"partitions": partitions, "s": took})
    return Table(
        title="P14: a claim and its first write in the engine alone",
        columns=("partitions", "median", "least", "most"),
        rows=rows,
        data=data,
    )


# -- from nothing but what is on disk ------------------------------------------------------------------


async def _cold_starts(sizes: Sequence[int]) -> Table:
    """One node, as what it is compared with was measured: a process begins, reads, leads, answers, writes."""
    rows, data = [], []
    for partitions in sizes:
        async with controllers(Shape(partitions=partitions), voters=1) as there:
            await there.spawn(there.plan.placer)
            await there.ready(there.plan.placer)
            found = [await _start_cold(there) for _ in range(REPEATS)]
        active, written, cpu, *peaks = zip(*found, strict=True)
        megabytes = (f"{statistics.median(each) / 1e6:,.0f} MB" for each in peaks)
        medians = [f"{statistics.median(each):.2f} s" for each in (written, cpu)]
        rows.append((f"{partitions:,}", *_spread(active), *medians, *megabytes, TARGETS.get(partitions, "")))
        data.append({"partitions": partitions, "active_s": active, "cpu_s": cpu, "peak_bytes": peaks})
    return Table(
        title="P8: a cold start of one node, from two processes' beginning on; the most memory of each",
        columns=(
            *(
                "partitions",
                "active",
                "least",
                "most",
                "topic created",
                "CPU of both",
                "controller",
                "quorum node",
                "target",
            ),
        ),
        rows=rows,
        data=data,
    )


async def _start_cold(there: Controllers) -> tuple[float, float, float, int, int]:
    """Seconds until active, until a topic is created, and of CPU of both; bytes of controller and quorum node."""
    (node,), (controller,) = there.plan.quorum, there.plan.controllers
    begun = time.perf_counter()
    await there.spawn(node, controller)
    await there.active()
    active = time.perf_counter() - begun
    await there.create(controller)
    written = time.perf_counter() - begun
    cpu = sum(cpu_seconds(there.running.pid(process)) for process in (controller, node))
    peak, peak_beside = (memory(there.running.pid(process))["peak"] for process in (controller, node))
    await asyncio.gather(there.running.kill(controller), there.running.kill(node))
    return active, written, cpu, peak, peak_beside


# -- text ----------------------------------------------------------------------------------------------


def _three(took: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(took), min(took), max(took)


def _spread(took: Sequence[float]) -> tuple[str, str, str]:
    """Median, least, most."""
    median, least, most = (ms(each) if each < 1 else f"{each:.2f} s" for each in _three(took))
    return median, least, most
