"""Selects the log records that count: from a base up to the first gap, without aborted or open transactions.

The base is offset 0, or, if older segments were removed, the first checkpoint that the log continues from. A
checkpoint's records are a complete state and count as if they stood just below its offset.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from quorate.nouns import Offset
from quorate.pipeline.commitment import COMMITTED
from services.pipeline.bronze import Known, settled
from services.pipeline.bronze.committed import with_commit
from services.pipeline.source.commit_column import COMMIT

__all__ = ["COLUMNS", "events", "events_of", "reach", "snapshot_events"]

COLUMNS: Final = (
    "cluster_id",
    "offset",
    "epoch",
    "timestamp",
    "type",
    "version",
    "payload",
    "raw",
    "trace_id",
    "is_base",
    COMMIT,
)
NOTHING_KNOWN: Final[Known] = {}
_TRANSACTION: Final = ("BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD")
_MARKS: Final = ("SNAPSHOT_HEADER", "SNAPSHOT_FOOTER")


def events(records: DataFrame, snapshots: DataFrame | None, committed: Known = NOTHING_KNOWN) -> DataFrame:
    """Returns the records from which histories are built, for every cluster that has a base.

    `committed` is what `bronze.known` returns. Each record says in `commit` whether it is `committed` or `unknown`.
    """
    return events_of(settled(records, committed), snapshots, committed)


def events_of(log: DataFrame, snapshots: DataFrame | None, committed: Known) -> DataFrame:
    """Returns the same as `events` from records of which `bronze.settled` selected one for each offset."""
    far = reach(log, snapshots)
    counted = log.join(fn.broadcast(far), "cluster_id").where("offset >= base_offset and offset < end_offset")
    counted = with_commit(_published(counted), committed).withColumn("is_base", fn.lit(False)).select(*COLUMNS)
    if snapshots is None:
        return counted
    bases = far.where("base_fingerprint is not null").select(
        "cluster_id", fn.col("base_fingerprint").alias("fingerprint")
    )
    base = snapshots.join(fn.broadcast(bases), ["cluster_id", "fingerprint"])
    return counted.unionByName(snapshot_events(base).select(*COLUMNS))


def snapshot_events(snapshots: DataFrame) -> DataFrame:
    """Converts checkpoint rows to events just below the checkpoint's offset; `fingerprint` is kept."""
    once = snapshots.where(~fn.col("type").isin(*_MARKS))
    just_below = {"offset": fn.col("snapshot_offset") - 1, "is_base": fn.lit(True), COMMIT: fn.lit(COMMITTED)}
    return once.withColumns(just_below)


def reach(log: DataFrame, snapshots: DataFrame | None) -> DataFrame:
    """Computes the usable range of each cluster's log: one row a cluster.

    `base_offset` is null if there is no base; `end_offset` (exclusive) is the first gap, `log_end_offset` the end of
    the whole log. `base_fingerprint` is the checkpoint used as base, null for a base at offset 0, unless there is a
    checkpoint at offset 0: it has the first voters and no other state.
    """
    far = _ends(log)
    at_zero = fn.when(fn.col("log_start_offset") == 0, fn.lit(0))
    if snapshots is None:
        return far.withColumns({"base_offset": at_zero.cast("bigint"), "base_fingerprint": fn.lit(None).cast("string")})
    usable = snapshots.select("cluster_id", "snapshot_offset", "fingerprint").distinct()
    usable = usable.join(fn.broadcast(far), "cluster_id")
    usable = usable.where("snapshot_offset >= log_start_offset and snapshot_offset <= end_offset")
    first = usable.where("log_start_offset > 0 or snapshot_offset = 0").groupBy("cluster_id")
    chosen = first.agg(fn.min(fn.struct("snapshot_offset", "fingerprint")).alias("base"))
    joined = far.join(fn.broadcast(chosen), "cluster_id", "left")
    return joined.withColumns(
        {"base_offset": fn.coalesce("base.snapshot_offset", at_zero), "base_fingerprint": fn.col("base.fingerprint")}
    ).drop("base")


def _ends(log: DataFrame) -> DataFrame:
    """Computes `log_start_offset`, `log_end_offset`, and `end_offset`, the first gap, for each cluster.

    The values are collected at once because several later joins use them.
    """
    found = log.groupBy("cluster_id").agg(fn.min("offset"), fn.max("offset") + 1, fn.count("*")).collect()
    twice = [each for each in found if each[3] > each[2] - each[1]]
    assert not twice, twice  # `bronze.settled` selects one record for each offset
    with_gap = [cluster_id for cluster_id, start, end, count in found if count < end - start]
    gaps = _gaps(log.where(fn.col("cluster_id").isin(with_gap))) if with_gap else {}
    assert gaps.keys() == set(with_gap), (gaps, with_gap)
    rows = [(cluster_id, start, end, gaps.get(cluster_id, end)) for cluster_id, start, end, _ in found]
    columns = "cluster_id string, log_start_offset bigint, log_end_offset bigint, end_offset bigint"
    return log.sparkSession.createDataFrame(rows, columns)


def _gaps(log: DataFrame) -> dict[str, Offset]:
    """Returns the first missing offset of each cluster that has a gap."""
    order = Window.partitionBy("cluster_id").orderBy("offset")
    beside = log.select("cluster_id", "offset", fn.lead("offset").over(order).alias("next"))
    found = beside.where("next > offset + 1").groupBy("cluster_id").agg(fn.min("offset") + 1)
    return dict(map(tuple, found.collect()))


def _published(log: DataFrame) -> DataFrame:
    """Removes the records of aborted and open transactions, from their Begin record on (KIP-868).

    Kafka publishes nothing of a transaction before its End record, and a new active controller aborts an open one.
    """
    order = Window.partitionBy("cluster_id").orderBy("offset")
    marks = log.where(fn.col("type").isin(*_TRANSACTION)).select("cluster_id", "offset", "type")
    pairs = marks.withColumns({"closed_by": fn.lead("type").over(order), "abort_offset": fn.lead("offset").over(order)})
    unseen = pairs.where(
        "type = 'BEGIN_TRANSACTION_RECORD' and (closed_by is null or closed_by = 'ABORT_TRANSACTION_RECORD')"
    )
    ranges = unseen.select("cluster_id", fn.col("offset").alias("begin_offset"), "abort_offset").alias("unseen")
    inside = fn.expr(
        "log.cluster_id = unseen.cluster_id and log.offset >= unseen.begin_offset"
        " and (unseen.abort_offset is null or log.offset <= unseen.abort_offset)"
    )
    return log.alias("log").join(fn.broadcast(ranges), inside, "left_anti")
