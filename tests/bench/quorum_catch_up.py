"""How fast an empty follower catches up with a log."""

from __future__ import annotations

import shutil
import time
from typing import Final

from deploy.local.plan import ClusterPlan, Process
from deploy.local.processes import Running
from tests.bench.measure import Table
from tests.bench.quorum_nodes import QUIET, VALUE_BYTES, Writer, caught_up, quorum, value
from tests.run_loop import run_loop

RECORDS: Final = 300_000
SHAPES: Final = {"10 records a batch": 10, "1,000 records a batch": 1_000}
IN_FLIGHT: Final = 5_000


def run() -> list[Table]:
    """A follower without a log comes back to a quorum that has one."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    rows, data = [], []
    for what, size in SHAPES.items():
        seconds = await _catch_up(size)
        megabytes = RECORDS * VALUE_BYTES / 1e6
        rows.append((what, f"{seconds:.2f} s", f"{megabytes / seconds:.0f} MB/s", f"{RECORDS / seconds:,.0f}"))
        data.append({"what": what, "seconds": seconds})
    columns = ("log", "until it has all", "of values", "records/s")
    return [Table(title=f"Catch-up of an empty follower, {RECORDS:,} records", columns=columns, rows=rows, data=data)]


async def _catch_up(size: int) -> float:
    """Seconds from start to end of its log, less what it takes to follow a log with next to nothing in it."""
    async with quorum() as (plan, running), Writer(plan.quorum) as writer:
        await writer.active()
        await writer.commit(value())
        newcomer = next(node for node in plan.quorum if node is not writer.leader)
        await running.kill(newcomer)
        alone = await _start_empty(plan, running, newcomer, writer)
        await running.kill(newcomer)
        record = value()
        while writer.next_offset < RECORDS:
            await writer.append(record, IN_FLIGHT // size, may_join=False, records=size)
            await writer.until(lambda: writer.committed > writer.next_offset - IN_FLIGHT)
        await writer.until(lambda: writer.committed >= writer.next_offset)
        return await _start_empty(plan, running, newcomer, writer) - alone


async def _start_empty(plan: ClusterPlan, running: Running, node: Process, writer: Writer) -> float:
    """Seconds until it knows all that is committed, from a directory that has just been formatted."""
    shutil.rmtree(plan.log_dir(int(node.settings["node.id"])))
    await running.format(node)
    started = time.perf_counter()
    await running.spawn(node, environ=QUIET)
    await running.ready([node])
    await caught_up(node, writer.committed)
    return time.perf_counter() - started
