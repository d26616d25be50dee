"""Intervals of unchanged state: merges equal neighbours, and selects the latest or the worst rows of each key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["latest", "log_ends", "ms", "stretches", "worst"]


def log_ends(events: DataFrame) -> DataFrame:
    """Computes the earliest and the latest record time of each cluster, one row a cluster.

    They are `log_begin_time` and `log_end_time`. If there are others, no record of the base checkpoint is the earliest.
    """
    own = fn.when(~fn.col("is_base"), fn.col("timestamp"))
    return events.groupBy("cluster_id").agg(
        fn.coalesce(fn.min(own), fn.min("timestamp")).alias("log_begin_time"),
        fn.max("timestamp").alias("log_end_time"),
    )


def stretches(rows: DataFrame, key: Sequence[str], states: Sequence[str]) -> DataFrame:
    """Merges consecutive rows with equal `states` into one interval `begin` to `end`.

    Rows of no duration are dropped, except the last one of a log (`is_last`): it says how things stand.
    """
    rows = rows.where("begin < end or is_last")
    order = Window.partitionBy(*key).orderBy("begin", "end")
    before = [fn.lag(name).over(order).eqNullSafe(fn.col(name)) for name in states]
    goes_on = fn.lag("end").over(order).eqNullSafe(fn.col("begin"))
    for same in before:
        goes_on = goes_on & same
    numbered = rows.withColumn("begins", (~goes_on).cast("int"))
    numbered = numbered.withColumn("stretch", fn.sum("begins").over(order))
    bounds = (fn.min("begin").alias("begin"), fn.max("end").alias("end"))
    return numbered.groupBy(*key, "stretch").agg(*bounds, *(fn.first(name).alias(name) for name in states))


def latest(rows: DataFrame, key: Sequence[str], most: int, *, by: str = "begin") -> DataFrame:
    """Selects the `most` latest rows of each key, by the column `by`; `total` is the key's number of rows."""
    whole = Window.partitionBy(*key)
    counted = rows.withColumn("total", fn.count("*").over(whole))
    nth = fn.row_number().over(whole.orderBy(fn.desc(by)))
    return counted.withColumn("nth", nth).where(fn.col("nth") <= most).drop("nth")


def worst(rows: DataFrame, key: Sequence[str], order: Sequence[Column], most: int) -> DataFrame:
    """Selects the first `most` rows of each key in this order; `place` is a row's rank, `total` the key's row count."""
    whole = Window.partitionBy(*key)
    counted = rows.withColumn("total", fn.count("*").over(whole))
    return counted.withColumn("place", fn.row_number().over(whole.orderBy(*order))).where(fn.col("place") <= most)


def ms(name: str) -> Column:
    """Converts a timestamp to ms since 1970 under the same name, independent of the session's time zone."""
    return fn.unix_millis(name).alias(name)
