"""Finds periods in which no controller wrote a record, although an idle active controller writes regularly.

An idle active controller writes a NoOpRecord every `metadata.max.idle.interval.ms` (500 ms; KIP-835). So in a log with
NoOpRecords, a gap much longer than their interval means that no controller was active, or that it could not commit.
In a log without them (below 3.3-IV1, or with an interval of 0) nothing can be found.

Timestamps are those of the leaders: between two epochs a gap includes the difference of their clocks (`clocks`).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["INTERVALS", "SILENCE_S", "by_two_clocks", "silences"]

SILENCE_S: Final = 10.0
"""Minimum length of a reported gap in s: an election takes seconds (`controller.quorum.fetch.timeout.ms`, the vote)."""
INTERVALS: Final = 4
"""Minimum length of a reported gap in idle intervals; the interval is measured, because it is configurable."""


def silences(events: DataFrame, *, silence_s: float = SILENCE_S) -> DataFrame:
    """Finds gaps of at least `silence_s` seconds; the structs `before` and `after` are the records on both sides.

    Each has `timestamp`, `offset`, `epoch`, and `leader_id` if it is a LeaderChange; `silent_ms` is the time between
    them. An epoch's events are first grouped into time cells of `silence_s`: a longer gap always lies between two
    cells, so only the first and last record of each cell are compared, in the order of their offsets.
    """
    at = fn.unix_millis("timestamp")
    is_idle = fn.col("type") == "NO_OP_RECORD"
    leads = fn.when(fn.col("type") == "LEADER_CHANGE", fn.get_json_object("payload", "$.leaderId").cast("int"))
    one = fn.struct("offset", "timestamp", "epoch", leads.alias("leader_id"), is_idle.alias("is_idle"))
    idle_at = fn.when(is_idle, at)
    cells = (
        events.where("not is_base")
        .groupBy("cluster_id", "epoch", fn.floor(at / fn.lit(silence_s * 1000)).alias("cell"))
        .agg(
            fn.min(one).alias("after"),
            fn.max(one).alias("last"),
            fn.try_divide(fn.max(idle_at) - fn.min(idle_at), fn.count(idle_at) - 1).alias("apart_ms"),
            fn.count(idle_at).alias("idles"),
        )
    )
    order = Window.partitionBy("cluster_id").orderBy("after.offset")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    beside = cells.withColumns({"before": fn.lag("last").over(order), "idled": fn.sum("idles").over(earlier)})
    silent_ms = fn.unix_millis("after.timestamp") - fn.unix_millis("before.timestamp")
    found = beside.withColumn("silent_ms", silent_ms).withColumn("interval_ms", _interval_ms())
    least = fn.greatest(fn.lit(silence_s * 1000), INTERVALS * fn.col("interval_ms"))
    silent = found.where((fn.col("idled") > 0) & (fn.col("silent_ms") >= least))
    return silent.select("cluster_id", "before", "after", "silent_ms")


def by_two_clocks(before: str, after: str) -> Column:
    """Says of a gap between these two records that it was measured by two clocks; empty if by one."""
    differ = fn.col(f"{before}.epoch") != fn.col(f"{after}.epoch")
    return fn.when(differ, ", by the clocks of two controllers, which may differ").otherwise("")


def _interval_ms() -> Column:
    """Estimates each cluster's NoOpRecord interval in ms: within cells, or between cells if none holds two of them."""
    whole = Window.partitionBy("cluster_id")
    between = fn.when(fn.col("after.is_idle"), fn.col("silent_ms"))
    return fn.coalesce(*(fn.percentile_approx(of, 0.5).over(whole) for of in (fn.col("apart_ms"), between)), fn.lit(0))
