"""Keeps what is known to be committed, and tells apart the records that count from those of deposed leaders.

Rows of bronze never change, and a record that is read before a majority of voters has it becomes committed later. So
what is known has a table of its own, which only grows: for an epoch, offsets of which every record is committed.
`quorate.pipeline.commitment` has the rule by which this is found, and what follows from it about other records.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from quorate.pipeline.commitment import COMMITTED, UNKNOWN
from quorate.pipeline.log_files import LOG_KIND
from services.pipeline.source.commit_column import COMMIT
from services.pipeline.tables import Growing, add

__all__ = ["KNOWN", "epoch_limits", "found_in", "known", "note", "with_commit"]

KNOWN: Final = "bronze/committed"
_FOREVER: Final = (1 << 63) - 1
_KEY: Final = ("cluster_id", "epoch")
_SCHEMA: Final = "cluster_id string, epoch int, start_offset bigint, end_offset bigint"


def found_in(rows: DataFrame) -> DataFrame:
    """Returns from rows of the source `kraft` the committed offsets of each epoch; the end is exclusive."""
    committed = rows.where((fn.col("kind") == LOG_KIND) & (fn.col(COMMIT) == COMMITTED))
    ends = fn.min("offset").alias("start_offset"), (fn.max("offset") + 1).alias("end_offset")
    return committed.groupBy(*_KEY).agg(*ends)


def note(tables: Growing, rows: DataFrame) -> None:
    """Appends what the rows (from the source `kraft`) show to be committed, and was not known before."""
    found, there = found_in(rows), known(tables)
    if there is not None:
        before = fn.broadcast(there.withColumnsRenamed({"start_offset": "known_start", "end_offset": "known_end"}))
        is_new = "known_end is null or start_offset < known_start or end_offset > known_end"
        found = found.join(before, list(_KEY), "left").where(is_new).select(found.columns)
    add(tables, KNOWN, found.coalesce(1), partition_by=("cluster_id",))


def known(tables: Growing) -> DataFrame | None:
    """Returns the committed offsets of each epoch, one row each; None if there are none.

    The values are collected at once, because several later joins use them.
    """
    there = tables.read(KNOWN)
    if there is None:
        return None
    ends = fn.min("start_offset"), fn.max("end_offset")
    rows = there.groupBy(*_KEY).agg(*ends).collect()
    return there.sparkSession.createDataFrame(rows, _SCHEMA)


def with_commit(log: DataFrame, committed: DataFrame | None) -> DataFrame:
    """Adds the column COMMIT to records that are not uncommitted: `committed` or `unknown`."""
    if committed is None:
        return log.withColumn(COMMIT, fn.lit(UNKNOWN))
    ends = fn.broadcast(committed.select(*_KEY, fn.col("end_offset").alias("committed_end")))
    state = fn.when(fn.col("offset") < fn.col("committed_end"), COMMITTED).otherwise(UNKNOWN)
    return log.join(ends, list(_KEY), "left").withColumn(COMMIT, state).drop("committed_end")


def epoch_limits(epochs: DataFrame, committed: DataFrame | None) -> DataFrame:
    """Adds to rows of `cluster_id`, `epoch`, `begin` and `last` the limits outside of which records are uncommitted.

    An epoch's records below `low` or from `high` on contradict a committed record. `end` is `high`, or where a later
    epoch begins, if that is before: of records about which nothing is known, a later epoch's count.
    """
    forever = fn.lit(_FOREVER)
    if committed is None:
        limited = epochs.withColumns({"low": fn.lit(0).cast("bigint"), "high": forever})
    else:
        others = committed.withColumnRenamed("epoch", "other")
        beside = epochs.join(fn.broadcast(others), "cluster_id", "left").groupBy(*epochs.columns)
        own = fn.coalesce(fn.max(fn.col("other") == fn.col("epoch")), fn.lit(False))
        before = fn.coalesce(fn.max(fn.when(fn.col("other") < fn.col("epoch"), fn.col("end_offset"))), fn.lit(0))
        after = fn.coalesce(fn.min(fn.when(fn.col("other") > fn.col("epoch"), fn.col("start_offset"))), forever)
        limited = beside.agg(fn.when(own, 0).otherwise(before).alias("low"), after.alias("high"))
    later = Window.partitionBy("cluster_id").orderBy(fn.desc("epoch")).rowsBetween(Window.unboundedPreceding, -1)
    begin = fn.greatest("begin", "low")
    counting = fn.when(begin < fn.least(fn.col("last") + 1, "high"), begin)
    return limited.withColumn("end", fn.least("high", fn.coalesce(fn.min(counting).over(later), forever)))
