"""ISR churn: how often each broker left and joined ISRs, won and lost leaderships, and was fenced, each day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.validity import by_key

__all__ = ["COUNTS", "isr_churn"]

COUNTS: Final = ("isr_shrinks", "isr_expands", "leaderships_gained", "leaderships_lost", "fenced", "unfenced")


def isr_churn(silver: Mapping[str, DataFrame]) -> DataFrame:
    """One row a broker and day (UTC) with anything to tell: the counts, and how many partitions they concern."""
    told = _of_partitions(silver["partition_history"]).unionByName(_of_brokers(silver["broker_history"]))
    counts = [fn.sum((fn.col("what") == name).cast("int")).alias(name) for name in COUNTS]
    return told.groupBy("cluster_id", "date", "broker_id").agg(
        *counts, fn.count_distinct("topic_id", "partition_id").alias("partitions")
    )


def _of_partitions(history: DataFrame) -> DataFrame:
    """A row for each broker that a change concerns, and for each way in which it does."""
    moved = fn.col("was_leader").isNotNull()
    brokers = {
        "isr_shrinks": fn.array_except("was_isr", "isr"),
        "isr_expands": fn.array_except("isr", "was_isr"),
        "leaderships_gained": fn.when(moved & (fn.col("leader") >= 0), fn.array("leader")),
        "leaderships_lost": fn.when(moved & (fn.col("was_leader") >= 0), fn.array("was_leader")),
    }
    told = fn.array(*(fn.struct(fn.lit(what).alias("what"), ids.alias("ids")) for what, ids in brokers.items()))
    rows = history.where(moved | fn.col("was_isr").isNotNull()).withColumn("told", fn.explode(told))
    return rows.select(
        "cluster_id",
        fn.to_date("valid_from_time").alias("date"),
        fn.explode("told.ids").alias("broker_id"),
        "told.what",
        *KEY,
    )


def _of_brokers(history: DataFrame) -> DataFrame:
    # A registration that ends another is a fencing too, if that one was not fenced: the broker was back too soon.
    order = by_key(("broker_id",), "valid_from_offset")
    follows = fn.lag("valid_to_offset").over(order) == fn.col("valid_from_offset")
    rows = history.withColumn("was_fenced", fn.when(follows, fn.lag("fenced").over(order)))
    what = fn.when(fn.col("fenced"), "fenced").otherwise("unfenced")
    changed = rows.where(fn.col("fenced") != fn.col("was_fenced"))
    return changed.select(
        "cluster_id",
        fn.to_date("valid_from_time").alias("date"),
        "broker_id",
        what.alias("what"),
        *(fn.lit(None).cast(kind).alias(name) for name, kind in zip(KEY, ("string", "int"), strict=True)),
    )
