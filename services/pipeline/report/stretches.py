"""Stretches of time in which something stayed as it was: neighbours that are equal become one, the latest are kept."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["latest", "log_ends", "ms", "stretches", "worst"]


def log_ends(events: DataFrame) -> DataFrame:
    """From when to when each cluster is known, one row a cluster: `log_begin_time`, `log_end_time`."""
    own = fn.when(~fn.col("is_base"), fn.col("timestamp"))
    return events.groupBy("cluster_id").agg(
        fn.coalesce(fn.min(own), fn.min("timestamp")).alias("log_begin_time"),
        fn.max("timestamp").alias("log_end_time"),
    )


def stretches(rows: DataFrame, key: Sequence[str], states: Sequence[str]) -> DataFrame:
    """One row for each stretch of `begin` to `end` in which none of the `states` changed, if it lasted at all."""
    rows = rows.where("begin < end")
    order = Window.partitionBy(*key).orderBy("begin")
    before = [fn.lag(name).over(order).eqNullSafe(fn.col(name)) for name in states]
    goes_on = fn.lag("end").over(order).eqNullSafe(fn.col("begin"))
    for same in before:
        goes_on = goes_on & same
    numbered = rows.withColumn("begins", (~goes_on).cast("int"))
    numbered = numbered.withColumn("stretch", fn.sum("begins").over(order))
    bounds = (fn.min("begin").alias("begin"), fn.max("end").alias("end"))
    return numbered.groupBy(*key, "stretch").agg(*bounds, *(fn.first(name).alias(name) for name in states))


def latest(rows: DataFrame, key: Sequence[str], most: int, *, by: str = "begin") -> DataFrame:
    """The latest rows of each key; `total` is how many it has."""
    whole = Window.partitionBy(*key)
    counted = rows.withColumn("total", fn.count("*").over(whole))
    nth = fn.row_number().over(whole.orderBy(fn.desc(by)))
    return counted.withColumn("nth", nth).where(fn.col("nth") <= most).drop("nth")


def worst(rows: DataFrame, key: Sequence[str], order: Sequence[Column], most: int) -> DataFrame:
    """The first rows of each key in this order, by `place`; `total` is how many it has."""
    whole = Window.partitionBy(*key)
    counted = rows.withColumn("total", fn.count("*").over(whole))
    return counted.withColumn("place", fn.row_number().over(whole.orderBy(*order))).where(fn.col("place") <= most)


def ms(name: str) -> Column:
    """A time as milliseconds since the epoch, under the same name: no time zone of anybody's comes in."""
    return fn.unix_millis(name).alias(name)
