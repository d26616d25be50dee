"""Streams logs into bronze with exactly-once results: a killed job can be started again and adds each record once.

Spark records the end offset of a micro-batch before it starts and its completion afterwards. So a micro-batch may run
twice, and rows of the first run may already be in the tables. Such rows are recognized by their content, just as the
rows of another replica's file are (`records.ingest`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.pipeline.log_files import CHECKPOINT_KIND, LOG_KIND
from services.pipeline.bronze.committed import KNOWN
from services.pipeline.bronze.quarantine import QUARANTINE, WITHDRAWN
from services.pipeline.bronze.records import RECORDS, SNAPSHOTS, RowCounts, ingest
from services.pipeline.source.columns import NAME
from services.pipeline.tables import Growing, ParquetTables

__all__ = ["EVERY_S", "ingest_stream"]

EVERY_S: Final = 10
"""Trigger interval in s of a stream without an end; each table gets a file at most this often."""

_SOUND: Final = {LOG_KIND: (RECORDS, KNOWN), CHECKPOINT_KIND: (SNAPSHOTS,)}
_DAMAGED: Final = (QUARANTINE, WITHDRAWN)
OnBatch = Callable[[int, RowCounts], None]


def ingest_stream(
    spark: SparkSession,
    tables_root: str,
    source: str | None,
    checkpoint_dir: str,
    *,
    options: Mapping[str, str] | None = None,
    available_now: bool,
    every_s: int = EVERY_S,
    on_batch: OnBatch = lambda _, __: None,
) -> Any:
    """Starts the stream into bronze; returns Spark's StreamingQuery, to wait for or to stop.

    `source` is a path, or None if `options` of the source `kraft` have `endpoints`. With `available_now` the stream
    ends when it has read everything that is there now. `on_batch` is called after each micro-batch with its number and
    the counts of new rows. Only one job at a time may use `checkpoint_dir` and write to these tables.
    """
    # A range that was removed before it was read is a row in quarantine, as any other gap; the other clusters go on.
    # Bronze keeps what a deposed leader wrote and what replaced it; `committed` tells them apart, so it is no damage.
    given = {"failOnDataLoss": "false", "reportTruncation": "false", **(options or {})}
    reader = spark.readStream.format(NAME).options(**given)

    def add(batch: DataFrame, number: int) -> None:
        rows = batch.persist()
        try:
            tables = ParquetTables(rows.sparkSession, tables_root)
            on_batch(number, ingest(rows, _Near(tables, rows)))
        finally:
            rows.unpersist()

    writer = (reader.load() if source is None else reader.load(source)).writeStream.queryName(f"ingest {tables_root}")
    timed = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=f"{every_s} seconds")
    return timed.option("checkpointLocation", checkpoint_dir).foreachBatch(add).start()


class _Near:
    """Tables from which only the clusters and dates of a micro-batch are read, so that a long history costs nothing.

    Equal rows have equal dates, because the timestamp is part of a row's identity.
    """

    def __init__(self, tables: Growing, rows: DataFrame) -> None:
        self._tables = tables
        date, is_damaged = fn.date_format("timestamp", "yyyy-MM-dd"), fn.col("_corrupt").isNotNull()
        found = (
            rows.select("cluster_id", date.alias("date"), "kind", is_damaged.alias("is_damaged")).distinct().collect()
        )
        self._clusters = sorted({row["cluster_id"] for row in found})
        self._dates = sorted({row["date"] for row in found if row["date"] is not None})
        self._concerned = {name for row in found for name in (_DAMAGED if row["is_damaged"] else _SOUND[row["kind"]])}

    def read(self, name: str) -> DataFrame | None:
        """Returns the table's rows of the batch's clusters and dates; None if the batch adds no row to this table."""
        whole = self._tables.read(name) if name in self._concerned else None
        if whole is None:
            return None
        near = whole.where(fn.col("cluster_id").isin(self._clusters))
        return near.where(fn.col("date").isin(self._dates)) if "date" in whole.columns else near

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """Appends rows to the table."""
        self._tables.append(name, rows, partition_by=partition_by)
