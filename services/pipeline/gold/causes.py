"""Groups the findings about partitions by cause: which brokers are missing, since when, and which of them to start.

One lost broker makes hundreds of findings but is one cause. Partitions with the same harm and the same missing brokers
are one row. The state is that at the log's end, as for the fleet doctor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from quorate.metadata.partitions import NO_LEADER
from services.pipeline.gold.began import began
from services.pipeline.gold.doctor_rules import ERROR, WARN, DoctorLimits, listed, text
from services.pipeline.silver.present import Present, present, replicas_of, topic_settings

__all__ = ["COLUMNS", "causes"]

COLUMNS: Final = ("cluster_id", "severity", "code", "partitions", "sentence", "advice", "since_time")
_PARTITION: Final = ["cluster_id", "topic_id", "partition_id"]
_CAUSE: Final = ["cluster_id", "severity", "code", "away", "slow", "may_lead"]
_WHAT: Final = {
    "NO_LEADER": "without a leader",
    "UNDER_MIN_ISR": "closed to writes with acks=all",
    "UNDER_REPLICATED": "with a replica that is not in the ISR",
}
"""The text about the partitions of each code."""
_TOPICS_MAX: Final = 5
"""Most topics that one sentence names."""


def causes(
    silver: Mapping[str, DataFrame], *, now: Present | None = None, limits: DoctorLimits | None = None
) -> DataFrame:
    """Computes one row for each cause and harm (columns COLUMNS); `since_time` is when its last broker went away."""
    now, limits = now or present(silver), limits or DoctorLimits()
    grouped = _grouped(_ill(now, limits))
    gone = _gone(now, silver["broker_history"])
    each = grouped.select("*", fn.explode_outer("away").alias("broker_id"))
    hit_rows = each.join(fn.broadcast(gone), ["cluster_id", "broker_id"], "left")
    brokers = fn.array_sort(fn.collect_list(fn.struct("gone_at", "broker_id", "words")))
    rows = hit_rows.groupBy(*_CAUSE, "partitions", "topics").agg(
        brokers.alias("brokers"), fn.max("gone_at").alias("since")
    )
    return rows.select(
        "cluster_id",
        "severity",
        "code",
        "partitions",
        _sentence().alias("sentence"),
        _advice().alias("advice"),
        fn.col("since").alias("since_time"),
    )


def _ill(now: Present, limits: DoctorLimits) -> DataFrame:
    """Selects the partitions with a problem, each with its worst code, its missing and its slow brokers."""
    away = replicas_of(now).where("not is_there").groupBy(*_PARTITION)
    rows = now.partitions.join(away.agg(fn.collect_set("broker_id").alias("gone")), _PARTITION, "left")
    rows = rows.join(topic_settings(now, limits.min_isr), ["cluster_id", "topic_id"])
    wanted = fn.array_except("replicas", "adding_replicas")
    least = fn.least("min_isr", fn.size("replicas"))
    code = (
        fn.when(fn.col("leader") == NO_LEADER, "NO_LEADER")
        .when(fn.size("isr") < least, "UNDER_MIN_ISR")
        .when(fn.size("isr") < fn.size(wanted), "UNDER_REPLICATED")
    )
    gone = fn.coalesce("gone", fn.array().cast("array<int>"))
    known = fn.array_union(fn.array_union("isr", "elr"), fn.col("last_known_elr"))
    counted = rows.withColumn("of_topic", fn.count("*").over(Window.partitionBy("cluster_id", "topic_id")))
    ill = counted.withColumns(
        {
            "code": code,
            "away": fn.array_sort(fn.array_intersect(wanted, gone)),
            "slow": fn.array_sort(fn.array_except(fn.array_except(wanted, "isr"), gone)),
            "may_lead": fn.when(
                fn.col("leader") == NO_LEADER, fn.array_sort(fn.array_intersect(known, gone))
            ).otherwise(fn.array().cast("array<int>")),
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


def _gone(now: Present, history: DataFrame) -> DataFrame:
    """Computes, for each broker that is fenced or shutting down, since when and how it went away."""
    conditions = {"fenced": fn.col("fenced"), "shut": fn.coalesce("in_controlled_shutdown", fn.lit(False))}
    since = began(history, ["cluster_id", "broker_id"], {f"{name}_since": of for name, of in conditions.items()})
    rows = now.brokers.where("fenced or in_controlled_shutdown").join(since, ["cluster_id", "broker_id"])
    # A controlled shutdown ends with fencing, so the shutdown is the beginning.
    was_shut = fn.col("in_controlled_shutdown")
    at = fn.when(was_shut, fn.col("shut_since.time")).otherwise(fn.col("fenced_since.time"))
    how = fn.when(was_shut, " shut down at ").otherwise(" was fenced at ")
    words = fn.concat(text("broker ", fn.col("broker_id")), how, fn.date_format(at, "yyyy-MM-dd HH:mm:ss"))
    return rows.select("cluster_id", "broker_id", at.alias("gone_at"), words.alias("words"))


def _sentence() -> Column:
    named = fn.array_join(fn.slice(fn.col("topics.words"), 1, _TOPICS_MAX), ", ")
    more = fn.size("topics") - _TOPICS_MAX
    topics = fn.concat(named, fn.when(more > 0, text(" and of ", more, " topics more")).otherwise(""))
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


def _advice() -> Column:
    leads = fn.when(fn.size("may_lead") > 1, text("start one of the brokers ", listed("may_lead")))
    leads = leads.when(fn.size("may_lead") == 1, text("start broker ", listed("may_lead")))
    nobody = "no broker with all committed records is known: an unclean election loses what its new leader lacks"
    away = fn.when(fn.size("away") > 1, text("start the brokers ", listed("away")))
    away = away.when(fn.size("away") == 1, text("start broker ", listed("away")))
    slow = fn.lit("see why replicas do not catch up: their brokers' disks, network, and the leader's load")
    return fn.when(fn.col("code") == "NO_LEADER", fn.coalesce(leads, fn.lit(nobody))).otherwise(fn.coalesce(away, slow))
