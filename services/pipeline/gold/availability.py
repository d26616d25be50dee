"""Availability: each partition's seconds offline and under min ISR, and its elections, for each day.

`conditions` says what offline and under min ISR mean. `min.insync.replicas` is the topic's, else the brokers' default,
else an assumed value (1 by default), because a broker's own file is not in the log; the assumed time is counted too.

A leader change is a new leader after another one or after none. Times are those of the records. A new active
controller's clock may be behind; a timestamp earlier than one before it is replaced by that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import RECOVERED, RECOVERING
from services.pipeline.gold.conditions import is_offline, is_under_min_isr, is_under_replicated, wanted_replicas
from services.pipeline.silver.partitions import KEY, before
from services.pipeline.silver.present import MIN_ISR, MIN_ISR_DEFAULT
from services.pipeline.silver.validity import by_key

__all__ = ["availability", "ends_of", "led_anew", "led_uncleanly", "partition_spans"]

_ALL: Final = ("topic", *KEY)
_NOT_SET: Final = 0
_COUNTED: Final = ("leader", "isr_count", "replica_count", "wanted_count")


def availability(silver: Mapping[str, DataFrame], *, min_isr: int = MIN_ISR_DEFAULT) -> DataFrame:
    """Computes one row for each partition and day (UTC) on which it existed: seconds, and counts of elections.

    `assumed_min_isr` is `min_isr`; `min_isr_assumed_seconds` is the time in which no record set the config.
    """
    ends = ends_of(silver["events"])
    spans = partition_spans(silver["partition_history"], silver["config_history"], ends, min_isr=min_isr)
    days = spans.withColumn("date", fn.explode(fn.sequence(fn.to_date("begin"), fn.to_date("end"))))
    midnight = fn.col("date").cast("timestamp")
    seconds = _seconds(fn.greatest("begin", midnight), fn.least("end", fn.date_add("date", 1).cast("timestamp")))
    began_here = fn.to_date("begin") == fn.col("date")
    # An interval that ends at midnight has no time on the following day.
    days = days.withColumn("seconds", seconds).where((fn.col("seconds") > 0) | began_here)
    found = days.groupBy("cluster_id", *_ALL, "date").agg(
        fn.sum("seconds").alias("seconds"),
        _sum_where("offline", "seconds").alias("offline_seconds"),
        _sum_where("under_min_isr", "seconds").alias("under_min_isr_seconds"),
        _sum_where("min_isr_is_assumed", "seconds").alias("min_isr_assumed_seconds"),
        fn.sum((began_here & fn.col("led_anew")).cast("int")).alias("leader_changes"),
        fn.sum((began_here & fn.col("unclean")).cast("int")).alias("unclean_elections"),
    )
    return found.withColumn("assumed_min_isr", fn.lit(min_isr))


def led_anew() -> Column:
    """Returns, for rows of `partition_history`, whether a leader was elected; null for a partition's first row."""
    return fn.when(~fn.col("is_first"), fn.col("was_leader").isNotNull() & (fn.col("leader") >= 0))


def led_uncleanly() -> Column:
    """Returns, for rows of `partition_history`, whether the new leader may lack committed records. KIP-704, KIP-966.

    Since 3.2 the log records the RECOVERING state, but it does not change if the leader before was RECOVERING too. So a
    leader that was not in the ISR or ELR counts as well, except at the end of a reassignment, where one record makes
    the new replica a member of the ISR and the leader (KIP-455).
    """
    recovers = (fn.col("leader_recovery_state") == RECOVERING) & (fn.col("was_leader_recovery_state") == RECOVERED)
    was_in = fn.array_contains(before("isr"), fn.col("leader")) | fn.array_contains(before("elr"), fn.col("leader"))
    same_replicas = fn.coalesce(fn.sort_array("replicas") == fn.sort_array("was_replicas"), fn.lit(True))
    return recovers | (led_anew() & ~was_in & same_replicas)


def partition_spans(
    partitions: DataFrame, configs: DataFrame, ends: DataFrame, *, min_isr: int = MIN_ISR_DEFAULT
) -> DataFrame:
    """Computes the intervals in which a partition's leader, ISR size and min ISR did not change.

    `min_isr` is assumed while no record sets the config. `by_config` is true if a change of the config began the
    interval, `is_last` if it holds at the log's end, `is_removed` if its topic's removal ends it. `timestamp` is that
    of the record at the interval's `begin`, which is later if a record before has a later one.
    """
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
            for name in (*_COUNTED, "removed_time", "removed_offset", "own_min", "default_min")
        }
    )
    filled = filled.withColumn("begin", fn.max("timestamp").over(order))
    filled = filled.withColumns(
        {"next_time": fn.lead("begin").over(order), "next_offset": fn.lead("offset").over(order)}
    )
    filled = filled.where("leader is not null").join(fn.broadcast(ends), "cluster_id")
    set_own, set_default = (fn.nullif(fn.col(name), fn.lit(_NOT_SET)) for name in ("own_min", "default_min"))
    set_or_assumed = fn.coalesce(set_own, set_default, fn.lit(min_isr))
    leader, isr_count, replica_count, wanted = (fn.col(name) for name in _COUNTED)
    return filled.withColumns(
        {
            "end": fn.greatest("begin", fn.coalesce("next_time", "removed_time", "log_end_time")),
            "min_isr": set_or_assumed,
            "offline": is_offline(leader),
            "short": is_under_replicated(isr_count, wanted),
            "under_min_isr": is_under_min_isr(leader, isr_count, replica_count, set_or_assumed),
            "by_config": fn.coalesce("by_config", fn.lit(False)),
            "is_removed": fn.col("next_offset").isNull() & fn.col("removed_time").isNotNull(),
            "is_last": fn.col("next_offset").isNull() & fn.col("removed_time").isNull(),
            "min_isr_is_assumed": fn.coalesce(set_own, set_default).isNull(),
            "led_anew": fn.coalesce("led_anew", fn.lit(False)),
            "unclean": fn.coalesce("unclean", fn.lit(False)),
        }
    )


def _elections(partitions: DataFrame) -> DataFrame:
    removed = fn.col("end_type") == "REMOVE_TOPIC_RECORD"
    return partitions.select(
        "cluster_id",
        *_ALL,
        fn.col("valid_from_offset").alias("offset"),
        fn.col("valid_from_time").alias("timestamp"),
        "valid_to_offset",
        fn.when(removed, fn.col("valid_to_time")).alias("removed_time"),
        fn.when(removed, fn.col("valid_to_offset")).alias("removed_offset"),
        "leader",
        fn.size("isr").alias("isr_count"),
        fn.size("replicas").alias("replica_count"),
        fn.size(wanted_replicas()).alias("wanted_count"),
        led_anew().alias("led_anew"),
        led_uncleanly().alias("unclean"),
    )


def _settings(configs: DataFrame, born: DataFrame, *, own: bool) -> DataFrame:
    """Returns each change of min.insync.replicas as a row of every partition that it concerns."""
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
    # The removal of a topic ends its configs, so a later topic of the same name starts without them.
    over = rows.where("valid_to_offset is not null").select(
        "cluster_id",
        "resource_name",
        fn.col("valid_to_offset").alias("offset"),
        fn.col("valid_to_time").alias("timestamp"),
        fn.lit(_NOT_SET).alias(column),
    )
    # If one value ends and another begins at the same offset, the new one counts.
    both = begun.unionByName(over).groupBy("cluster_id", "resource_name", "offset", "timestamp")
    changes = both.agg(fn.max(column).alias(column)).alias("change")
    concerns = fn.expr("change.cluster_id = born.cluster_id and change.offset < born.gone")
    if own:
        concerns = concerns & fn.expr("change.resource_name = born.topic")
    found = born.alias("born").join(changes, concerns)
    return found.select(
        "born.cluster_id",
        *(f"born.{name}" for name in _ALL),
        "change.offset",
        "change.timestamp",
        f"change.{column}",
        fn.lit(True).alias("by_config"),
    )


def ends_of(events: DataFrame) -> DataFrame:
    """Computes the time of each cluster's last record."""
    return events.groupBy("cluster_id").agg(fn.max("timestamp").alias("log_end_time"))


def _seconds(begin: Column, end: Column) -> Column:
    return (fn.unix_micros(end) - fn.unix_micros(begin)) / 1_000_000


def _sum_where(flag: str, amount: str) -> Column:
    return fn.sum(fn.when(fn.col(flag), fn.col(amount)).otherwise(0.0))
