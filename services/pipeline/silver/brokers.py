"""Broker histories: a registration, and the changes to it until the next one. KIP-631."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from quorate.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from services.pipeline.frames import parsed
from services.pipeline.silver.validity import SPAN, by_key, ended

__all__ = ["KEY", "STATE", "broker_history", "by_name"]

KEY: Final = ("broker_id",)
STATE: Final = (
    "broker_epoch",
    "incarnation_id",
    "end_points",
    "features",
    "rack",
    "fenced",
    "in_controlled_shutdown",
    "is_migrating_zk_broker",
    "log_dirs",
    "cordoned_log_dirs",
)
_REGISTER: Final = "REGISTER_BROKER_RECORD"
_UNREGISTER: Final = "UNREGISTER_BROKER_RECORD"
_AT: Final = ("cluster_id", "offset", "timestamp", "type", "trace_id")


def broker_history(events: DataFrame) -> DataFrame:
    """Builds one row for each state of each broker.

    Lists that are maps in Kafka are sorted by name, without duplicates.
    """
    rows = _registrations(events).unionByName(_changes(events), allowMissingColumns=True)
    order = by_key(KEY)
    starts = fn.col("type").isin(_REGISTER, _UNREGISTER)
    rows = rows.withColumns(
        {
            "life": fn.sum(starts.cast("int")).over(order),
            "is_there": fn.last(fn.when(starts, fn.col("type") == _REGISTER), ignorenulls=True).over(order),
        }
    )
    rows = rows.where(fn.coalesce("is_there", fn.lit(False)) | (fn.col("type") == _UNREGISTER))
    life = Window.partitionBy("cluster_id", *KEY, "life").orderBy("offset")
    filled = rows.withColumns({name: fn.last(name, ignorenulls=True).over(life) for name in STATE})
    return ended(filled, order, fn.col("type") == _UNREGISTER).select("cluster_id", *KEY, *STATE, *SPAN)


def by_name(items: Column) -> Column:
    """Sorts an array of structs by name and keeps the last of each name, as a map would."""

    def is_last(item: Column, at: Column) -> Column:
        behind = fn.slice(items, at + 2, fn.size(items))
        return ~fn.exists(behind, lambda other: other["name"] == item["name"])

    return fn.array_sort(fn.filter(items, is_last))


def _registrations(events: DataFrame) -> DataFrame:
    rows = parsed(events, RegisterBrokerRecord, UnregisterBrokerRecord)
    is_born = fn.col("type") == _REGISTER
    return rows.select(
        *_AT,
        fn.col("r.brokerId").alias("broker_id"),
        fn.col("r.brokerEpoch").alias("broker_epoch"),
        fn.col("r.incarnationId").alias("incarnation_id"),
        by_name(fn.col("r.endPoints")).alias("end_points"),
        by_name(fn.col("r.features")).alias("features"),
        fn.col("r.rack").alias("rack"),
        fn.when(is_born, fn.col("r.fenced")).alias("fenced"),
        fn.when(is_born, fn.coalesce("r.inControlledShutdown", fn.lit(False))).alias("in_controlled_shutdown"),
        fn.when(is_born, fn.coalesce("r.isMigratingZkBroker", fn.lit(False))).alias("is_migrating_zk_broker"),
        fn.when(is_born, fn.coalesce(fn.array_sort("r.logDirs"), fn.array().cast("array<string>"))).alias("log_dirs"),
        fn.col("r.cordonedLogDirs").alias("cordoned_log_dirs"),
    )


def _changes(events: DataFrame) -> DataFrame:
    changed = parsed(events, BrokerRegistrationChangeRecord).select(
        *_AT,
        fn.col("r.brokerId").alias("broker_id"),
        fn.when(fn.col("r.fenced") == 1, True).when(fn.col("r.fenced") == -1, False).alias("fenced"),
        fn.when(fn.col("r.inControlledShutdown") == 1, True).alias("in_controlled_shutdown"),
        fn.when(fn.size("r.logDirs") > 0, fn.array_sort("r.logDirs")).alias("log_dirs"),
        fn.col("r.cordonedLogDirs").alias("cordoned_log_dirs"),
    )
    old = parsed(events, FenceBrokerRecord, UnfenceBrokerRecord)  # metadata versions before 3.3-IV2
    fenced = fn.col("type") == "FENCE_BROKER_RECORD"
    fences = old.select(*_AT, fn.col("r.id").alias("broker_id"), fenced.alias("fenced"))
    return changed.unionByName(fences, allowMissingColumns=True)
