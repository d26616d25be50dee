"""Groups the findings about partitions by cause: which brokers are missing, since when, and which of them to start.

One lost broker makes hundreds of findings but is one cause. Partitions with the same harm and the same missing brokers
are one row. The state is that at the log's end, as for the fleet doctor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from services.pipeline.gold.advice import gone_replicas, leader_advice, replica_advice, then_replicas
from services.pipeline.gold.began import began, last_lives
from services.pipeline.gold.conditions import is_offline, is_under_min_isr, is_under_replicated, wanted_replicas
from services.pipeline.gold.doctor_rules import ERROR, WARN, DoctorLimits, listed, moment, text
from services.pipeline.silver.present import Present, partition_settings, present

__all__ = ["COLUMNS", "causes"]

COLUMNS: Final = ("cluster_id", "severity", "code", "partitions", "sentence", "advice", "since_time")
_PARTITION: Final = ["cluster_id", "topic_id", "partition_id"]
_CAUSE: Final = ["cluster_id", "severity", "code", "away", "slow", "advice"]
_WHAT: Final = {
    "NO_LEADER": "without a leader",
    "UNDER_MIN_ISR": "with a leader and under min.insync.replicas",
    "UNDER_REPLICATED": "with a replica that is not in the ISR",
}
"""The text about the partitions of each code."""
_TOPICS_MAX: Final = 5
"""Most topics that one sentence names."""
_UNREGISTERED: Final = "UNREGISTER_BROKER_RECORD"


def causes(
    silver: Mapping[str, DataFrame], *, now: Present | None = None, limits: DoctorLimits | None = None
) -> DataFrame:
    """Computes one row for each cause and harm (columns COLUMNS); `since_time` is when its last broker went away."""
    now, limits = now or present(silver), limits or DoctorLimits()
    grouped = _grouped(_ill(now, limits))
    gone = _gone(silver["broker_history"])
    each = grouped.select("*", fn.explode_outer("away").alias("broker_id"))
    hit_rows = each.join(fn.broadcast(gone), ["cluster_id", "broker_id"], "left")
    brokers = fn.array_sort(fn.collect_list(fn.struct("gone", "broker_id", "words")))
    rows = hit_rows.groupBy(*_CAUSE, "partitions", "topics").agg(
        brokers.alias("brokers"), fn.max("gone").alias("since")
    )
    return rows.select(
        "cluster_id",
        "severity",
        "code",
        "partitions",
        _sentence().alias("sentence"),
        "advice",
        fn.col("since.time").alias("since_time"),
    )


def _ill(now: Present, limits: DoctorLimits) -> DataFrame:
    """Selects the partitions with a problem, each with its worst code, its missing and its slow brokers."""
    rows = partition_settings(now, limits.min_isr).join(gone_replicas(now), _PARTITION, "left")
    nobody = fn.array().cast("array<int>")
    rows = rows.withColumns({name: fn.coalesce(name, nobody) for name in ("gone", "failed")})
    wanted, leader = wanted_replicas(), fn.col("leader")
    code = (
        fn.when(is_offline(leader), "NO_LEADER")
        .when(is_under_min_isr(leader, fn.size("isr"), fn.size("replicas"), fn.col("min_isr")), "UNDER_MIN_ISR")
        .when(is_under_replicated(fn.size("isr"), fn.size(wanted)), "UNDER_REPLICATED")
    )
    gone = fn.array_union("gone", "failed")
    counted = rows.withColumn("of_topic", fn.count("*").over(Window.partitionBy("cluster_id", "topic_id")))
    led_again = fn.concat(leader_advice(), then_replicas())
    ill = counted.withColumns(
        {
            "code": code,
            "away": fn.array_sort(fn.array_intersect(wanted, gone)),
            "slow": fn.array_sort(fn.array_except(fn.array_except(wanted, "isr"), gone)),
            "advice": fn.when(is_offline(leader), led_again).otherwise(replica_advice()),
        }
    ).where("code is not null")
    return ill.withColumn("severity", fn.when(fn.col("code") == "UNDER_REPLICATED", WARN).otherwise(ERROR))


def _grouped(ill: DataFrame) -> DataFrame:
    """Groups the partitions by cause, with their number and their topics."""
    topics = ill.groupBy(*_CAUSE, "topic", "of_topic").agg(fn.count("*").alias("hit"))
    every = fn.col("hit") == fn.col("of_topic")
    words = fn.when(every, text("all ", fn.col("hit"), " of topic ", fn.col("topic"))).otherwise(
        text(fn.col("hit"), " of ", fn.col("of_topic"), " of topic ", fn.col("topic"))
    )
    named = fn.array_sort(fn.collect_list(fn.struct((-fn.col("hit")).alias("order"), words.alias("words"))))
    return topics.groupBy(*_CAUSE).agg(fn.sum("hit").alias("partitions"), named.alias("topics"))


def _gone(history: DataFrame) -> DataFrame:
    """Computes, for each broker that is fenced, shutting down or unregistered, since when and how it went away."""
    key = ["cluster_id", "broker_id"]
    conditions = {"fenced": fn.col("fenced"), "shut": fn.coalesce("in_controlled_shutdown", fn.lit(False))}
    lives = last_lives(history, "broker_id")
    since = began(lives, key, {f"{name}_since": of for name, of in conditions.items()})
    names = ("fenced", "in_controlled_shutdown", "end_type", "valid_to_time")
    last = lives.groupBy(*key).agg(*(fn.max_by(name, "valid_from_offset").alias(name) for name in names))
    left = fn.coalesce(fn.col("end_type") == _UNREGISTERED, fn.lit(False))
    was_there = ~fn.col("fenced") & ~fn.coalesce("in_controlled_shutdown", fn.lit(False))
    # A controlled shutdown ends with fencing, so the shutdown is the beginning.
    was_shut = fn.coalesce("in_controlled_shutdown", fn.lit(False))
    at = fn.when(was_shut, fn.col("shut_since")).otherwise(fn.col("fenced_since"))
    how = fn.when(was_shut, " began a controlled shutdown at ").otherwise(" was fenced at ")
    end = fn.when(left, text(" and unregistered at ", moment(fn.col("valid_to_time")))).otherwise("")
    went = fn.concat(how, moment(at["time"]), end)
    words = fn.when(was_there, text(" was unregistered at ", moment(fn.col("valid_to_time")))).otherwise(went)
    rows = last.where(left | ~was_there).join(since, key)
    return rows.select(*key, at.alias("gone"), fn.concat(text("broker ", fn.col("broker_id")), words).alias("words"))


def _sentence() -> Column:
    named = fn.array_join(fn.slice(fn.col("topics.words"), 1, _TOPICS_MAX), ", ")
    more = fn.size("topics") - _TOPICS_MAX
    topics = fn.concat(named, fn.when(more > 0, text(" and of ", more, " more topics")).otherwise(""))
    harm = fn.element_at(fn.create_map(*(fn.lit(each) for pair in _WHAT.items() for each in pair)), fn.col("code"))

    def went(broker: Column) -> Column:
        named = fn.concat(fn.lit("broker "), broker["broker_id"].cast("string"))
        return fn.coalesce(broker["words"], fn.concat(named, fn.lit(" is not there")))

    slow = fn.when(fn.size("slow") > 1, text("brokers ", listed("slow"), " are there and not in sync"))
    slow = slow.when(fn.size("slow") == 1, text("broker ", listed("slow"), " is there and not in sync"))
    what = fn.when(fn.col("partitions") == 1, " partition ").otherwise(" partitions ")
    why = fn.concat_ws("; ", fn.when(fn.size("away") > 0, fn.array_join(fn.transform("brokers", went), ", ")), slow)
    return fn.concat(
        text(fn.col("partitions"), what, harm, " (", topics, ")"), fn.when(why != "", ": ").otherwise(""), why
    )
