"""ISR churn: counts for each broker and day the ISRs left and joined, leaderships won and lost, and fencings."""

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
    """Computes one row a broker and day (UTC) with any change: the counts, and the number of partitions concerned."""
    effects = _of_partitions(silver["partition_history"]).unionByName(_of_brokers(silver["broker_history"]))
    counts = [fn.sum((fn.col("what") == name).cast("int")).alias(name) for name in COUNTS]
    return effects.groupBy("cluster_id", "date", "broker_id").agg(
        *counts, fn.count_distinct("topic_id", "partition_id").alias("partitions")
    )


def _of_partitions(history: DataFrame) -> DataFrame:
    """Returns a row for each broker that a partition's change affects, and for each kind of effect."""
    moved = fn.col("was_leader").isNotNull()
    brokers = {
        "isr_shrinks": fn.array_except("was_isr", "isr"),
        "isr_expands": fn.array_except("isr", "was_isr"),
        "leaderships_gained": fn.when(moved & (fn.col("leader") >= 0), fn.array("leader")),
        "leaderships_lost": fn.when(moved & (fn.col("was_leader") >= 0), fn.array("was_leader")),
    }
    effects = fn.array(*(fn.struct(fn.lit(what).alias("what"), ids.alias("ids")) for what, ids in brokers.items()))
    rows = history.where(moved | fn.col("was_isr").isNotNull()).withColumn("effects", fn.explode(effects))
    return rows.select(
        "cluster_id",
        fn.to_date("valid_from_time").alias("date"),
        fn.explode("effects.ids").alias("broker_id"),
        "effects.what",
        *KEY,
    )


def _of_brokers(history: DataFrame) -> DataFrame:
    # A new registration over one that was not fenced counts as a fencing too: the broker restarted before it was
    # fenced.
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
