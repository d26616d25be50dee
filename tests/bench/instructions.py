"""Instructions of a commit and of a CreateTopics, counted by callgrind: a figure that repeats on a busy machine.

Quorum nodes and controllers run under valgrind, some fifty times slower, so elections wait longer than elsewhere. A
count is that of a process between two dumps, the second after so many writes, divided by them. A process's work where
nobody asks (its long polls) is in it; the column of an idle second says how much that is. Of time on the wall these
figures say nothing.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from deploy.local.plan import Process, ProcessHost
from deploy.local.processes import Running
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.runtime.clients.client import open_channel
from tests.bench.measure import Missing, Table
from tests.bench.quorum_nodes import QUIET, Writer, quorum, value
from tests.bench.quorum_topics import active_controller, check, control_plane
from tests.e2e.cluster import topics_request
from tests.run_loop import run_loop

VOTERS: Final = (1, 2, 3)
ROUNDS: Final = 3
COMMITS: Final = 100
TOPICS: Final = 30
WARM_UP: Final = 30
IDLE_S: Final = 5.0
TIMEOUT_MS: Final = 120_000
PATIENT: Final = {
    "controller.quorum.election.timeout.ms": "10000",
    "controller.quorum.fetch.timeout.ms": "120000",
    "controller.quorum.request.timeout.ms": "60000",
    "controller.presence.timeout.ms": "120000",
}
HOW_TO_GET: Final = "valgrind is not on the PATH: apt-get install valgrind"

Write = Callable[[], Awaitable[object]]
Counts = Mapping[str, float]
"""Instructions, by what the process is."""


def run() -> list[Table]:
    """Needs valgrind; some five minutes."""
    if shutil.which("valgrind") is None:
        raise Missing(HOW_TO_GET)
    with tempfile.TemporaryDirectory(prefix="quorate-callgrind-") as directory:
        callgrind = _Callgrind(Path(directory))
        return [run_loop(_commits(callgrind)), run_loop(_topics(callgrind))]


async def _commits(callgrind: _Callgrind) -> Table:
    async with (
        quorum(nodes_at=callgrind.places(), settings=PATIENT) as (plan, running),
        Writer(plan.quorum) as writer,
    ):
        await writer.active()
        names = _names(running, plan.quorum, writer.leader)
        return await callgrind.table("a commit, one at a time", names, lambda: writer.commit(value()), COMMITS)


async def _topics(callgrind: _Callgrind) -> Table:
    numbers = count()
    async with (
        control_plane(QUIET, nodes_at=callgrind.places(), quorum_settings=PATIENT) as (plan, running),
        active_controller(plan) as active,
        open_channel(active.address) as channel,
    ):
        stub = ControllerStub(channel)
        leader = plan.quorum[plan.controllers.index(active)]
        names = {
            **_names(running, plan.quorum, leader),
            **_names(running, plan.controllers, active, roles=("active controller", "standby")),
        }

        async def create() -> None:
            request = topics_request([f"bench-{next(numbers)}"], timeout_ms=TIMEOUT_MS)
            check(await stub.CreateTopics(request, timeout=TIMEOUT_MS / 1000))

        return await callgrind.table("a CreateTopics, one at a time, three brokers", names, create, TOPICS)


def _names(
    running: Running,
    processes: Sequence[Process],
    first: Process | None,
    roles: tuple[str, str] = ("leader", "follower"),
) -> dict[int, str]:
    """What each process is, by its process id."""
    return {running.pid(each): roles[0] if each is first else f"{roles[1]} {each.name}" for each in processes}


class _Callgrind:
    """Processes that run under callgrind, with their dumps in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def places(self) -> Mapping[int, ProcessHost]:
        """Where a voter and its controller run, by the voter."""
        enter = ("valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={self._directory}/%p")
        return {node_id: ProcessHost(enter=enter) for node_id in VOTERS}

    async def table(self, what: str, names: Mapping[int, str], write: Write, writes: int) -> Table:
        """Instructions of one write by each process, beside those of a second in which nobody asks."""
        for _ in range(WARM_UP):
            await write()
        self._dump(names)
        began = time.perf_counter()
        await asyncio.sleep(IDLE_S)
        idle = {name: each / (time.perf_counter() - began) for name, each in self._dump(names).items()}
        rounds: list[Counts] = []
        for _ in range(ROUNDS):
            for _ in range(writes):
                await write()
            rounds.append({name: each / writes for name, each in self._dump(names).items()})
        rows, data = [], []
        for name in idle:
            found = [each[name] for each in rounds]
            median = statistics.median(found)
            spread = f"{(max(found) - min(found)) / median:.0%}"
            rows.append((name, f"{median / 1e6:.2f} M", spread, f"{idle[name] / 1e6:.2f} M"))
            data.append({"process": name, "instructions": found, "idle_per_s": idle[name]})
        total = statistics.median(sum(each.values()) for each in rounds)
        rows.append(("all of these", f"{total / 1e6:.2f} M", "", f"{sum(idle.values()) / 1e6:.2f} M"))
        columns = ("process", "instructions", "spread", "an idle second")
        return Table(title=f"Instructions of {what}: {ROUNDS} × {writes}", columns=columns, rows=rows, data=data)

    def _dump(self, names: Mapping[int, str]) -> dict[str, float]:
        """Instructions of each process since the dump before."""
        for pid in names:
            subprocess.run(["callgrind_control", "--dump", str(pid)], check=True, capture_output=True)
        return {name: self._last_of(pid) for pid, name in names.items()}

    def _last_of(self, pid: int) -> float:
        dumps = sorted(self._directory.glob(f"{pid}.*"), key=lambda path: int(path.suffix[1:]))
        assert dumps, f"callgrind has dumped nothing of process {pid}"
        totals = re.findall(r"^totals: (\d+)", dumps[-1].read_text(errors="replace"), re.M)
        assert totals, dumps[-1]
        return float(totals[-1])
