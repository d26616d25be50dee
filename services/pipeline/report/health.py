"""Counts how many partitions at once were offline, under their min ISR, or had a replica out of the ISR.

Spark computes the counts: it sums the beginnings and ends at each moment, then within each of a few hundred time
buckets, then over the buckets. So no task handles all changes of a cluster, and the maximum within a bucket is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.gold.conditions import CONDITIONS
from services.pipeline.report.areas import Level
from services.pipeline.report.intervals import ms

__all__ = ["BUCKETS", "FLAGS", "Bucket", "level_steps", "read_buckets"]

BUCKETS: Final = 240
FLAGS: Final = ("short", "under_min_isr", "offline")
assert set(FLAGS) == set(CONDITIONS), (FLAGS, CONDITIONS)


class Bucket(NamedTuple):
    """A time bucket in which something began or ended; each tuple has one count for each of FLAGS."""

    cluster_id: str
    begin_ms: int
    end_ms: int
    top: tuple[int, ...]
    """The maximum of each count within the bucket."""
    after: tuple[int, ...]
    """Each count at the bucket's end."""


def read_buckets(spans: DataFrame, ends: DataFrame) -> list[Bucket]:
    """Collects each cluster's time buckets in which a count of FLAGS changes, in order.

    A cluster's log is cut into at most BUCKETS buckets of equal length. `ends` is the result of `log_ends`.
    """
    rows = _deltas(spans)
    placed = _placed(rows, ends)
    at = Window.partitionBy("cluster_id", "bucket").orderBy("at")
    running = placed.withColumns({f"run_{flag}": fn.sum(flag).over(at) for flag in FLAGS})
    nets = [fn.sum(flag).alias(f"net_{flag}") for flag in FLAGS]
    tops = [fn.greatest(fn.max(f"run_{flag}"), fn.lit(0)).alias(f"top_{flag}") for flag in FLAGS]
    each = running.groupBy("cluster_id", "bucket", "begin", "wide").agg(*nets, *tops)
    before = Window.partitionBy("cluster_id").orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    start = {f"start_{flag}": fn.coalesce(fn.sum(f"net_{flag}").over(before), fn.lit(0)) for flag in FLAGS}
    counted = each.withColumns(start).orderBy("cluster_id", "bucket")
    return [
        Bucket(
            row["cluster_id"],
            row["begin"] + row["bucket"] * row["wide"],
            row["begin"] + (row["bucket"] + 1) * row["wide"],
            tuple(row[f"start_{flag}"] + row[f"top_{flag}"] for flag in FLAGS),
            tuple(row[f"start_{flag}"] + row[f"net_{flag}"] for flag in FLAGS),
        )
        for row in counted.collect()
    ]


def level_steps(buckets: Sequence[Bucket], end_ms: int) -> list[Level]:
    """Builds the steps of one cluster's chart of partition counts, until `end_ms` (ms since 1970).

    A bucket shows the maximum of its time, and the gap until the next bucket the last count of the bucket before.
    """
    steps = []
    for bucket, following in zip_longest(buckets, buckets[1:]):
        until = following.begin_ms if following else end_ms
        steps.append(Level(bucket.begin_ms, bucket.end_ms, bucket.top))
        if until > bucket.end_ms:
            steps.append(Level(bucket.end_ms, until, bucket.after))
    return steps


def _deltas(spans: DataFrame) -> DataFrame:
    """Computes by how much the number of offline, under min ISR, and incomplete partitions changes at each moment."""
    bad = spans.where(" or ".join(FLAGS))
    ups = [fn.col(flag).cast("int").alias(flag) for flag in FLAGS]
    downs = [(-fn.col(flag).cast("int")).alias(flag) for flag in FLAGS]
    began = bad.select("cluster_id", fn.col("begin").alias("at"), *ups)
    # A span that lasts to the log's end does not end there: a change by the last record is drawn, too.
    over = bad.where("not is_last").select("cluster_id", fn.col("end").alias("at"), *downs)
    both = began.unionByName(over)
    return both.groupBy("cluster_id", "at").agg(*(fn.sum(flag).alias(flag) for flag in FLAGS))


def _placed(rows: DataFrame, ends: DataFrame) -> DataFrame:
    """Adds to each moment its bucket's number and the bucket width in ms."""
    known = ends.select("cluster_id", ms("log_begin_time").alias("begin"), ms("log_end_time").alias("end"))
    wide = fn.greatest(fn.ceil((fn.col("end") - fn.col("begin")) / BUCKETS), fn.lit(1))
    joined = rows.join(fn.broadcast(known.withColumn("wide", wide)), "cluster_id")
    number = fn.floor((fn.unix_millis("at") - fn.col("begin")) / fn.col("wide"))
    return joined.withColumn("bucket", fn.least(fn.greatest(number, fn.lit(0)), fn.lit(BUCKETS - 1)))
