"""Since when conditions hold that several histories make together: configs with partitions, replicas with racks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.configs import BROKER, TOPIC
from services.pipeline.gold.audit_rows import not_followed, with_before
from services.pipeline.gold.began import began
from services.pipeline.silver.partitions import KEY
from services.pipeline.silver.present import UNCLEAN, Present
from services.pipeline.silver.validity import by_key

__all__ = ["config_conditions", "crowded_since", "never", "unclean_since"]

_ID: Final = ("cluster_id", *KEY)
_NOT_SET, _FALSE, _TRUE = 0, 1, 2


def config_conditions(now: Present, spans: DataFrame) -> DataFrame:
    """Computes for each partition since when conditions hold that replicas and min.insync.replicas make together.

    Each is a struct of `offset` and `time`, with null fields if it does not hold: an ISR that is too small, a single
    replica, and a min.insync.replicas that is above or equal to the number of replicas. `spans` are those of `past`.
    """
    ends = now.at.select("cluster_id", "as_of_offset")
    known = spans.where("is_last_of_kind").join(fn.broadcast(ends), "cluster_id").where("offset < as_of_offset")
    held = known.withColumns(
        {
            "valid_from_offset": fn.col("offset"),
            "valid_from_time": fn.col("begin"),
            "valid_to_offset": fn.lead("offset").over(by_key(KEY)),
            "valid_to_time": fn.col("end"),
        }
    )
    min_isr, replicas = fn.col("min_isr"), fn.col("replica_count")
    conditions = {
        "under_min_isr_since": fn.col("under_min_isr"),
        "single_since": replicas == 1,
        "above_since": min_isr > replicas,
        "equal_since": (min_isr == replicas) & (replicas > 1),
    }
    return began(held, _ID, conditions)


def unclean_since(now: Present, configs: DataFrame) -> DataFrame:
    """Computes for each topic `unclean_since`: since when it may elect uncleanly, by its own config or the default.

    The default is that of all brokers, which counts while the topic has no config of its own.
    """
    named = configs.where(fn.col("name") == UNCLEAN)
    value = fn.when(fn.lower("value") == "true", _TRUE).otherwise(_FALSE)
    set_ = _changes(named, "valid_from", value)
    # If one value ends and another begins at the same offset, the new one counts.
    unset = _changes(named.where("valid_to_offset is not null"), "valid_to", fn.lit(_NOT_SET))
    at = ("resource_type", "resource_name", "cluster_id", "offset", "time")
    changes = set_.unionByName(unset).groupBy(*at).agg(fn.max("value").alias("value"))
    topics = now.topics.select(
        "cluster_id", "topic_id", "name", fn.col("since_offset").alias("born"), fn.col("since_time").alias("born_time")
    )
    of_topics = changes.where(fn.col("resource_type") == TOPIC).withColumnRenamed("resource_name", "name")
    own = of_topics.join(topics, ["cluster_id", "name"]).withColumnRenamed("value", "own")
    of_all = changes.where((fn.col("resource_type") == BROKER) & (fn.col("resource_name") == ""))
    default = topics.join(fn.broadcast(of_all), "cluster_id").withColumnRenamed("value", "default")
    births = topics.withColumns({"offset": fn.col("born"), "time": fn.col("born_time")})
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), (births, own, default))
    order = by_key(("topic_id",))
    known = _until(rows, now).withColumns(
        {name: fn.coalesce(fn.last(name, ignorenulls=True).over(order), fn.lit(0)) for name in ("own", "default")}
    )
    states = _states(known, ("topic_id",)).where("valid_from_offset >= born")
    effective = fn.when(fn.col("own") == _NOT_SET, fn.col("default")).otherwise(fn.col("own"))
    return began(states, ("cluster_id", "topic_id"), {"unclean_since": effective == _TRUE})


def crowded_since(now: Present, places: DataFrame, history: Mapping[str, DataFrame]) -> DataFrame:
    """Computes for each partition of `places` (of `skew.crowded`) since when it has been on too few racks.

    It depends on the replicas and on the racks of all brokers, so it is looked at whenever one of them changed.
    """
    brokers = history["broker_history"]
    moved = with_before(brokers, ("broker_id",), ("rack",)).where("is_first or not rack <=> was_rack")
    gone = not_followed(brokers, ("broker_id",)).where("valid_to_offset is not null")
    of_racks = (
        _changes(moved, "valid_from").unionByName(_changes(gone, "valid_to")).select("cluster_id", "offset", "time")
    )
    partitions = history["partition_history"].where("is_first or was_replicas is not null")
    partitions = partitions.join(places.select(*_ID), list(_ID), "left_semi")
    placed = partitions.select(
        *_ID, "replicas", fn.col("valid_from_offset").alias("offset"), fn.col("valid_from_time").alias("time")
    )
    beside = places.select(*_ID).join(of_racks.distinct(), "cluster_id")
    replicas = fn.last("replicas", ignorenulls=True).over(by_key(KEY))
    rows = _until(placed.unionByName(beside, allowMissingColumns=True), now).withColumn("replicas", replicas)
    # Of several records at one offset, those of a checkpoint, all have the same state.
    moments = rows.where("replicas is not null").dropDuplicates([*_ID, "offset"])
    lives = brokers.select("cluster_id", "broker_id", "rack", "valid_from_offset", "valid_to_offset")
    holds = "valid_from_offset <= offset and (valid_to_offset is null or valid_to_offset > offset)"
    there = moments.select("cluster_id", "offset").distinct().join(lives, "cluster_id").where(holds)
    counts = there.groupBy("cluster_id", "offset").agg(fn.count_distinct("rack").alias("rack_count"))
    members = moments.select(*_ID, "offset", "time", fn.explode("replicas").alias("broker_id"))
    known = members.join(lives, ["cluster_id", "broker_id"]).where(holds).groupBy(*_ID, "offset")
    racks = known.agg(fn.count("rack").alias("with_rack"), fn.count_distinct("rack").alias("racks"))
    found = moments.join(racks, [*_ID, "offset"], "left").join(counts, ["cluster_id", "offset"], "left")
    wanted = fn.least(fn.size("replicas"), fn.col("rack_count"))
    crowded = (fn.col("with_rack") == fn.size("replicas")) & (fn.col("rack_count") > 1) & (fn.col("racks") < wanted)
    return began(_states(found, KEY), _ID, {"crowded_since": crowded})


def never() -> Column:
    """Returns the begin of a condition that does not hold."""
    return fn.lit(None).cast("struct<is_open: boolean, offset: bigint, time: timestamp>")


def _changes(rows: DataFrame, bound: str, value: Column | None = None) -> DataFrame:
    """Returns the begins or the ends of rows of a history as `offset` and `time`, with a `value`."""
    at = {"offset": fn.col(f"{bound}_offset"), "time": fn.col(f"{bound}_time")}
    changed = rows if value is None else rows.withColumn("value", value)
    kept = [name for name in ("cluster_id", "resource_type", "resource_name", "value") if name in changed.columns]
    return changed.withColumns(at).select(*kept, *at)


def _until(rows: DataFrame, now: Present) -> DataFrame:
    """Selects the rows of the state that is looked at: below its offset."""
    at = now.at.select("cluster_id", "as_of_offset")
    return rows.join(fn.broadcast(at), "cluster_id").where("offset < as_of_offset").drop("as_of_offset")


def _states(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Turns changes into states: each holds until the next change of the same key."""
    order = by_key(key)
    return rows.withColumns(
        {
            "valid_from_offset": fn.col("offset"),
            "valid_from_time": fn.col("time"),
            "valid_to_offset": fn.lead("offset").over(order),
            "valid_to_time": fn.lead("time").over(order),
        }
    )
