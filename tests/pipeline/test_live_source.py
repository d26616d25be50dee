"""The source `kraft` of a running quorum, in Spark: one read, a stream in several runs, a snapshot to begin with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deploy.local.plan import Process
from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.places import find, parts
from quorate.pipeline.rows import Wanted, read
from tests.bench.quorum_nodes import Writer, quorum, value
from tests.pipeline.test_live_quorum import snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(900)

COLUMNS = ("offset", "epoch", "type", "payload")


def in_files(node: Process, kind: str) -> list[tuple[Any, ...]]:
    """The rows of a node's files, by the reader without Spark."""
    found: list[tuple[Any, ...]] = []
    for place in find([node.settings["metadata.log.dir"]]):
        for part in parts(place) if place.kind == kind else ():
            for columns in read(part, Wanted(failfast=True)):
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
            told=lambda _, counts: self.added.append(counts.records),
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
        # What has come so far along the log needs no snapshot.
        assert in_files(node, "log") == rows(stream.tables.read("bronze/records"))
        assert None is stream.tables.read("bronze/snapshots")
        assert None is stream.tables.read("bronze/quarantine")
