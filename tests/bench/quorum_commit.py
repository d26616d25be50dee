"""P5, P6: how long a durable commit takes and how many there are in a second, beside what disk and gRPC take alone."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from tests.bench.measure import REPEATS, Table, verdict
from tests.bench.quorum_floor import echo_seconds, sync_seconds
from tests.bench.quorum_nodes import VALUE_BYTES, Writer, quorum, run_loop, value

WARM_UP: Final = 300
SERIAL: Final = 500
FLOOD_S: Final = 2.0
BATCH_BYTES: Final = 300
"""What one such record takes in the log, with its batch around it."""
RANKS: Final = (10, 50, 99)
"""The tenth is what a busy machine disturbs least."""
TARGETS: Final = {64: (20e3, 32e3), 1_000: (50e3, 90e3)}


def run() -> list[Table]:
    """Three nodes on loopback and one disk; one client, which is their controller."""
    return run_loop(_measure())


async def _measure() -> list[Table]:
    serial: list[list[float]] = []
    floods: dict[tuple[int, bool], list[tuple[float, list[float]]]] = {}
    floor_disk: list[float] = []
    floor_echo: list[float] = []
    async with quorum() as (plan, _), Writer(plan.quorum) as writer:
        record = value()
        await writer.active()
        for _ in range(WARM_UP):
            await writer.commit(record)
        for _ in range(REPEATS):
            floor_disk += sync_seconds(BATCH_BYTES)
            floor_echo += await echo_seconds(VALUE_BYTES)
            serial.append([await writer.commit(record) for _ in range(SERIAL)])
            for in_flight in TARGETS:
                for may_join in (True, False):
                    run = await writer.flood(record, in_flight=in_flight, seconds=FLOOD_S, may_join=may_join)
                    floods.setdefault((in_flight, may_join), []).append(run)
        assert not writer.refusals, writer.refusals
    return [_serial_table(serial, floor_disk, floor_echo), _flood_table(floods)]


def _serial_table(serial: Sequence[Sequence[float]], disk: Sequence[float], echo: Sequence[float]) -> Table:
    commits = [seconds for one in serial for seconds in one]
    # Client → leader → follower → leader → client, with a flush at the follower before it answers.
    floor = [2 * percentile(echo, rank) + percentile(disk, rank) for rank in RANKS]
    measured = {
        "commit of one record": [percentile(commits, rank) for rank in RANKS],
        "floor: two echoes, one fdatasync": floor,
        "echo over a gRPC stream": [percentile(echo, rank) for rank in RANKS],
        f"fdatasync of {BATCH_BYTES} bytes": [percentile(disk, rank) for rank in RANKS],
    }
    rows = [
        (what, *map(ms, each), "≤ 1.3 ms (P5)" if each is measured["commit of one record"] else "")
        for what, each in measured.items()
    ]
    return Table(
        title=f"P5: one append of {VALUE_BYTES} bytes at a time, durable on a majority of three",
        columns=("what", *(f"p{rank}" for rank in RANKS), "target for p50"),
        rows=rows,
        data=[{"what": what, "seconds": each} for what, each in measured.items()],
    )


def _flood_table(floods: dict[tuple[int, bool], list[tuple[float, list[float]]]]) -> Table:
    rows, data = [], []
    for (in_flight, may_join), runs in floods.items():
        rates, took = [rate for rate, _ in runs], [seconds for _, one in runs for seconds in one]
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
                f"≥ {target:,.0f} (P6)" if may_join else "",
                verdict(median, target, stretch) if may_join else "",
            )
        )
        data.append({"in_flight": in_flight, "may_join": may_join, "rate": median})
    columns = ("in flight", "batches of the log", "appends/s", "spread", "p50", "p99", "target", "")
    return Table(title=f"P6: appends of {VALUE_BYTES} bytes in flight", columns=columns, rows=rows, data=data)


def ms(seconds: float) -> str:
    """As text."""
    return f"{seconds * 1000:.2f} ms"


def percentile(values: Sequence[float], rank: int) -> float:
    """The value below which so many of a hundred lie."""
    return statistics.quantiles(values, n=100)[rank - 1]
