"""Placement skew: compares each broker's and rack's replicas and leaders with a fair share, and finds shared racks.

The fair share of replicas is the same for every registered broker, that of leaders the same for every active broker
(not fenced, not in controlled shutdown); a rack's share is the sum of its brokers'. Skew is the excess relative to the
share: 0.1 is ten percent too much, -1 is nothing at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from services.pipeline.memory import shortened
from services.pipeline.silver.present import Present, present, replicas_of

__all__ = ["COLUMNS", "crowded", "placement_skew"]

COLUMNS: Final = (
    "cluster_id",
    "as_of_offset",
    "as_of_time",
    "scope",
    "subject",
    "rack",
    "state",
    "brokers",
    "partitions",
    "replicas",
    "leaders",
    "preferred_leaders",
    "isr_members",
    "fair_replicas",
    "fair_leaders",
    "replica_skew",
    "leader_skew",
    "preferred_leader_skew",
    "rack_violations",
    "on_one_rack",
)
_COUNTS: Final = ("replicas", "leaders", "preferred_leaders", "isr_members")


def placement_skew(silver: Mapping[str, DataFrame], *, now: Present | None = None) -> DataFrame:
    """Computes a row for each `scope` (broker, rack, topic) and `subject`.

    `now` is the result of `present`, if the caller has it already.
    `state` of a broker is active, fenced, in controlled shutdown, or unregistered (it still has replicas).
    `rack_violations` counts partitions on fewer racks than possible (the lesser of their replicas and the racks),
    `on_one_rack` those among them with all replicas on one rack. Partitions with an unknown rack are not counted.
    """
    now = now or present(silver)
    by_broker = shortened(_brokers(now))
    rows = by_broker.unionByName(_racks(by_broker), allowMissingColumns=True)
    rows = rows.unionByName(_topics(now), allowMissingColumns=True).join(fn.broadcast(now.at), "cluster_id")
    skews = {
        "replica_skew": _skew("replicas", "fair_replicas"),
        "leader_skew": _skew("leaders", "fair_leaders"),
        "preferred_leader_skew": _skew("preferred_leaders", "fair_preferred_leaders"),
    }
    return rows.withColumns(skews).select(*COLUMNS)


def crowded(now: Present) -> DataFrame:
    """Returns the partitions on fewer racks than possible, with `racks`, `wanted_racks` and `replica_count`.

    Partitions with a replica on an unknown rack, and clusters with fewer than two racks, are left out.
    """
    racks = now.brokers.groupBy("cluster_id").agg(fn.count_distinct("rack").alias("rack_count"))
    rows = replicas_of(now).groupBy("cluster_id", "topic", "topic_id", "partition_id", "since_offset", "since_time")
    spread = rows.agg(
        fn.count("*").alias("replica_count"),
        fn.count("rack").alias("with_rack"),
        fn.array_sort(fn.collect_set("rack")).alias("racks"),
    )
    known = spread.where("with_rack = replica_count").join(fn.broadcast(racks), "cluster_id").where("rack_count > 1")
    wanted = known.withColumn("wanted_racks", fn.least("replica_count", "rack_count"))
    return wanted.where("size(racks) < wanted_racks").drop("with_rack", "rack_count")


def _brokers(now: Present) -> DataFrame:
    """Computes one row a broker that is registered or has replicas, with its counts and fair shares."""
    held = replicas_of(now).groupBy("cluster_id", "broker_id").agg(*_counted())
    known = now.brokers.select("cluster_id", "broker_id", "rack", _state().alias("state"))
    rows = known.join(held, ["cluster_id", "broker_id"], "full").fillna(0, [*_COUNTS, "partitions"])
    rows = rows.withColumn("state", fn.coalesce("state", fn.lit("unregistered")))
    shares = rows.groupBy("cluster_id").agg(
        *(fn.sum(name).alias(f"all_{name}") for name in _COUNTS),
        fn.sum((fn.col("state") != "unregistered").cast("int")).alias("registered"),
        fn.sum((fn.col("state") == "active").cast("int")).alias("active"),
    )
    shared = rows.join(fn.broadcast(shares), "cluster_id")
    among = fn.when(fn.col("state") != "unregistered", fn.col("registered"))
    led_by = fn.when(fn.col("state") == "active", fn.col("active"))
    return shared.select(
        "cluster_id",
        fn.lit("broker").alias("scope"),
        fn.col("broker_id").cast("string").alias("subject"),
        "rack",
        "state",
        fn.lit(1).cast("bigint").alias("brokers"),
        "partitions",
        *_COUNTS,
        fn.coalesce(fn.col("all_replicas") / among, fn.lit(0.0)).alias("fair_replicas"),
        fn.coalesce(fn.col("all_leaders") / led_by, fn.lit(0.0)).alias("fair_leaders"),
        fn.coalesce(fn.col("all_preferred_leaders") / among, fn.lit(0.0)).alias("fair_preferred_leaders"),
    )


def _racks(brokers: DataFrame) -> DataFrame:
    sums = ("brokers", *_COUNTS, "fair_replicas", "fair_leaders", "fair_preferred_leaders")
    rows = brokers.where("rack is not null").groupBy("cluster_id", "rack").agg(*(fn.sum(n).alias(n) for n in sums))
    return rows.withColumns({"scope": fn.lit("rack"), "subject": fn.col("rack")})


def _topics(now: Present) -> DataFrame:
    rows = replicas_of(now).groupBy("cluster_id", "topic_id", "topic")
    counted = rows.agg(*_counted(), fn.count_distinct("broker_id").alias("brokers"))
    on_one = fn.sum((fn.size("racks") == 1).cast("int")).alias("on_one_rack")
    bad = crowded(now).groupBy("cluster_id", "topic_id").agg(fn.count("*").alias("rack_violations"), on_one)
    joined = counted.join(bad, ["cluster_id", "topic_id"], "left").fillna(0, ["rack_violations", "on_one_rack"])
    return joined.drop("topic_id").withColumns({"scope": fn.lit("topic"), "subject": fn.col("topic")}).drop("topic")


def _counted() -> tuple[Column, ...]:
    def count(flag: Column) -> Column:
        return fn.sum(flag.cast("int"))

    return (
        fn.count("*").alias("replicas"),
        count(fn.col("is_leader")).alias("leaders"),
        count(fn.col("place") == 0).alias("preferred_leaders"),
        count(fn.col("in_isr")).alias("isr_members"),
        fn.count_distinct("topic_id", "partition_id").alias("partitions"),
    )


def _state() -> Column:
    shuts_down = fn.when(fn.col("in_controlled_shutdown"), "in controlled shutdown")
    return fn.when(fn.col("fenced"), "fenced").otherwise(fn.coalesce(shuts_down, fn.lit("active")))


def _skew(count: str, share: str) -> Column:
    return fn.when(fn.col(share) > 0, fn.col(count) / fn.col(share) - 1)
