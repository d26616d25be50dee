"""Bronze: every record of every file once, as it lay there, and what could not be read.

Nothing is dropped and nothing judged: two voters may have written different records at one offset, of which the later
epoch's is the log's. `settled` reads the table that way. A record is known by cluster, offset, epoch and content, so a
file that comes again, late, or from another replica adds nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from quorate.pipeline.places import CHECKPOINT_KIND, LOG_KIND
from services.pipeline.tables import Tables

__all__ = ["QUARANTINE", "RECORDS", "SNAPSHOTS", "Counts", "conflicts", "ingest", "settled", "whole_snapshots"]

RECORDS: Final = "bronze/records"
SNAPSHOTS: Final = "bronze/snapshots"
QUARANTINE: Final = "bronze/quarantine"

_SHARED: Final = (
    "cluster_id",
    "source",
    "offset",
    "epoch",
    "timestamp",
    "batch_base_offset",
    "is_control",
    "api_key",
    "type",
    "version",
    "payload",
    "trace_id",
    "raw",
)
_CONTENT: Final = ("timestamp", "is_control", "api_key", "version", "payload", "trace_id", "raw")
_RECORD_KEY: Final = ("cluster_id", "offset", "epoch", "digest")
_SNAPSHOT_KEY: Final = ("cluster_id", "fingerprint", "offset")
_QUARANTINE_KEY: Final = ("cluster_id", "source", "_corrupt")


class Counts(NamedTuple):
    """How many rows a run added."""

    records: int
    snapshots: int
    quarantined: int


def ingest(rows: DataFrame, tables: Tables) -> Counts:
    """Add what is new in `rows` (of the source `kraft`, PERMISSIVE) to the tables. Run again, it adds nothing."""
    sound = rows.where(fn.col("_corrupt").isNull())
    # The hash passes over nulls: whether a column is one is hashed beside it.
    digest = fn.xxhash64(*(part for name in _CONTENT for part in (fn.col(name), fn.col(name).isNull())))
    dated = sound.withColumn("digest", digest).withColumn("date", fn.date_format("timestamp", "yyyy-MM-dd"))
    records = dated.where(fn.col("kind") == LOG_KIND).select(*_SHARED, "digest", "date")
    snapshots = dated.where(fn.col("kind") == CHECKPOINT_KIND)
    snapshots = snapshots.select("snapshot_offset", "snapshot_epoch", "fingerprint", *_SHARED, "date")
    damaged = rows.where(fn.col("_corrupt").isNotNull())
    return Counts(
        records=_add(tables, RECORDS, records, _RECORD_KEY, ("cluster_id", "date")),
        snapshots=_add(tables, SNAPSHOTS, snapshots, _SNAPSHOT_KEY, ("cluster_id", "date")),
        quarantined=_add(tables, QUARANTINE, damaged, _QUARANTINE_KEY, ("cluster_id",)),
    )


def settled(records: DataFrame) -> DataFrame:
    """One record an offset: what the log says after every election, whichever replica it was read from.

    A record is not in the log if a later epoch begins at or before its offset: it was truncated, or will be (KIP-595).
    An offset that has two contents in one epoch (`conflicts`) is left out: which is true nobody can say, so whoever
    follows the log ends there.
    """
    begins = records.groupBy("cluster_id", "epoch").agg(fn.min("offset").alias("begin"))
    later = Window.partitionBy("cluster_id").orderBy(fn.desc("epoch")).rowsBetween(Window.unboundedPreceding, -1)
    ends = begins.select("cluster_id", "epoch", fn.min("begin").over(later).alias("end"))
    kept = records.join(fn.broadcast(ends), ["cluster_id", "epoch"])
    kept = kept.where(fn.col("end").isNull() | (fn.col("offset") < fn.col("end"))).drop("end")
    one = Window.partitionBy("cluster_id", "offset")
    contents = {"least": fn.min("digest").over(one), "most": fn.max("digest").over(one)}
    same = kept.withColumns(contents).where("least = most").drop("least", "most")
    return same.withColumn("place", fn.row_number().over(one.orderBy("source"))).where("place = 1").drop("place")


def conflicts(records: DataFrame) -> DataFrame:
    """Offsets that have several contents in one epoch, with how many and where: two clusters under one name."""
    found = records.groupBy("cluster_id", "offset", "epoch").agg(
        fn.count_distinct("digest").alias("contents"), fn.array_sort(fn.collect_set("source")).alias("sources")
    )
    return found.where("contents > 1")


def whole_snapshots(snapshots: DataFrame) -> DataFrame:
    """The rows of those checkpoints of which every record is there, from SNAPSHOT_HEADER to SNAPSHOT_FOOTER."""
    ends = snapshots.groupBy("cluster_id", "fingerprint").agg(
        fn.count("*").alias("found"),
        fn.max("offset").alias("last"),
        fn.min_by("type", "offset").alias("begins"),
        fn.max_by("type", "offset").alias("ends"),
    )
    whole = ends.where("found = last + 1 and begins = 'SNAPSHOT_HEADER' and ends = 'SNAPSHOT_FOOTER'")
    return snapshots.join(fn.broadcast(whole.select("cluster_id", "fingerprint")), ["cluster_id", "fingerprint"])


def _add(tables: Tables, name: str, rows: DataFrame, key: tuple[str, ...], partition_by: tuple[str, ...]) -> int:
    first = Window.partitionBy(*key).orderBy("source")
    once = rows.withColumn("place", fn.row_number().over(first)).where("place = 1").drop("place")
    there = tables.read(name)
    # Null-safe: what is damaged may have no offset.
    new = once if there is None else _without(once, there.select(*key), key)
    new = new.persist()
    try:
        count = new.count()
        if count:
            tables.append(name, new, partition_by=partition_by)
    finally:
        new.unpersist()
    return count


def _without(rows: DataFrame, there: DataFrame, key: tuple[str, ...]) -> DataFrame:
    left, right = rows.alias("new"), there.alias("there")
    same = fn.lit(True)
    for name in key:
        same = same & fn.col(f"new.{name}").eqNullSafe(fn.col(f"there.{name}"))
    return left.join(right, same, "left_anti")
