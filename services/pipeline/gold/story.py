"""The story of each cluster: its main events in order, without those of single partitions.

It has registrations, fencings and shutdowns of brokers, the quorum's leaders, periods without a controller, and at each
moment how many partitions of which topics lost or regained a leader, fell under their min ISR or recovered, or were
given a leader that may lack records.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.records import LeaderChangeMessage
from services.pipeline.frames import struct_type
from services.pipeline.gold.audit_rows import with_before
from services.pipeline.gold.availability import ends_of, partition_spans
from services.pipeline.gold.doctor_rules import DoctorLimits, text
from services.pipeline.gold.silence import silences
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.validity import by_key

__all__ = ["COLUMNS", "story"]

COLUMNS: Final = ("cluster_id", "offset", "time", "look", "sentence")
"""The table's columns; `look` is `bad`, `good` or `plain`."""
_BAD, _GOOD, _PLAIN = "bad", "good", "plain"
_TOPICS_MAX: Final = 3
_TURNS: Final = {
    "offline": ("no leader any more", _BAD),
    "led": ("a leader again", _GOOD),
    "under": ("under min.insync.replicas from here on", _BAD),
    "enough": ("no longer under min.insync.replicas", _GOOD),
    "uncleanly": ("an unclean election: the new leader may lack records", _BAD),
}


def story(silver: Mapping[str, DataFrame], *, limits: DoctorLimits | None = None) -> DataFrame:
    """Computes the main events of each cluster, one row each, with columns COLUMNS.

    The records of the base checkpoint are not events.
    """
    limits, events = limits or DoctorLimits(), silver["events"]
    rows = [
        _partitions(silver, limits),
        _brokers(silver["broker_history"]),
        _leaders(events),
        _silences(events, limits),
    ]
    bases = events.where("is_base").select("cluster_id", "offset").distinct()
    every = reduce(DataFrame.unionByName, rows)
    return every.join(fn.broadcast(bases), ["cluster_id", "offset"], "left_anti").select(*COLUMNS)


def _partitions(silver: Mapping[str, DataFrame], limits: DoctorLimits) -> DataFrame:
    """Groups the changes of partitions by time: a controller's decision about many partitions has one timestamp."""
    spans = partition_spans(
        silver["partition_history"], silver["config_history"], ends_of(silver["events"]), min_isr=limits.min_isr
    )
    order = by_key(KEY)
    was = {f"was_{name}": fn.coalesce(fn.lag(name).over(order), fn.lit(False)) for name in ("offline", "under_min_isr")}
    offline, under = fn.col("offline"), fn.col("under_min_isr")
    # A partition without a leader is also under its min ISR; that is not reported again.
    turned = {
        "offline": offline & ~fn.col("was_offline"),
        "led": ~offline & fn.col("was_offline"),
        "under": under & ~offline & ~fn.col("was_under_min_isr"),
        "enough": ~under & ~offline & fn.col("was_under_min_isr") & ~fn.col("was_offline"),
        "uncleanly": fn.col("unclean"),
    }
    turns = fn.array_compact(fn.array(*(fn.when(holds, fn.lit(name)) for name, holds in turned.items())))
    each = spans.withColumns(was).select("cluster_id", "offset", "begin", "topic", fn.explode(turns).alias("turn"))
    moments = each.groupBy("cluster_id", fn.col("begin").alias("time"), "turn").agg(
        fn.min("offset").alias("offset"),
        fn.count("*").alias("count"),
        fn.array_sort(fn.collect_set("topic")).alias("topics"),
    )
    more = fn.size("topics") - _TOPICS_MAX
    named = fn.concat(
        fn.array_join(fn.slice("topics", 1, _TOPICS_MAX), ", "),
        fn.when(more > 0, text(" and ", more, " topics more")).otherwise(""),
    )
    what = fn.when(fn.col("count") == 1, "1 partition of ").otherwise(text(fn.col("count"), " partitions of "))
    return moments.select(
        "cluster_id",
        "offset",
        "time",
        _of_turn(1).alias("look"),
        fn.concat(what, named, fn.lit(": "), _of_turn(0)).alias("sentence"),
    )


def _of_turn(place: int) -> Column:
    pairs = [fn.lit(each) for name, about in _TURNS.items() for each in (name, about[place])]
    return fn.element_at(fn.create_map(*pairs), fn.col("turn"))


def _brokers(history: DataFrame) -> DataFrame:
    rows = with_before(history, ("broker_id",), ("fenced", "in_controlled_shutdown", "broker_epoch"))
    fenced, shut = fn.col("fenced"), fn.col("in_controlled_shutdown")
    # A broker is registered as fenced; it is reported as present when it is unfenced.
    anew = fn.col("is_first") | (fn.col("broker_epoch") != fn.col("was_broker_epoch"))
    what = (
        fn.when(anew & ~fenced, fn.lit("is there"))
        .when(anew, fn.lit("registers"))
        .when(shut & ~fn.col("was_in_controlled_shutdown"), fn.lit("shuts down"))
        .when(fenced & ~fn.col("was_fenced"), fn.lit("is fenced"))
        .when(~fenced & fn.col("was_fenced"), fn.lit("is unfenced"))
    )
    look = fn.when(what.isin("is fenced", "shuts down"), _BAD).when(what == "is unfenced", _GOOD).otherwise(_PLAIN)
    named = text("broker ", fn.col("broker_id"))
    begun = rows.where(what.isNotNull()).select(
        "cluster_id",
        fn.col("valid_from_offset").alias("offset"),
        fn.col("valid_from_time").alias("time"),
        look.alias("look"),
        fn.concat_ws(" ", named, what).alias("sentence"),
    )
    gone = history.where("end_type = 'UNREGISTER_BROKER_RECORD'").select(
        "cluster_id",
        fn.col("valid_to_offset").alias("offset"),
        fn.col("valid_to_time").alias("time"),
        fn.lit(_PLAIN).alias("look"),
        fn.concat_ws(" ", named, fn.lit("is unregistered")).alias("sentence"),
    )
    return begun.unionByName(gone)


def _leaders(events: DataFrame) -> DataFrame:
    leader = fn.from_json("payload", struct_type(LeaderChangeMessage))["leaderId"]
    return events.where("type = 'LEADER_CHANGE'").select(
        "cluster_id",
        "offset",
        fn.col("timestamp").alias("time"),
        fn.lit(_PLAIN).alias("look"),
        text("controller ", leader, " is active, in epoch ", fn.col("epoch")).alias("sentence"),
    )


def _silences(events: DataFrame, limits: DoctorLimits) -> DataFrame:
    seconds = fn.round(fn.col("silent_ms") / 1000, 1)
    return silences(events, silence_s=limits.silence_s).select(
        "cluster_id",
        fn.col("before.offset").alias("offset"),
        fn.col("before.timestamp").alias("time"),
        fn.lit(_BAD).alias("look"),
        text("no controller writes for ", seconds, " s from here on").alias("sentence"),
    )
