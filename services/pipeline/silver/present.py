"""The state of the clusters at the end of their logs, or as of an offset, selected from the histories.

Each frame of a `Present` has one row for each topic, partition, config and so on; `since_offset` and `since_time` say
since when it is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.nouns import Offset
from services.pipeline.silver.validity import as_of

__all__ = [
    "MIN_ISR",
    "MIN_ISR_DEFAULT",
    "UNCLEAN",
    "Present",
    "present",
    "replicas_of",
]

MIN_ISR: Final = "min.insync.replicas"
MIN_ISR_DEFAULT: Final = 1
"""Kafka's default, for brokers that do not set the config in their files."""
UNCLEAN: Final = "unclean.leader.election.enable"
_SINCE: Final = {"valid_from_offset": "since_offset", "valid_from_time": "since_time"}
_NO_PAST: Final = ("valid_to_offset", "valid_to_time", "trace_id", "end_trace_id", "end_type")


class Present(NamedTuple):
    """The present state of all clusters.

    `at` has one row a cluster: `as_of_offset` (exclusive), and `as_of_time` of its end.
    """

    at: DataFrame
    topics: DataFrame
    partitions: DataFrame
    configs: DataFrame
    brokers: DataFrame
    kept: DataFrame


def present(silver: Mapping[str, DataFrame], at_offset: Offset | None = None) -> Present:
    """Returns the state of all records below `at_offset`, or of all records."""
    events = silver["events"]
    if at_offset is not None:
        events = events.where(fn.col("offset") < at_offset)
    ends = events.groupBy("cluster_id")
    last = fn.max_by("timestamp", fn.struct("offset", "timestamp"))
    at = ends.agg((fn.max("offset") + 1).alias("as_of_offset"), last.alias("as_of_time"))
    names = ("topic_history", "partition_history", "config_history", "broker_history", "kept_history")
    return Present(at, *(_now(silver[name], at_offset) for name in names))


def replicas_of(now: Present) -> DataFrame:
    """Returns one row for each replica of each partition, with the rack of its broker if that is registered.

    `place` counts from 0.
    """
    spread = now.partitions.select(
        "cluster_id",
        "topic",
        "topic_id",
        "partition_id",
        "since_offset",
        "since_time",
        fn.posexplode("replicas").alias("place", "broker_id"),
        (fn.col("broker_id") == fn.col("leader")).alias("is_leader"),
        fn.array_contains("isr", fn.col("broker_id")).alias("in_isr"),
    )
    known = now.brokers.select("cluster_id", "broker_id", "rack")
    return spread.join(fn.broadcast(known), ["cluster_id", "broker_id"], "left")


def _now(history: DataFrame, at_offset: Offset | None) -> DataFrame:
    rows = history.where("valid_to_offset is null") if at_offset is None else as_of(history, fn.lit(at_offset))
    before = (name for name in history.columns if name.startswith("was_"))
    return rows.withColumnsRenamed(_SINCE).drop(*_NO_PAST, *before)
