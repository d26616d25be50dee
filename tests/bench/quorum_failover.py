"""P7: from kill -9 of the leader to the next committed append, and where the time goes."""

from __future__ import annotations

import statistics
import time
from typing import Final

from deploy.local.plan import Process
from deploy.local.processes import Running
from tests.bench.measure import Table
from tests.bench.quorum_nodes import QUIET, Writer, caught_up, quorum, value
from tests.run_loop import run_loop

ROUNDS: Final = 11
COMMITS: Final = 50
"""Before each kill, so that the quorum is at work when it comes."""


def run() -> list[Table]:
    """Kill the leader, commit, bring it back, and again."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    rounds = []
    async with quorum() as (plan, running), Writer(plan.quorum) as writer:
        await writer.active()
        for _ in range(ROUNDS):
            for _ in range(COMMITS):
                await writer.commit(value())
            leader = writer.leader
            assert leader is not None
            rounds.append(await _kill(running, writer, leader))
            await running.spawn(leader, environ=QUIET)
            await running.ready([leader])
            writer.listen_to(leader)
            await caught_up(leader, writer.committed)
    names = ("stream reset seen", "another leads, and its controller is told", "the next append is committed")
    columns = list(zip(*rounds, strict=True))
    rows = [
        (name, f"{statistics.median(each):.0f} ms", f"{min(each):.0f} ms", f"{max(each):.0f} ms", target)
        for name, each, target in zip(names, columns, ("", "", "≤ 250 ms (P7)"), strict=True)
    ]
    return [
        Table(
            title=f"P7: after kill -9 of the leader, {ROUNDS} times",
            columns=("until", "median", "least", "most", "target"),
            rows=rows,
            data=[{"until": name, "ms": list(each)} for name, each in zip(names, columns, strict=True)],
        )
    ]


async def _kill(running: Running, writer: Writer, leader: Process) -> tuple[float, float, float]:
    """Milliseconds from the signal to each step."""
    epoch, started = writer.epoch, time.perf_counter()
    await running.kill(leader)
    await writer.until(lambda: writer.leader is not leader)
    reset = time.perf_counter()
    await writer.active(after=epoch)
    led = time.perf_counter()
    await writer.commit(value())
    committed = time.perf_counter()
    return (reset - started) * 1e3, (led - started) * 1e3, (committed - started) * 1e3
