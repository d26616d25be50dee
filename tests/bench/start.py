"""How long `make run` takes until brokers are unfenced: its parts on the wall, and processor time by service."""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from deploy.local.broker import stand_in
from deploy.local.plan import ClusterPlan, make_plan
from deploy.local.processes import Running
from tests.bench.measure import Table
from tests.run_loop import run_loop

ROUNDS: Final = int(os.environ.get("START_ROUNDS", "5"))
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
LISTENING: Final = "event=listening"
OBSERVER_LISTENS: Final = "the observer listens"
ALL_LISTEN: Final = "all nine listen"
LED: Final = "the quorum has a leader"
ACTIVE: Final = "a controller is active"
SERVING: Final = "all nine say SERVING"
UNFENCED: Final = "ready: three brokers are unfenced"


def run() -> list[Table]:
    """Some starts, each in a directory of its own."""
    load = os.getloadavg()[0]
    starts = [run_loop(_start()) for _ in range(ROUNDS)]
    title = f"{ROUNDS} starts of the local plan; load {load:.1f} before, {os.cpu_count()} processors"
    return [
        _table(f"Seconds on the wall since the first process: {title}", "until", [wall for wall, _ in starts]),
        _table(f"Seconds of processor time until ready: {title}", "service", [cpu for _, cpu in starts]),
    ]


async def _start() -> tuple[Mapping[str, float], Mapping[str, float]]:
    """One start and stop: when what was reached, in s, and processor time in s by service."""
    with tempfile.TemporaryDirectory(prefix="quorate-start-") as made:
        plan = make_plan(Path(made))
        running, brokers = Running(plan), [stand_in(plan, each) for each in plan.brokers]
        begun, own = time.time(), time.process_time()
        try:
            await running.start()
            serving = time.time()
            await asyncio.gather(*(broker.start() for broker in brokers))
            unfenced, launcher = time.time(), time.process_time() - own
            cpu = _cpu(plan, running)
        finally:
            for broker in brokers:
                await broker.close()
            await running.stop()
        walls = {**_logged(plan), SERVING: serving, UNFENCED: unfenced}
    walls = {name: at - begun for name, at in walls.items()}
    return walls, {**cpu, "launcher and stand-ins": launcher, "all": sum(cpu.values()) + launcher}


def _logged(plan: ClusterPlan) -> Mapping[str, float]:
    """When the services wrote that they were so far, in s since 1970."""
    return {
        OBSERVER_LISTENS: min(_times(plan, (plan.observer.name,), LISTENING)),
        ALL_LISTEN: max(min(_times(plan, (each.name,), LISTENING)) for each in plan.processes),
        LED: min(_times(plan, (each.name for each in plan.quorum), 'event="became leader"')),
        ACTIVE: min(_times(plan, (each.name for each in plan.controllers), "event=active ")),
    }


def _times(plan: ClusterPlan, names: Iterable[str], event: str) -> list[float]:
    texts = [(plan.directory / f"{name}.log").read_text() for name in names]
    lines = [line for text in texts for line in text.splitlines() if event in line]
    return [datetime.fromisoformat(found[1]).timestamp() for line in lines if (found := re.match(r"time=(\S+)", line))]


def _cpu(plan: ClusterPlan, running: Running) -> dict[str, float]:
    """Of the processes of each service together."""
    found: dict[str, float] = {}
    for process in plan.processes:
        fields = Path(f"/proc/{running.pid(process)}/stat").read_text().rpartition(")")[2].split()
        used = (int(fields[11]) + int(fields[12])) / TICKS_PER_S  # utime and stime, proc(5)
        found[process.service] = found.get(process.service, 0.0) + used
    return found


def _table(title: str, column: str, starts: list[Mapping[str, float]]) -> Table:
    found = {name: [start[name] for start in starts] for name in starts[0]}
    rows = [
        (name, f"{statistics.median(each):.2f} s", f"{min(each):.2f} s", f"{max(each):.2f} s")
        for name, each in found.items()
    ]
    data = [{"what": name, "s": each} for name, each in found.items()]
    return Table(title=title, columns=(column, "median", "least", "most"), rows=rows, data=data)
