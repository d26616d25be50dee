"""Finds periods in which no controller wrote a record, although an idle active controller writes regularly.

An idle active controller writes a NoOpRecord every `metadata.max.idle.interval.ms` (500 ms; KIP-835). So between
NoOpRecords a gap much longer than their interval means that no controller was active, or that it could not commit.
The interval is a controller's own and may be changed or set to 0, so it is measured just before and just behind a gap:
where NoOpRecords end, or come more slowly from then on, nothing is said. Nor in a log without them (below 3.3-IV1).

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
"""Minimum length of a reported gap in idle intervals."""


def silences(events: DataFrame) -> DataFrame:
    """Finds the periods in which no controller wrote; the structs `before` and `after` are the records on both sides.

    They are gaps of at least SILENCE_S seconds, and of INTERVALS intervals of the NoOpRecords around them (KIP-835); in
    a log without NoOpRecords there are none. Each struct has `timestamp`, `offset`, `epoch`, and `leader_id` if it is a
    LeaderChange; `silent_ms` is the time between them. An epoch's events are first grouped into time cells of
    SILENCE_S: a longer gap always lies between two cells, so only the first and last record of each cell are compared,
    in the order of their offsets.
    """
    least_ms = SILENCE_S * 1000
    order = Window.partitionBy("cluster_id").orderBy("after.offset")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    beside = _intervals(_cells(events, least_ms)).withColumns(
        {
            "before": fn.lag("last").over(order),
            "idled": fn.sum("idles").over(earlier),
            "interval_before": fn.lag("interval_so_far").over(order),
            "idle_before": fn.lag("idle_so_far").over(order),
        }
    )
    silent_ms = fn.unix_millis("after.timestamp") - fn.unix_millis("before.timestamp")
    found = beside.withColumn("silent_ms", silent_ms)
    known = fn.greatest("interval_before", "interval_from_here")  # of two of which one is null the other
    is_long = fn.col("silent_ms") >= fn.greatest(fn.lit(least_ms), INTERVALS * known)
    silent = found.where((fn.col("idled") > 0) & is_long & _is_out_of_turn(known, least_ms))
    return silent.select("cluster_id", "before", "after", "silent_ms")


def _cells(events: DataFrame, cell_ms: float) -> DataFrame:
    """Groups each epoch's records by time: the first and last one, and the NoOpRecords among them."""
    at = fn.unix_millis("timestamp")
    is_idle = fn.col("type") == "NO_OP_RECORD"
    leads = fn.when(fn.col("type") == "LEADER_CHANGE", fn.get_json_object("payload", "$.leaderId").cast("int"))
    one = fn.struct("offset", "timestamp", "epoch", leads.alias("leader_id"))
    idle_at = fn.when(is_idle, at)
    return (
        events.where("not is_base")
        .groupBy("cluster_id", "epoch", fn.floor(at / fn.lit(cell_ms)).alias("cell"))
        .agg(
            fn.min(one).alias("after"),
            fn.max(one).alias("last"),
            fn.min(idle_at).alias("first_idle"),
            fn.max(idle_at).alias("last_idle"),
            fn.count(idle_at).alias("idles"),
        )
    )


def _intervals(cells: DataFrame) -> DataFrame:
    """Adds the interval of NoOpRecords in ms, within the epoch: the last up to each cell, and the first from it on."""
    order = Window.partitionBy("cluster_id", "epoch").orderBy("after.offset")
    first, last = Window.unboundedPreceding, Window.unboundedFollowing
    before, behind = order.rowsBetween(first, -1), order.rowsBetween(1, last)
    so_far, from_here = order.rowsBetween(first, 0), order.rowsBetween(0, last)
    within = fn.when(fn.col("idles") > 1, (fn.col("last_idle") - fn.col("first_idle")) / (fn.col("idles") - 1))
    idle_before = fn.last("last_idle", ignorenulls=True).over(before)
    idle_behind = fn.first("first_idle", ignorenulls=True).over(behind)
    each = cells.withColumns(
        {
            "idle_so_far": fn.last("last_idle", ignorenulls=True).over(so_far),
            "interval_to": fn.coalesce(within, fn.col("first_idle") - idle_before),
            "interval_on": fn.coalesce(within, idle_behind - fn.col("last_idle")),
        }
    )
    return each.withColumns(
        {
            "interval_so_far": fn.last("interval_to", ignorenulls=True).over(so_far),
            "interval_from_here": fn.first("interval_on", ignorenulls=True).over(from_here),
        }
    )


def _is_out_of_turn(interval_ms: Column, least_ms: float) -> Column:
    """Returns whether NoOpRecords were being written before a gap; and in the same epoch are behind it, too."""
    since_idle = fn.unix_millis("before.timestamp") - fn.col("idle_before")
    wrote = since_idle <= fn.greatest(fn.lit(least_ms), INTERVALS * interval_ms)
    is_same = fn.col("before.epoch") == fn.col("after.epoch")
    # An epoch that has no NoOpRecord before the gap has not yet come to the first one.
    return fn.when(is_same, fn.col("interval_from_here").isNotNull() & fn.coalesce(wrote, fn.lit(True))).otherwise(
        fn.col("interval_before").isNotNull() & wrote
    )


def by_two_clocks(before: str, after: str) -> Column:
    """Returns the words that say of a gap between these two records that two clocks measured it; empty if one did."""
    differ = fn.col(f"{before}.epoch") != fn.col(f"{after}.epoch")
    return fn.when(differ, ", by the clocks of two controllers, which may differ").otherwise("")
