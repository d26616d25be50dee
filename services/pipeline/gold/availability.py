"""Availability: how many seconds of each day each partition was offline, or under its min ISR, and its elections.

Offline is without a leader. Under min ISR is as a Kafka leader counts it: the ISR has fewer members than the least of
`min.insync.replicas` and the replicas. That config is the topic's, else the default of all brokers, else 1: what
stands in a broker's own file is in no log.

A leader change is another leader than before, or one where there was none. Times are those of the records; a clock
that goes back, as a new active controller's may, stands still instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import RECOVERED, RECOVERING
from services.pipeline.silver.partitions import KEY, before
from services.pipeline.silver.validity import by_key

__all__ = ["MIN_ISR", "availability", "led_anew", "led_uncleanly", "partition_spans"]

MIN_ISR: Final = "min.insync.replicas"
_ALL: Final = ("topic", *KEY)
_NOT_SET: Final = 0


def availability(silver: Mapping[str, DataFrame]) -> DataFrame:
    """One row a partition and day (UTC) on which it was: seconds, and counts of elections."""
    spans = partition_spans(silver["partition_history"], silver["config_history"], _ends(silver["events"]))
    days = spans.withColumn("date", fn.explode(fn.sequence(fn.to_date("begin"), fn.to_date("end"))))
    midnight = fn.col("date").cast("timestamp")
    seconds = _seconds(fn.greatest("begin", midnight), fn.least("end", fn.date_add("date", 1).cast("timestamp")))
    began_here = fn.to_date("begin") == fn.col("date")
    # What ends at midnight was not there on the day that begins then.
    days = days.withColumn("seconds", seconds).where((fn.col("seconds") > 0) | began_here)
    return days.groupBy("cluster_id", *_ALL, "date").agg(
        fn.sum("seconds").alias("seconds"),
        _sum_where("offline", "seconds").alias("offline_seconds"),
        _sum_where("under_min_isr", "seconds").alias("under_min_isr_seconds"),
        fn.sum((began_here & fn.col("led_anew")).cast("int")).alias("leader_changes"),
        fn.sum((began_here & fn.col("unclean")).cast("int")).alias("unclean_elections"),
    )


def led_anew() -> Column:
    """Of rows of `partition_history`: has there been an election? Null where nothing was before."""
    return fn.when(~fn.col("is_first"), fn.col("was_leader").isNotNull() & (fn.col("leader") >= 0))


def led_uncleanly() -> Column:
    """Of rows of `partition_history`: may the new leader lack committed records? KIP-704, KIP-966.

    The log says so from 3.2 on, but not if the last leader was such a one too. So also a leader counts that had not
    been in the ISR or ELR; but for a reassignment, which ends in one record as its new replica joins the ISR (KIP-455).
    """
    recovers = (fn.col("leader_recovery_state") == RECOVERING) & (fn.col("was_leader_recovery_state") == RECOVERED)
    was_in = fn.array_contains(before("isr"), fn.col("leader")) | fn.array_contains(before("elr"), fn.col("leader"))
    same_replicas = fn.coalesce(fn.sort_array("replicas") == fn.sort_array("was_replicas"), fn.lit(True))
    return recovers | (led_anew() & ~was_in & same_replicas)


def partition_spans(partitions: DataFrame, configs: DataFrame, ends: DataFrame) -> DataFrame:
    """Stretches of time in which nothing that counts here changed."""
    states = _elections(partitions)
    born = states.groupBy("cluster_id", *_ALL).agg(
        fn.min("offset").alias("born"), fn.max(fn.coalesce("valid_to_offset", fn.lit((1 << 63) - 1))).alias("gone")
    )
    rows = states
    for own in (True, False):
        rows = rows.unionByName(_settings(configs, born, own=own), allowMissingColumns=True)
    order = by_key(KEY)
    filled = rows.withColumns(
        {
            name: fn.last(name, ignorenulls=True).over(order)
            for name in ("leader", "isr_count", "replica_count", "removed_time", "own_min", "default_min")
        }
    )
    filled = filled.withColumn("timestamp", fn.max("timestamp").over(order))
    filled = filled.withColumn("next_time", fn.lead("timestamp").over(order))
    filled = filled.where("leader is not null").join(fn.broadcast(ends), "cluster_id")
    set_own, set_default = (fn.nullif(fn.col(name), fn.lit(_NOT_SET)) for name in ("own_min", "default_min"))
    least = fn.least(fn.coalesce(set_own, set_default, fn.lit(1)), fn.col("replica_count"))
    return filled.withColumns(
        {
            "begin": fn.col("timestamp"),
            "end": fn.greatest("timestamp", fn.coalesce("next_time", "removed_time", "log_end_time")),
            "offline": fn.col("leader") < 0,
            "under_min_isr": fn.col("isr_count") < least,
            "led_anew": fn.coalesce("led_anew", fn.lit(False)),
            "unclean": fn.coalesce("unclean", fn.lit(False)),
        }
    )


def _elections(partitions: DataFrame) -> DataFrame:
    return partitions.select(
        "cluster_id",
        *_ALL,
        fn.col("valid_from_offset").alias("offset"),
        fn.col("valid_from_time").alias("timestamp"),
        "valid_to_offset",
        fn.when(fn.col("end_type") == "REMOVE_TOPIC_RECORD", fn.col("valid_to_time")).alias("removed_time"),
        "leader",
        fn.size("isr").alias("isr_count"),
        fn.size("replicas").alias("replica_count"),
        led_anew().alias("led_anew"),
        led_uncleanly().alias("unclean"),
    )


def _settings(configs: DataFrame, born: DataFrame, *, own: bool) -> DataFrame:
    """Changes of the min ISR, as rows of every partition that they concern."""
    resource = (fn.col("resource_type") == (TOPIC if own else BROKER)) & (fn.col("name") == MIN_ISR)
    rows = configs.where(resource if own else resource & (fn.col("resource_name") == ""))
    column = "own_min" if own else "default_min"
    begun = rows.select(
        "cluster_id",
        "resource_name",
        fn.col("valid_from_offset").alias("offset"),
        fn.col("valid_from_time").alias("timestamp"),
        fn.coalesce(fn.col("value").try_cast("int"), fn.lit(_NOT_SET)).alias(column),
    )
    # A topic's end is the end of what was set on it: one of the same name that comes later has none of it.
    over = rows.where("valid_to_offset is not null").select(
        "cluster_id",
        "resource_name",
        fn.col("valid_to_offset").alias("offset"),
        fn.col("valid_to_time").alias("timestamp"),
        fn.lit(_NOT_SET).alias(column),
    )
    # Where one value follows another at one offset, the new one counts.
    both = begun.unionByName(over).groupBy("cluster_id", "resource_name", "offset", "timestamp")
    changes = both.agg(fn.max(column).alias(column)).alias("change")
    concerns = fn.expr("change.cluster_id = born.cluster_id and change.offset < born.gone")
    if own:
        concerns = concerns & fn.expr("change.resource_name = born.topic")
    found = born.alias("born").join(changes, concerns)
    return found.select(
        "born.cluster_id", *(f"born.{name}" for name in _ALL), "change.offset", "change.timestamp", f"change.{column}"
    )


def _ends(events: DataFrame) -> DataFrame:
    """Until when each cluster is known."""
    return events.groupBy("cluster_id").agg(fn.max("timestamp").alias("log_end_time"))


def _seconds(begin: Column, end: Column) -> Column:
    return (fn.unix_micros(end) - fn.unix_micros(begin)) / 1_000_000


def _sum_where(flag: str, amount: str) -> Column:
    return fn.sum(fn.when(fn.col(flag), fn.col(amount)).otherwise(0.0))
