"""CreateTopics with 1 to 64 in flight over Kafka's wire: time, rate and CPU of a topic, of our control plane alone.

Three voters, their controllers and gateways, placer and heartbeat service on loopback in the clear and without traces.
To compare two versions, run it in the checkout of each, in turns.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.beside_kafka import AT_ONCE, Side, at_once, by_wire, created, wanted
from tests.bench.both_sides import VOTERS
from tests.bench.measure import Table, ms
from tests.bench.quorum_nodes import QUIET
from tests.interop.mixed_quorum import ours_first
from tests.run_loop import run_loop

IN_FLIGHT: Final = (1, 2, 4, 8, 16, 64)
TOPICS: Final = 320
"""Topics of a round, over all ways together, but `EACH_MIN` of each way at least."""
EACH_MIN: Final = 20
ROUNDS: Final = 3

Figures = tuple[float, float, float]
"""Seconds of a topic (median), topics a second, and seconds of CPU of a topic in all processes."""


def run() -> list[Table]:
    """Half a minute."""
    os.environ.update(QUIET)
    return run_loop(_measure())


async def _measure() -> list[Table]:
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as directory:
        async with AsyncExitStack() as life:
            quorum = await life.enter_async_context(ours_first(Path(directory), ours=VOTERS, kafkas=0))
            side = await by_wire("Kafka's wire", quorum, quorum.ours, life)
            numbers, found = count(), defaultdict[int, list[Figures]](list)
            await at_once(side, numbers, AT_ONCE)
            for _ in range(ROUNDS):
                for ways in IN_FLIGHT:
                    found[ways].append(await _round(side, numbers, ways))
    rows, data = [], []
    for ways, rounds in found.items():
        took_s, rate, cpu_s = map(statistics.median, zip(*rounds, strict=True))
        rows.append((str(ways), ms(took_s), f"{rate:,.0f}", ms(cpu_s)))
        data.append({"in flight": ways, "p50_s": took_s, "topics_per_s": rate, "cpu_s": cpu_s})
    columns = ("in flight", "p50", "topics/s", "CPU a topic")
    return [Table(title=f"CreateTopics, RF 3: medians of {ROUNDS} rounds", columns=columns, rows=rows, data=data)]


async def _round(side: Side, numbers: count[int], ways: int) -> Figures:
    took: list[float] = []

    async def several(place: int) -> None:
        for _ in range(max(EACH_MIN, TOPICS // ways)):
            took.append(await created(side, place, wanted(numbers)))

    used, began = side.cpu_s, time.perf_counter()
    await asyncio.gather(*map(several, range(ways)))
    return statistics.median(took), len(took) / (time.perf_counter() - began), (side.cpu_s - used) / len(took)
