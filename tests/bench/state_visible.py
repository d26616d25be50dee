"""When a commit is in the observer's database, and what observers that keep one cost the quorum's leader.

Changes of partitions are written at a steady rate, as by a controller that traces: a batch of the log each. From the
moment that the writer learns of a commit until another connection to the database reads the row. The observers, the
quorum and the writer share one machine.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from deploy.local.plan import ClusterPlan, Process
from deploy.local.ports import free_ports
from deploy.local.processes import Running
from kraft import Message
from quorate.metadata.versions import LATEST, METADATA_VERSION, record_version
from quorate.records import FeatureLevelRecord, PartitionChangeRecord, PartitionRecord, TopicRecord, encode_record
from quorate.sql.state_tables import APPLIED, NOUN_TABLES
from services.observer.engines import reading_engine_of
from tests.bench.measure import Table, cpu_seconds, ms, percentile, us
from tests.bench.quorum_nodes import QUIET, Writer, quorum
from tests.bench.state_database import DATABASES, SQLITE
from tests.bench.synthetic import uuid
from tests.pipeline.postgres import absent
from tests.run_loop import run_loop

RATE: Final = int(os.environ.get("VISIBLE_RATE", "1000"))
"""Changes a second."""
SECONDS: Final = float(os.environ.get("VISIBLE_SECONDS", "10"))
ROUNDS: Final = int(os.environ.get("VISIBLE_ROUNDS", "3"))
OBSERVERS: Final = tuple(map(int, os.environ.get("VISIBLE_OBSERVERS", "0,10").split(",")))
VOTERS: Final = int(os.environ.get("VISIBLE_VOTERS", "3"))
PARTITIONS: Final = 100
LOOK_AGAIN_S: Final = 0.003
TICK_S: Final = 0.01
WITHIN_S: Final = 120.0
TOPIC: Final = "orders"
BROKERS: Final = (1, 2, 3)

Seen = list[tuple[int, float]]
"""Offsets below which all was there, and when (s)."""


def run() -> list[Table]:
    """How late rows are on each database; then the leader's CPU with no observer and with some."""
    return [run_loop(_lateness()), run_loop(_cost())]


async def _lateness() -> Table:
    data: list[Mapping[str, Any]] = []  # Any: numbers, and lists of them
    for name, place in DATABASES.items():
        if name != SQLITE and absent() is not None:
            continue
        late: list[float] = []
        rates: list[float] = []
        cpu: list[float] = []
        for _ in range(ROUNDS):
            with place() as url:
                found, rate, used = await _late(url)
            late += found
            rates.append(rate)
            cpu.append(used)
        data.append({"database": name, "rate": statistics.median(rates), "late_s": late, "cpu_s": cpu})
    columns = ("database", "changes/s", "p50", "p99", "most", "target", "the observer's CPU of a change")
    rows = [
        (
            str(each["database"]),
            f"{each['rate']:,.0f}",
            *(ms(found) for found in _ranks(each["late_s"])),
            "p99 ≤ 100 ms",
            us(statistics.median(each["cpu_s"])),
        )
        for each in data
    ]
    title = f"from a commit until its row is read by another connection; {ROUNDS} rounds of {SECONDS:g} s"
    return Table(title=title, columns=columns, rows=rows, data=data)


def _ranks(late: Sequence[float]) -> tuple[float, float, float]:
    return statistics.median(late), percentile(late, 99), max(late)


async def _late(url: str) -> tuple[list[float], float, float]:
    """Seconds from each commit to its row, how many changes a second were written, the observer's CPU (s) of each."""
    async with _observed([url]) as (writer, running, (process,)):
        before = cpu_seconds(running.pid(process))
        seen, told = Seen(), Seen()
        reading = asyncio.create_task(asyncio.to_thread(_read, url, seen, writer.next_offset, count := _count()))
        writer.heard = lambda committed: told.append((committed, time.monotonic()))
        rate = await _write(writer, count)
        await reading
        used = cpu_seconds(running.pid(process)) - before
    return list(_lags(told, seen)), rate, used / count


def _count() -> int:
    return int(RATE * SECONDS)


def _read(url: str, seen: Seen, first: int, count: int) -> None:
    """Reads the newest row again and again, until that of the last change is there."""
    table = NOUN_TABLES["partitions"].present
    newest = sa.select(sa.func.max(table.c.valid_from_offset))
    engine = reading_engine_of(url).execution_options(isolation_level="AUTOCOMMIT")
    ends = time.monotonic() + WITHIN_S
    with engine.connect() as connection:
        while (not seen or seen[-1][0] < first + count) and time.monotonic() < ends:
            end = (connection.scalar(newest) or 0) + 1
            if not seen or end > seen[-1][0]:
                seen.append((end, time.monotonic()))
            time.sleep(LOOK_AGAIN_S)
    engine.dispose()


def _lags(told: Seen, seen: Seen) -> Iterator[float]:
    """Yields how long after its acknowledgement each commit was seen."""
    ends = [end for end, _ in seen]
    for committed, at in told:
        place = bisect_left(ends, committed)
        if place < len(seen):
            yield seen[place][1] - at


async def _cost() -> Table:
    """The leader's CPU by the number of observers, in turns."""
    used: dict[int, list[float]] = {count: [] for count in OBSERVERS}
    behind: dict[int, list[int]] = {count: [] for count in OBSERVERS}
    for _ in range(ROUNDS):
        for count in OBSERVERS:
            with tempfile.TemporaryDirectory() as folder:
                urls = [f"sqlite:///{folder}/{number}.db" for number in range(count)]
                async with _observed(urls) as (writer, running, _):
                    assert writer.leader is not None
                    leader = running.pid(writer.leader)
                    before = cpu_seconds(leader)
                    await _write(writer, _count())
                    used[count].append((cpu_seconds(leader) - before) / _count())
                    behind[count] += [writer.committed - _applied(url) for url in urls]
    alone = statistics.median(used[OBSERVERS[0]])
    rows = [
        (
            str(count),
            f"{1e6 * statistics.median(found):,.0f} µs",
            f"{statistics.median(found) / alone - 1:+.1%}",
            f"{max(behind[count], default=0):,}",
        )
        for count, found in used.items()
    ]
    columns = ("observers", "the leader's CPU of a change", "more", "records behind at the end, at most")
    data = [{"observers": count, "cpu_s": found, "behind": behind[count]} for count, found in used.items()]
    title = f"observers with a database (SQLite) at {RATE:,} changes/s; {ROUNDS} rounds of {SECONDS:g} s in turns"
    return Table(title=title, columns=columns, rows=rows, data=data)


def _applied(url: str) -> int:
    engine = reading_engine_of(url)
    with engine.connect() as connection:
        found: int = connection.scalar(sa.select(APPLIED.c.next_offset)) or 0
    engine.dispose()
    return found


@asynccontextmanager
async def _observed(urls: Sequence[str]) -> AsyncIterator[tuple[Writer, Running, Sequence[Process]]]:
    """A quorum with a topic, and an observer for each database, which has it."""
    async with quorum(VOTERS) as (plan, running), Writer(plan.quorum) as writer:
        await writer.active()
        topic = [TopicRecord(TOPIC, uuid(TOPIC)), *map(_partition, range(PARTITIONS))]
        for record in (FeatureLevelRecord(METADATA_VERSION, LATEST), *topic):
            await writer.append(_value(record), 1, may_join=True)
        await writer.until(lambda: writer.committed >= writer.next_offset)
        async with AsyncExitStack() as ended:
            processes = _observers(plan, urls)
            for process in processes:
                await running.spawn(process, environ=QUIET)
                ended.push_async_callback(running.kill, process)
            await running.ready(processes)
            async with asyncio.timeout(WITHIN_S):
                while any(_behind(url, writer.committed) for url in urls):  # noqa: ASYNC110  others write them
                    await asyncio.sleep(TICK_S)
            yield writer, running, processes


def _behind(url: str, end: int) -> bool:
    try:
        return _applied(url) < end
    except sa.exc.DBAPIError:
        return True  # it has no tables yet


def _observers(plan: ClusterPlan, urls: Sequence[str]) -> list[Process]:
    ports = free_ports(len(urls))
    return [
        replace(
            plan.observer,
            name=f"observer-{number}",
            port=port,
            settings={
                **plan.observer.settings,
                "node.id": str(number),
                "listeners": f"PLAINTEXT://{plan.observer.place.host}:{port}",
                "observer.database.url": "sqlite://",
                "observer.state.database.url": url,
            },
        )
        for number, (port, url) in enumerate(zip(ports, urls, strict=True), 300)
    ]


async def _write(writer: Writer, count: int) -> float:
    """Writes so many changes at the rate, each a batch; returns how many a second there were."""
    begun, written = time.monotonic(), 0
    while written < count:
        due = min(count, int((time.monotonic() - begun) * RATE) + 1)
        for number in range(written, due):
            await writer.append(_value(_change(number)), 1, may_join=False)
        written = due
        await asyncio.sleep(TICK_S)
    await writer.until(lambda: writer.committed >= writer.next_offset)
    assert not writer.refusals, writer.refusals
    return count / (time.monotonic() - begun)


def _partition(partition_id: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id, uuid(TOPIC), BROKERS, BROKERS, leader=1, directories=tuple(uuid(f"{each}") for each in BROKERS)
    )


def _change(number: int) -> PartitionChangeRecord:
    """An ISR that shrinks, and grows again."""
    isr = BROKERS[: 2 + number // PARTITIONS % 2]
    return PartitionChangeRecord(number % PARTITIONS, uuid(TOPIC), isr=isr)


def _value(record: Message) -> bytes:
    return encode_record(record, record_version(record, LATEST))
