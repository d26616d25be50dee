"""P5, P6: how long a durable commit takes and how many there are in a second, beside what disk and gRPC take alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench.measure import REPEATS, Table, cpu_seconds, ms, percentile, us, verdict
from tests.bench.quorum_floor import echo_seconds, sync_seconds
from tests.bench.quorum_nodes import VALUE_BYTES, Writer, quorum, value
from tests.run_loop import run_loop

WARM_UP: Final = 300
SERIAL: Final = 500
FLOOD_S: Final = 2.0
BATCH_BYTES: Final = 300
"""What one such record takes in the log, with its batch around it."""
COMMIT: Final = "commit of one record"
CPU_COLUMNS: Final = ("CPU of the nodes", "CPU of the leader")
"""Of each append; CPU of the nodes has the leader in it."""
RANKS: Final = (10, 50, 99)
"""The tenth is what a busy machine disturbs least."""
TARGETS: Final = {64: (20e3, 32e3), 1_000: (50e3, 90e3)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One load: commits a second, the seconds of each, and seconds of CPU of each commit."""

    rate: float
    took: Sequence[float]
    cpu_nodes: float
    cpu_leader: float


def run() -> list[Table]:
    """Three nodes on loopback and one disk; one client, which is their controller."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    serial: list[Run] = []
    floods: dict[tuple[int, bool], list[Run]] = {}
    floor_disk: list[float] = []
    floor_echo: list[float] = []
    async with quorum() as (plan, running), Writer(plan.quorum) as writer:
        record = value()
        await writer.active()
        assert writer.leader is not None
        leader, pids = running.pid(writer.leader), [running.pid(node) for node in plan.quorum]

        def used() -> tuple[float, float]:
            return sum(map(cpu_seconds, pids)), cpu_seconds(leader)

        for _ in range(WARM_UP):
            await writer.commit(record)
        for _ in range(REPEATS):
            floor_disk += sync_seconds(BATCH_BYTES)
            floor_echo += await echo_seconds(VALUE_BYTES)
            before = used()
            took = [await writer.commit(record) for _ in range(SERIAL)]
            serial.append(_run(SERIAL / sum(took), took, before, used()))
            for in_flight in TARGETS:
                for may_join in (True, False):
                    before = used()
                    rate, took = await writer.flood(record, in_flight=in_flight, seconds=FLOOD_S, may_join=may_join)
                    floods.setdefault((in_flight, may_join), []).append(_run(rate, took, before, used()))
        assert not writer.refusals, writer.refusals
    return [_serial_table(serial, floor_disk, floor_echo), _flood_table(floods)]


def _run(rate: float, took: Sequence[float], before: tuple[float, float], after: tuple[float, float]) -> Run:
    nodes, leader = ((end - begin) / len(took) for begin, end in zip(before, after, strict=True))
    return Run(rate=rate, took=took, cpu_nodes=nodes, cpu_leader=leader)


def _cpu(runs: Sequence[Run]) -> tuple[str, str]:
    """The two columns of CPU, as text."""
    of_nodes, of_leader = (one.cpu_nodes for one in runs), (one.cpu_leader for one in runs)
    return us(statistics.median(of_nodes)), us(statistics.median(of_leader))


def _serial_table(serial: Sequence[Run], disk: Sequence[float], echo: Sequence[float]) -> Table:
    commits = [seconds for one in serial for seconds in one.took]
    # Client → leader → follower → leader → client, with a flush at the follower before it answers.
    floor = [2 * percentile(echo, rank) + percentile(disk, rank) for rank in RANKS]
    measured = {
        COMMIT: [percentile(commits, rank) for rank in RANKS],
        "floor: two echoes, one fdatasync": floor,
        "echo over a gRPC stream": [percentile(echo, rank) for rank in RANKS],
        f"fdatasync of {BATCH_BYTES} bytes": [percentile(disk, rank) for rank in RANKS],
    }
    rows = [
        (what, *map(ms, each), *((*_cpu(serial), "≤ 1.3 ms (P5)") if what == COMMIT else ("", "", "")))
        for what, each in measured.items()
    ]
    return Table(
        title=f"P5: one append of {VALUE_BYTES} bytes at a time, durable on a majority of three",
        columns=("what", *(f"p{rank}" for rank in RANKS), *CPU_COLUMNS, "target for p50"),
        rows=rows,
        data=[
            {"what": what, "seconds": each, **(_cpu_data(serial) if what == COMMIT else {})}
            for what, each in measured.items()
        ],
    )


def _cpu_data(runs: Sequence[Run]) -> dict[str, list[float]]:
    return {"cpu_nodes_s": [one.cpu_nodes for one in runs], "cpu_leader_s": [one.cpu_leader for one in runs]}


def _flood_table(floods: dict[tuple[int, bool], list[Run]]) -> Table:
    rows, data = [], []
    for (in_flight, may_join), runs in floods.items():
        rates, took = [one.rate for one in runs], [seconds for one in runs for seconds in one.took]
        median = statistics.median(rates)
        target, stretch = TARGETS[in_flight]
        rows.append(
            (
                f"{in_flight:,}",
                "joined" if may_join else "one each",
                f"{median:,.0f}",
                f"{(max(rates) - min(rates)) / median:.0%}",
                ms(statistics.median(took)),
                ms(percentile(took, 99)),
                *_cpu(runs),
                f"≥ {target:,.0f} (P6)" if may_join else "",
                verdict(median, target, stretch) if may_join else "",
            )
        )
        data.append({"in_flight": in_flight, "may_join": may_join, "rate": median, **_cpu_data(runs)})
    columns = ("in flight", "batches of the log", "appends/s", "spread", "p50", "p99", *CPU_COLUMNS, "target", "")
    return Table(title=f"P6: appends of {VALUE_BYTES} bytes in flight", columns=columns, rows=rows, data=data)
