"""ISR churn: how often each broker left and joined ISRs, won and lost leaderships, and was fenced, each day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.validity import by_key

__all__ = ["COUNTS", "isr_churn"]

COUNTS: Final = ("isr_shrinks", "isr_expands", "leaderships_gained", "leaderships_lost", "fenced", "unfenced")


def isr_churn(silver: Mapping[str, DataFrame]) -> DataFrame:
    """One row a broker and day (UTC) with anything to tell: the counts, and how many partitions they concern."""
    # A registration that ends another is a fencing too, if that one was not fenced: the broker was back too soon.
    partitions = _before(silver["partition_history"], KEY, ("isr", "leader"))
    brokers = _before(silver["broker_history"], ("broker_id",), ("fenced",))
    moved = fn.col("leader") != fn.col("was_leader")
    told = [
        _many(partitions, "isr_shrinks", fn.array_except("was_isr", "isr")),
        _many(partitions, "isr_expands", fn.array_except("isr", "was_isr")),
        _many(partitions, "leaderships_gained", fn.when(moved & (fn.col("leader") >= 0), fn.array("leader"))),
        _many(partitions, "leaderships_lost", fn.when(moved & (fn.col("was_leader") >= 0), fn.array("was_leader"))),
        _one(brokers, "fenced", fn.col("fenced") & ~fn.col("was_fenced")),
        _one(brokers, "unfenced", ~fn.col("fenced") & fn.col("was_fenced")),
    ]
    rows = told[0]
    for more in told[1:]:
        rows = rows.unionByName(more)
    counts = [fn.sum((fn.col("what") == name).cast("int")).alias(name) for name in COUNTS]
    return rows.groupBy("cluster_id", "date", "broker_id").agg(
        *counts, fn.count_distinct("partition").alias("partitions")
    )


def _before(history: DataFrame, key: tuple[str, ...], columns: tuple[str, ...]) -> DataFrame:
    """Rows with what was before, as `was_…`; null where a thing begins, be it anew under an old name."""
    order = by_key(key, "valid_from_offset")
    follows = fn.lag("valid_to_offset").over(order) == fn.col("valid_from_offset")
    rows = history.withColumns({f"was_{name}": fn.when(follows, fn.lag(name).over(order)) for name in columns})
    return rows.withColumn("date", fn.to_date("valid_from_time"))


def _many(rows: DataFrame, what: str, brokers: Column) -> DataFrame:
    partition = fn.concat_ws("-", *KEY).alias("partition")
    return rows.select(
        "cluster_id", "date", fn.explode(brokers).alias("broker_id"), fn.lit(what).alias("what"), partition
    )


def _one(rows: DataFrame, what: str, happened: Column) -> DataFrame:
    nothing = fn.lit(None).cast("string").alias("partition")
    return rows.where(happened).select("cluster_id", "date", "broker_id", fn.lit(what).alias("what"), nothing)
