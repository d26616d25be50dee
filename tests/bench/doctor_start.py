"""`quorate doctor` from the start of the command to its end: by an observer, by Kafka's wire, of files."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from deploy.local.plan import make_plan
from deploy.local.processes import Running
from quorate.storage.names import PARTITION_DIRECTORY
from tests.bench.controller_nodes import write_checkpoint
from tests.bench.measure import Table
from tests.bench.quorum_nodes import QUIET
from tests.bench.synthetic import Shape
from tests.run_loop import run_loop

ROUNDS: Final = int(os.environ.get("DOCTOR_ROUNDS", "9"))
FOUND: Final = 1
"""The exit code where something does not work: here no broker runs, and one may be fenced by now."""
SHAPE: Final = Shape(partitions=1_000, brokers=10)


def run() -> list[Table]:
    """One line for each source, in turns, with an empty program beside them."""
    return [run_loop(_measure())]


async def _measure() -> Table:
    folder = Path(tempfile.mkdtemp(prefix="quorate-bench-"))
    plan = make_plan(folder, with_gateways=True)
    logs = [plan.log_dir(number) / PARTITION_DIRECTORY for number in range(1, len(plan.quorum) + 1)]
    write_checkpoint(SHAPE, logs)
    running = Running(plan)
    try:
        for node in plan.quorum:
            await running.format(node)
        processes = (*plan.quorum, *plan.controllers, *plan.gateways, plan.observer)
        for process in processes:
            await running.spawn(process, environ=QUIET)
        await running.ready(processes)
        gateways = ",".join(each.kafka_address for each in plan.gateways)
        doctor = ("-m", "quorate.cli", "doctor")
        programs = {
            "(an empty program)": ("-c", "pass"),
            "--observer": (*doctor, "--observer", plan.observer.address),
            "--bootstrap-controller": (*doctor, "--bootstrap-controller", gateways),
            "--offline": (*doctor, "--offline", str(logs[0])),
        }
        taken: dict[str, list[tuple[float, float]]] = {what: [] for what in programs}
        for _ in range(ROUNDS):
            for what, words in programs.items():
                taken[what].append(_take(words))
    finally:
        await running.stop()
        shutil.rmtree(folder)
    data = [
        {"source": what, "wall_s": [wall for wall, _ in each], "cpu_s": [cpu for _, cpu in each]}
        for what, each in taken.items()
    ]
    rows = [
        (what, *(f"{statistics.median(kind):.2f}" for kind in zip(*each, strict=True)), f"{min(each)[0]:.2f}")
        for what, each in taken.items()
    ]
    columns = ("doctor of", "wall s, median", "CPU s, median", "wall s, least")
    title = f"{SHAPE}; {ROUNDS} processes each; load {os.getloadavg()[0]:.1f} after"
    return Table(title=title, columns=columns, rows=rows, data=data)


def _take(words: tuple[str, ...]) -> tuple[float, float]:
    before, begun = os.times(), time.monotonic()
    done = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True)
    assert done.returncode in (0, FOUND), done
    assert not words[-2].startswith("--") or done.stdout.startswith("As of offset"), done
    wall_s, after = time.monotonic() - begun, os.times()
    return wall_s, after.children_user + after.children_system - before.children_user - before.children_system
