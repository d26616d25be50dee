"""Calls of the kernel for a CreateTopics with 64 in flight, by process: what strace counts, over gRPC and Kafka's wire.

Three voters, their controllers and gateways, on loopback in the clear and without traces. strace (which is needed)
stops a process at each call, so nothing here says how long anything takes; and a process that is slowed down puts more
into a message, so that what is called once for a message is counted too low.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.beside_kafka import AT_ONCE, IN_FLIGHT, Side, active, at_once, by_grpc, by_wire
from tests.bench.both_sides import VOTERS
from tests.bench.measure import Missing, Table
from tests.bench.quorum_nodes import QUIET
from tests.interop.mixed_quorum import MixedQuorum, ours_first
from tests.run_loop import run_loop

WARM_UP: Final = 640
PARTS: Final = ("controller", "gateway", "quorum")
"""The processes of the leader's node."""
SHOWN: Final = 0.05
"""Calls that are rarer than this for a topic, in all processes, are in the sum only."""
ALL: Final = "all"

Calls = Mapping[str, float]
"""Calls for a topic, by the call's name."""


def run() -> list[Table]:
    """Needs strace, and the right to trace what it has started; about a minute."""
    if (strace := shutil.which("strace")) is None:
        raise Missing("strace is not installed: apt-get install strace")
    os.environ.update(QUIET)
    return run_loop(_measure(strace))


async def _measure(strace: str) -> list[Table]:
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as directory:
        async with AsyncExitStack() as life:
            quorum = await life.enter_async_context(ours_first(Path(directory), ours=VOTERS, kafkas=0))
            sides = [await by_grpc(quorum, life), await by_wire("Kafka's wire", quorum, quorum.ours, life)]
            leader_id, numbers = await active(quorum, quorum.ours), count()
            found: dict[tuple[str, str], Calls] = {}
            for side in sides:
                await at_once(side, numbers, WARM_UP)
                for part, calls in (await _counted(strace, Path(directory), side, leader_id, numbers)).items():
                    found[side.name, part] = calls
    return [_table(found)]


async def _counted(
    strace: str, directory: Path, side: Side, leader_id: int, numbers: count[int]
) -> Mapping[str, Calls]:
    """The calls of each process of the leader's node while `AT_ONCE` topics are made."""
    tracing = {}
    for part in PARTS:
        pid, told = _pid(side.quorum, f"{part}-{leader_id}"), directory / f"{part}.calls"
        tracing[part] = (
            told,
            await asyncio.create_subprocess_exec(
                strace, "-c", "-f", "-o", str(told), "-p", str(pid), stderr=asyncio.subprocess.PIPE
            ),
        )
    for _, program in tracing.values():
        assert program.stderr is not None
        if b"attached" not in (line := await program.stderr.readline()):
            raise Missing(f"strace may not trace the processes: {line.decode().strip()}")
    await at_once(side, numbers, AT_ONCE)
    found = {}
    for part, (told, program) in tracing.items():
        program.send_signal(signal.SIGINT)
        await program.communicate()
        found[part] = {name: calls / AT_ONCE for name, calls in counts(told.read_text()).items()}
    return found


def _pid(quorum: MixedQuorum, name: str) -> int:
    return next(quorum.running.pid(each) for each in quorum.plan.processes if each.name == name)


def counts(summary: str) -> dict[str, int]:
    """Reads the calls by name from what `strace -c` writes.

    >>> counts(\"\"\"% time     seconds  usecs/call     calls    errors syscall
    ... ------ ----------- ----------- --------- --------- ----------------
    ...  75.00    0.003000           3      1000           getpid
    ...  25.00    0.001000           2       500        20 futex
    ... ------ ----------- ----------- --------- --------- ----------------
    ... 100.00    0.004000                  1500        20 total\"\"\")
    {'getpid': 1000, 'futex': 500}
    """
    lines = [line.split() for line in summary.splitlines() if line[:1] in " 0123456789"]
    return {line[-1]: int(line[3]) for line in lines if line and line[-1] != "total"}


def _table(found: Mapping[tuple[str, str], Calls]) -> Table:
    names = {name for calls in found.values() for name in calls}
    sums = {name: sum(calls.get(name, 0.0) for calls in found.values()) for name in names}
    shown = [name for name in sorted(sums, key=lambda name: -sums[name]) if sums[name] >= SHOWN]
    rows = [(name, *(f"{calls.get(name, 0.0):.2f}" for calls in found.values())) for name in shown]
    rows.append((ALL, *(f"{sum(calls.values()):.2f}" for calls in found.values())))
    columns = ("call", *(f"{side}: {part}" for side, part in found))
    data = [{"side": side, "part": part, **calls} for (side, part), calls in found.items()]
    return Table(title=f"Calls of the kernel for a topic, {IN_FLIGHT} in flight", columns=columns, rows=rows, data=data)
