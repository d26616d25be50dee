"""Where the processors' time of a CreateTopics goes: each process, its main thread, gRPC's threads, and wake-ups.

A thread is gRPC's if gRPC has named it; the rest of a process are threads of Python: gRPC's poller, and the disk's. A
context switch is one of the kernel's count, voluntary or not. Threads that end in between are not counted.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.beside_kafka import AT_ONCE, IN_FLIGHT, SERIAL, Side, active, at_once, by_grpc, created, wanted
from tests.bench.both_sides import VOTERS
from tests.bench.measure import Table, calibrate, ms, us
from tests.bench.quorum_nodes import QUIET
from tests.interop.mixed_quorum import ours_first
from tests.run_loop import run_loop

ROUNDS: Final = 4
WARM_UP: Final = 640
OF_PYTHON: Final = "python"
"""How a thread is named that nobody has named, as it has the program's name."""
MAIN: Final = "main thread"
GRPC: Final = "gRPC's threads"
OTHERS: Final = "others"
PARTS: Final = (MAIN, GRPC, OTHERS)


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds of CPU and context switches."""

    cpu_s: float
    switches: int


Counted = Mapping[tuple[str, str], Used]
"""By the name of the process, and the part of it."""


def run() -> list[Table]:
    """Three voters, nine processes and three gateways that nobody asks; without traces, and brokers replay nothing."""
    os.environ.update(QUIET)
    return run_loop(_measure())


async def _measure() -> list[Table]:
    spent: dict[int, list[dict[tuple[str, str], tuple[float, float]]]] = {1: [], IN_FLIGHT: []}
    took: dict[int, list[float]] = defaultdict(list)
    loops = []
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as directory:
        async with AsyncExitStack() as life:
            quorum = await life.enter_async_context(ours_first(Path(directory), ours=VOTERS, kafkas=0))
            side = await by_grpc(quorum, life)
            leader = await active(quorum, quorum.ours)
            numbers = count()
            await at_once(side, numbers, WARM_UP)
            for _ in range(ROUNDS):
                loops.append(calibrate())
                for in_flight, topics in ((1, SERIAL), (IN_FLIGHT, AT_ONCE)):
                    before = _counted(side)
                    took[in_flight].append(await _create(side, numbers, in_flight, topics))
                    spent[in_flight].append(_each(before, _counted(side), topics))
    how = f"medians of {ROUNDS} rounds, calibration loop {statistics.median(loops) * 1000:.0f} ms"
    walls = {in_flight: ms(statistics.median(each)) for in_flight, each in took.items()}
    return [
        _table(f"CreateTopics, {in_flight} in flight, {walls[in_flight]} on the wall for each: {how}", rounds, leader)
        for in_flight, rounds in spent.items()
    ]


async def _create(side: Side, numbers: count[int], in_flight: int, topics: int) -> float:
    """Seconds on the wall of a topic."""
    began = time.perf_counter()
    if in_flight == 1:
        for _ in range(topics):
            await created(side, 0, wanted(numbers))
    else:
        await at_once(side, numbers, topics)
    return (time.perf_counter() - began) / topics


def _counted(side: Side) -> Counted:
    """What every part of every process has used so far."""
    found: defaultdict[tuple[str, str], list[Used]] = defaultdict(list)
    quorum = side.quorum
    for process in quorum.plan.processes:
        if quorum.running.is_up(process):
            pid = quorum.running.pid(process)
            for thread in Path(f"/proc/{pid}/task").iterdir():
                part, used = _thread(pid, thread)
                found[process.name, part].append(used)
    return {
        where: Used(sum(each.cpu_s for each in used), sum(each.switches for each in used))
        for where, used in found.items()
    }


def _thread(pid: int, thread: Path) -> tuple[str, Used]:
    """The part that a thread belongs to, and what it has used; nothing if it has ended."""
    try:
        name = (thread / "comm").read_text().strip()
        nanoseconds = int((thread / "schedstat").read_text().split()[0])
        status = (thread / "status").read_text().splitlines()
    except OSError:
        return OTHERS, Used(0.0, 0)
    switches = sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
    return part_of(pid, int(thread.name), name), Used(nanoseconds / 1e9, switches)


def part_of(pid: int, thread_id: int, name: str) -> str:
    """Which part of a process a thread is."""
    if thread_id == pid:
        return MAIN
    return OTHERS if name.startswith(OF_PYTHON) else GRPC


def _each(before: Counted, after: Counted, topics: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Seconds and switches of a topic."""
    nothing = Used(0.0, 0)
    return {
        where: (
            (used.cpu_s - before.get(where, nothing).cpu_s) / topics,
            (used.switches - before.get(where, nothing).switches) / topics,
        )
        for where, used in after.items()
    }


def _table(title: str, rounds: list[dict[tuple[str, str], tuple[float, float]]], leader: int) -> Table:
    median: dict[tuple[str, str], tuple[float, float]] = {
        where: (
            statistics.median(each[where][0] for each in rounds if where in each),
            statistics.median(each[where][1] for each in rounds if where in each),
        )
        for where in rounds[0]
    }
    processes = {name: sum(median.get((name, part), (0.0, 0.0))[0] for part in PARTS) for name, _ in median}
    rows, data = [], []
    for name in sorted(processes, key=lambda name: -processes[name]):
        by_part = {part: median.get((name, part), (0.0, 0.0)) for part in PARTS}
        rows.append(_row(_called(name, leader), by_part))
        data.append({"process": name, **{part: list(used) for part, used in by_part.items()}})
    totals = {
        part: (
            sum(used[0] for (_, its), used in median.items() if its == part),
            sum(used[1] for (_, its), used in median.items() if its == part),
        )
        for part in PARTS
    }
    rows.append(_row("all", totals))
    data.append({"process": "all", **{part: list(used) for part, used in totals.items()}})
    columns = ("process", "CPU", *PARTS, "switches", *(f"of {part}" for part in PARTS))
    return Table(title=title, columns=columns, rows=rows, data=data)


def _called(name: str, leader: int) -> str:
    """A process by its name and part in the quorum."""
    service, _, node_id = name.rpartition("-")
    if service == "quorum":
        return f"{name}, {'leader' if node_id == str(leader) else 'follower'}"
    return f"{name}, active" if service == "controller" and node_id == str(leader) else name


def _row(name: str, by_part: Mapping[str, tuple[float, float]]) -> tuple[str, ...]:
    return (
        name,
        us(sum(cpu_s for cpu_s, _ in by_part.values())),
        *(us(cpu_s) for cpu_s, _ in by_part.values()),
        f"{sum(switches for _, switches in by_part.values()):.1f}",
        *(f"{switches:.1f}" for _, switches in by_part.values()),
    )
