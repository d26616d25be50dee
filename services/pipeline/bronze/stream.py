"""Bronze by a stream: what is appended to logs is in the tables soon after, and once, wherever the job is killed.

Spark writes down how far a batch goes before it is begun, and that it is done afterwards; so a batch may be done twice,
the second time with half of the first in the tables. Its rows are known by their content, as those of a file that
comes from another replica are (`records.ingest`): a number of the batch on each row would only tell the former.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from quorate.pipeline.places import CHECKPOINT_KIND, LOG_KIND
from services.pipeline.bronze.quarantine import QUARANTINE, WITHDRAWN
from services.pipeline.bronze.records import RECORDS, SNAPSHOTS, Counts, ingest
from services.pipeline.source.columns import NAME
from services.pipeline.tables import Growing, ParquetTables

__all__ = ["EVERY_S", "ingest_stream"]

EVERY_S: Final = 10
"""How often a stream without an end looks: the files of a table are no smaller than what comes in that time."""

_SOUND: Final = {LOG_KIND: (RECORDS,), CHECKPOINT_KIND: (SNAPSHOTS,)}
_DAMAGED: Final = (QUARANTINE, WITHDRAWN)
Told = Callable[[int, Counts], None]
TablesOf = Callable[[SparkSession, str], Growing]


def ingest_stream(
    spark: SparkSession,
    tables_root: str,
    source: str | None,
    checkpoint_dir: str,
    *,
    options: Mapping[str, str] | None = None,
    available_now: bool,
    every_s: int = EVERY_S,
    told: Told = lambda _, __: None,
    tables_of: TablesOf = ParquetTables,
) -> Any:
    """Start the stream into bronze; the answer is Spark's query, to wait for or to stop.

    `source` is a path, or None where `options` of the source `kraft` say `endpoints`. With `available_now` it ends when
    all is read that is there now. `told` hears of each batch, by its number, how many rows were new. One job at a time
    may have `checkpoint_dir`, and write to these tables, which `tables_of` finds at `tables_root`.
    """
    reader = spark.readStream.format(NAME).options(**(options or {}))

    def add(batch: DataFrame, number: int) -> None:
        rows = batch.persist()
        try:
            tables = tables_of(rows.sparkSession, tables_root)
            told(number, ingest(rows, _Near(tables, rows)))
        finally:
            rows.unpersist()

    writer = (reader.load() if source is None else reader.load(source)).writeStream.queryName(f"ingest {tables_root}")
    timed = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=f"{every_s} seconds")
    return timed.option("checkpointLocation", checkpoint_dir).foreachBatch(add).start()


class _Near:
    """Tables, of which only what the batch may have a row of is read: a long history costs nothing.

    Equal rows have equal dates, for the time of a record is part of what it is known by.
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
        """The part of a table that is near; None if none is, or it has never been written."""
        whole = self._tables.read(name) if name in self._concerned else None
        if whole is None:
            return None
        near = whole.where(fn.col("cluster_id").isin(self._clusters))
        return near.where(fn.col("date").isin(self._dates)) if "date" in whole.columns else near

    def append(self, name: str, rows: DataFrame, *, partition_by: Sequence[str]) -> None:
        """More rows."""
        self._tables.append(name, rows, partition_by=partition_by)
