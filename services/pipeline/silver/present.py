"""The clusters as they are, or were as of an offset: one row for what there is, off the histories.

Frames of a `Present` have one row a thing and no past; `since_offset` and `since_time` say since when it is so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kraft import Uuid
from quorate.metadata.configs import BROKER, TOPIC
from quorate.nouns import LOST_DIRECTORY, RESERVED_DIRECTORY_IDS, Offset, uuid_text
from services.pipeline.silver.validity import as_of

__all__ = ["MIN_ISR", "UNCLEAN", "Present", "is_online", "present", "replicas_of", "topic_settings"]

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
_SINCE: Final = {"valid_from_offset": "since_offset", "valid_from_time": "since_time"}
_NO_PAST: Final = ("valid_to_offset", "valid_to_time", "trace_id", "end_trace_id", "end_type")


class Present(NamedTuple):
    """What there is. `at` has a row a cluster: `cluster_id`, `as_of_offset` (exclusive), `as_of_time` of its end."""

    at: DataFrame
    topics: DataFrame
    partitions: DataFrame
    configs: DataFrame
    brokers: DataFrame
    kept: DataFrame


def present(silver: Mapping[str, DataFrame], at_offset: Offset | None = None) -> Present:
    """The state of all records below `at_offset`, or of all there are."""
    events = silver["events"]
    if at_offset is not None:
        events = events.where(fn.col("offset") < at_offset)
    ends = events.groupBy("cluster_id")
    at = ends.agg((fn.max("offset") + 1).alias("as_of_offset"), fn.max("timestamp").alias("as_of_time"))
    names = ("topic_history", "partition_history", "config_history", "broker_history", "kept_history")
    return Present(at, *(_now(silver[name], at_offset) for name in names))


def topic_settings(now: Present) -> DataFrame:
    """Of each topic `min_isr` and `elects_uncleanly`, as the controller sees them: its own, else the brokers' default.

    What stands in a broker's or controller's own file is in no log: Kafka's defaults stand in for it (1, false).
    """
    own = _values(now.configs.where(fn.col("resource_type") == TOPIC), "cluster_id", "resource_name")
    own = own.withColumnsRenamed({"resource_name": "name", "min_isr": "own_min", "unclean": "own_unclean"})
    default = now.configs.where((fn.col("resource_type") == BROKER) & (fn.col("resource_name") == ""))
    default = _values(default, "cluster_id")
    names = now.topics.select("cluster_id", "topic_id", "name")
    joined = names.join(own, ["cluster_id", "name"], "left").join(fn.broadcast(default), "cluster_id", "left")
    return joined.select(
        "cluster_id",
        "topic_id",
        fn.coalesce("own_min", "min_isr", fn.lit(1)).alias("min_isr"),
        fn.coalesce("own_unclean", "unclean", fn.lit(False)).alias("elects_uncleanly"),
    )


def replicas_of(now: Present) -> DataFrame:
    """A row for each replica of each partition, with what is known of its broker, if that is registered.

    `place` counts from 0; `is_leader`, `in_isr`, `in_elr`; `directory` is null where none is known; `is_there`: may it
    lead, as far as its broker and directory go (KIP-631, KIP-858)?
    """
    spread = now.partitions.select(
        "cluster_id",
        "topic",
        "topic_id",
        "partition_id",
        "since_offset",
        "since_time",
        fn.posexplode("replicas").alias("place", "broker_id"),
        "directories",
        (fn.col("broker_id") == fn.col("leader")).alias("is_leader"),
        fn.array_contains("isr", fn.col("broker_id")).alias("in_isr"),
        fn.array_contains("elr", fn.col("broker_id")).alias("in_elr"),
    )
    spread = spread.withColumn("directory", fn.try_element_at("directories", fn.col("place") + 1)).drop("directories")
    known = now.brokers.select("cluster_id", "broker_id", "rack", "fenced", "in_controlled_shutdown", "log_dirs")
    joined = spread.join(fn.broadcast(known), ["cluster_id", "broker_id"], "left")
    there = ~fn.col("fenced") & ~fn.col("in_controlled_shutdown") & is_online("directory", "log_dirs")
    return joined.withColumn("is_there", fn.coalesce(there, fn.lit(False)))


def is_online(directory: str, log_dirs: str) -> Column:
    """Can a replica in this directory be used? One whose directory nobody knows can, for all we know. KIP-858."""
    reserved = [uuid_text(Uuid(number.to_bytes(16))) for number in range(RESERVED_DIRECTORY_IDS)]
    reserved.remove(uuid_text(LOST_DIRECTORY))
    known = fn.coalesce(fn.col(directory), fn.lit(reserved[0]))
    unnamed = known.isin(reserved) | ((fn.size(log_dirs) == 0) & (known != uuid_text(LOST_DIRECTORY)))
    return unnamed | fn.array_contains(log_dirs, known)


def _now(history: DataFrame, at_offset: Offset | None) -> DataFrame:
    rows = history.where("valid_to_offset is null") if at_offset is None else as_of(history, fn.lit(at_offset))
    before = (name for name in history.columns if name.startswith("was_"))
    return rows.withColumnsRenamed(_SINCE).drop(*_NO_PAST, *before)


def _values(configs: DataFrame, *key: str) -> DataFrame:
    def value(name: str) -> Column:
        return fn.max(fn.when(fn.col("name") == name, fn.col("value")))

    return configs.groupBy(*key).agg(
        value(MIN_ISR).try_cast("int").alias("min_isr"), (fn.lower(value(UNCLEAN)) == "true").alias("unclean")
    )
