"""The source `kraft` of a running quorum, in Spark: one read, a stream in several runs, a snapshot to begin with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deploy.local.plan import Process
from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.log_files import find, parts
from quorate.pipeline.rows import RowFilter, read
from tests.bench.quorum_nodes import Writer, quorum, value
from tests.pipeline.test_live_quorum import snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(1_800)

COLUMNS = ("offset", "epoch", "type", "payload")


def in_files(node: Process, kind: str) -> list[tuple[Any, ...]]:
    """The rows of a node's files, by the reader without Spark."""
    found: list[tuple[Any, ...]] = []
    for place in find([node.settings["metadata.log.dir"]]):
        for part in parts(place) if place.kind == kind else ():
            for columns in read(part, RowFilter(failfast=True)):
                named = columns.by_name()
                found += zip(*(named[name] for name in COLUMNS), strict=True)
    return sorted(found)


def rows(frame: DataFrame | None) -> list[tuple[Any, ...]]:
    return [] if frame is None else sorted(map(tuple, frame.select(*COLUMNS).collect()))


class Stream:
    """The stream of a node into bronze; each run ends where the log does."""

    def __init__(self, spark: SparkSession, node: Process, home: Path) -> None:
        from services.pipeline.tables import ParquetTables

        self.spark = spark
        self.node = node
        self.home = home
        self.tables = ParquetTables(spark, str(home / "tables"))
        self.added: list[int] = []

    def run(self, **options: object) -> dict[str, Any]:
        """Where it stands in the end."""
        from services.pipeline.bronze.stream import ingest_stream

        query = ingest_stream(
            self.spark,
            str(self.home / "tables"),
            None,
            str(self.home / "checkpoint"),
            options={"endpoints": self.node.address, **{name: str(given) for name, given in options.items()}},
            available_now=True,
            on_batch=lambda _, counts: self.added.append(counts.records),
        )
        query.awaitTermination()
        assert query.lastProgress is not None
        found: dict[str, Any] = json.loads(query.lastProgress["sources"][0]["endOffset"])
        return found


async def write(writer: Writer, counts: Iterable[int]) -> None:
    """Batches of so many records, until they are committed."""
    for count in counts:
        await writer.append(value(), 1, may_join=False, records=count)
    await writer.until(lambda: writer.committed >= writer.next_offset)


def test_of_no_ranges_there_are_no_rows() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.datasource import InputPartition

    from services.pipeline.source.live import LiveReader

    assert [] == list(LiveReader({"endpoints": "localhost:9"}, ["offset"]).read(InputPartition(None)))


async def test_conditions_spare_fetching_and_decoding(spark: SparkSession) -> None:
    from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan

    from services.pipeline.source.live import LiveReader

    async with quorum(voters=1) as (plan, _), Writer(plan.quorum) as writer:
        (node,) = plan.quorum
        await writer.active()
        first = writer.next_offset
        await write(writer, [5, 1, 7, 3])
        options = {"endpoints": node.address}
        every = await asyncio.to_thread(lambda: rows(spark.read.format("kraft").options(**options).load()))
        times = await asyncio.to_thread(lambda: timestamps(spark, options))
        noted = {offset for offset, _, name, _ in every if name == "CONFIG_RECORD"}

        def read(*filters: Filter) -> tuple[list[tuple[int, int]], list[int]]:
            """The ranges that are fetched, and the offsets of the rows."""
            reader = LiveReader(options, ["offset"])
            assert [*filters] == list(reader.pushFilters([*filters]))
            ranges = reader.partitions()
            found = [at for each in ranges for batch in reader.read(each) for at in batch.column(0).to_pylist()]
            return [(each.start, each.end) for each in ranges], found  # type: ignore[attr-defined]  # a Range

        end, middle = writer.committed, times[first + 6]
        offsets = (GreaterThanOrEqual(("offset",), first + 2), LessThan(("offset",), first + 8))
        assert ([(first + 2, first + 8)], list(range(first + 2, first + 8))) == await asyncio.to_thread(read, *offsets)
        controls = await asyncio.to_thread(read, EqualTo(("type",), "LEADER_CHANGE"))
        assert ([(0, end)], sorted({row[0] for row in every if row[2] == "LEADER_CHANGE"})) == controls
        nothing = await asyncio.to_thread(read, EqualTo(("type",), "CONFIG_RECORD"), LessThan(("offset",), first))
        assert ([(0, first)], sorted(at for at in noted if at < first)) == nothing
        late = await asyncio.to_thread(read, GreaterThan(("timestamp",), middle))
        # Spark looks again: a batch of that very moment is not spared.
        assert [at for at, time in times.items() if time >= middle] == late[1]
        assert ([], []) == await asyncio.to_thread(read, GreaterThanOrEqual(("offset",), end))

        # What the conditions say is what Spark gives, with a snapshot in place of the log as without one.
        await snapshot(node, OffsetAndEpoch(offset=end, epoch=writer.epoch))
        await write(writer, [4])
        whole = spark.read.format("kraft").options(**options).load()
        every = await asyncio.to_thread(rows, whole)
        narrow = whole.where(f"offset >= 2 and offset <> {end + 1} and type = 'CONFIG_RECORD'")
        expected = [row for row in every if row[0] >= 2 and row[0] != end + 1 and row[2] == "CONFIG_RECORD"]
        assert {row[0] < end for row in expected} == {True, False}
        assert expected == await asyncio.to_thread(rows, narrow)


def timestamps(spark: SparkSession, options: dict[str, str]) -> dict[int, datetime]:
    """When each offset was written, as Spark says it to a source."""
    found = spark.read.format("kraft").options(**options).load().select("offset", "timestamp").collect()
    return {row["offset"]: row["timestamp"].astimezone(UTC) for row in sorted(found)}


async def test_a_running_quorum_is_read_as_its_files_are(spark: SparkSession, tmp_path: Path) -> None:
    async with quorum(voters=1) as (plan, _), Writer(plan.quorum) as writer:
        (node,) = plan.quorum
        await writer.active()
        await write(writer, [1, 5, 2])
        stream = Stream(spark, node, tmp_path / "first")
        first = await asyncio.to_thread(stream.run)
        middle = writer.committed
        await write(writer, [3, 1, 4, 1, 5])
        at = {"offset": writer.committed, "epoch": writer.epoch, "snapshot": None}
        last = await asyncio.to_thread(stream.run, maxOffsetsPerTrigger=4)
        whole = spark.read.format("kraft").option("endpoints", node.address)
        batch = await asyncio.to_thread(lambda: rows(whole.load()))
        piece = await asyncio.to_thread(lambda: rows(whole.options(startOffset=3, endOffset=middle).load()))

        assert {plan.cluster_id: at | {"offset": middle}} == first
        assert {plan.cluster_id: at} == last
        # 3 and 1, then 4, then 1, then 5: a batch is not cut.
        assert [middle, 4, 4, 6] == stream.added
        assert in_files(node, "log") == batch == rows(stream.tables.read("bronze/records"))
        assert [row for row in batch if 3 <= row[0] < middle] == piece

        end = OffsetAndEpoch(offset=writer.committed, epoch=writer.epoch)
        await snapshot(node, end)
        await write(writer, [2])
        late = Stream(spark, node, tmp_path / "second")
        stands = await asyncio.to_thread(late.run)
        await asyncio.to_thread(stream.run)

        assert {plan.cluster_id: at | {"offset": end.offset + 2, "snapshot": [end.offset, end.epoch]}} == stands
        assert in_files(node, "checkpoint") == rows(late.tables.read("bronze/snapshots"))
        assert [row for row in in_files(node, "log") if row[0] >= end.offset] == rows(
            late.tables.read("bronze/records")
        )
        # A reader that has come so far along the log needs no snapshot.
        assert in_files(node, "log") == rows(stream.tables.read("bronze/records"))
        assert None is stream.tables.read("bronze/snapshots")
        assert None is stream.tables.read("bronze/quarantine")
