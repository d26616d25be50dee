"""Partitions as they were: each PartitionChangeRecord says what it changes, the rest was said before.

The rules are those of `quorate.metadata.partitions`: the partition epoch rises with every change, the leader epoch with
every change that carries a leader, and directories follow the replicas where none was ever known.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from quorate.nouns import MIGRATING_DIRECTORY, uuid_text
from quorate.records import ClearElrRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord
from services.pipeline.frames import parsed
from services.pipeline.silver.validity import SPAN, by_key, ended

__all__ = ["KEY", "STATE", "partition_history"]

KEY: Final = ("topic_id", "partition_id")
STATE: Final = (
    "replicas",
    "directories",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "elr",
    "last_known_elr",
    "leader",
    "leader_recovery_state",
    "leader_epoch",
    "partition_epoch",
)
_FULL: Final = "PARTITION_RECORD"
_CHANGE: Final = "PARTITION_CHANGE_RECORD"
_REMOVE: Final = "REMOVE_TOPIC_RECORD"
_CLEAR: Final = "CLEAR_ELR_RECORD"
_SAID: Final = {
    "replicas": "replicas",
    "directories": "directories",
    "isr": "isr",
    "removing_replicas": "removingReplicas",
    "adding_replicas": "addingReplicas",
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
    "leader": "leader",
    "leader_recovery_state": "leaderRecoveryState",
    "leader_epoch": "leaderEpoch",
    "partition_epoch": "partitionEpoch",
}
"""What a record says of each, or null."""
_AT: Final = ("cluster_id", "offset", "timestamp", "type", "trace_id")


def partition_history(events: DataFrame, topics: DataFrame) -> DataFrame:
    """Each state of each partition, with its topic's name."""
    said = _said(events)
    born = said.where(fn.col("type") == _FULL).groupBy("cluster_id", *KEY).agg(fn.min("offset").alias("born"))
    rows = said.unionByName(_removals(events, born), allowMissingColumns=True)
    rows = rows.unionByName(_clearings(events, born, topics), allowMissingColumns=True)
    # A later life is at later offsets; the rows lie by life, and need not be sorted once more.
    spans = ended(_merged(rows), KEY, fn.col("type") == _REMOVE, "life", "offset")
    names = topics.select("cluster_id", "topic_id", fn.col("name").alias("topic"))
    columns = ("cluster_id", "topic", *KEY, *STATE, "carries_leader", *SPAN)
    return spans.join(names, ["cluster_id", "topic_id"], "left").select(*columns)


def _said(events: DataFrame) -> DataFrame:
    """What each record says; in a PartitionRecord also what it leaves out, which then is nothing."""
    rows = parsed(events, PartitionRecord, PartitionChangeRecord)
    full = fn.col("type") == _FULL
    said = {name: fn.col(f"r.{field}") for name, field in _SAID.items()}
    nothing = fn.array().cast("array<int>")
    for name in ("elr", "last_known_elr"):
        said[name] = fn.when(full, fn.coalesce(said[name], nothing)).otherwise(said[name])
    said["directories"] = fn.when(full, fn.coalesce(said["directories"], fn.array().cast("array<string>"))).otherwise(
        said["directories"]
    )
    said["leader_recovery_state"] = fn.when(full, fn.coalesce(said["leader_recovery_state"], fn.lit(0))).otherwise(
        said["leader_recovery_state"]
    )
    keys = {"topic_id": fn.col("r.topicId"), "partition_id": fn.col("r.partitionId")}
    return rows.select(*_AT, *(column.alias(name) for name, column in {**keys, **said}.items()))


def _removals(events: DataFrame, born: DataFrame) -> DataFrame:
    """The end of each partition of a topic that is removed."""
    removed = parsed(events, RemoveTopicRecord).select(*_AT, fn.col("r.topicId").alias("topic_id"))
    return removed.join(born, ["cluster_id", "topic_id"]).where("offset > born").drop("born")


def _clearings(events: DataFrame, born: DataFrame, topics: DataFrame) -> DataFrame:
    """A ClearElrRecord as a change to each partition that there was, of one topic or (no name) of all. KIP-966."""
    clears = parsed(events, ClearElrRecord).select(*_AT, fn.col("r.topicName").alias("named")).alias("clear")
    there = topics.select("cluster_id", "topic_id", "name", "valid_from_offset", "valid_to_offset").alias("topic")
    meant = fn.expr(
        "clear.cluster_id = topic.cluster_id and (clear.named = '' or clear.named = topic.name)"
        " and topic.valid_from_offset < clear.offset"
        " and (topic.valid_to_offset is null or topic.valid_to_offset > clear.offset)"
    )
    found = (
        fn.broadcast(clears)
        .join(there, meant)
        .select(*(fn.col(f"clear.{name}").alias(name) for name in _AT), "topic_id")
    )
    rows = found.join(born, ["cluster_id", "topic_id"]).where("offset > born").drop("born")
    nothing = fn.array().cast("array<int>")
    return rows.withColumns({"elr": nothing, "last_known_elr": nothing})


def _merged(rows: DataFrame) -> DataFrame:
    """Every state whole. Changes to what is not there, which no controller writes, are passed over."""
    order = by_key(KEY)
    starts = fn.col("type").isin(_FULL, _REMOVE)
    rows = rows.withColumns(
        {
            "life": fn.sum(starts.cast("int")).over(order),
            "is_there": fn.last(fn.when(starts, fn.col("type") == _FULL), ignorenulls=True).over(order),
        }
    )
    rows = rows.where(fn.coalesce("is_there", fn.lit(False)) | (fn.col("type") == _REMOVE))
    life = Window.partitionBy("cluster_id", *KEY, "life").orderBy("offset")
    filled = rows.withColumns(
        {
            "carries_leader": (fn.col("type") == _CHANGE) & fn.col("leader").isNotNull(),
            "base_leader_epoch": fn.first("leader_epoch").over(life),
            "base_partition_epoch": fn.first("partition_epoch").over(life),
            **{name: fn.last(name, ignorenulls=True).over(life) for name in STATE[:9]},
        }
    )
    elr = [fn.coalesce(fn.size(fn.lag(name).over(life)), fn.lit(0)) for name in ("elr", "last_known_elr")]
    counted = filled.withColumn("had_elr", (elr[0] + elr[1]) > 0).where((fn.col("type") != _CLEAR) | fn.col("had_elr"))
    return counted.withColumns(
        {
            "directories": _directories(),
            "leader_epoch": fn.col("base_leader_epoch") + fn.sum(fn.col("carries_leader").cast("int")).over(life),
            "partition_epoch": fn.col("base_partition_epoch") + fn.row_number().over(life) - 1,
        }
    )


def _directories() -> Column:
    """Where no replica's directory is known, one unknown each, however many replicas there are by now. KIP-858."""
    unknown = fn.lit(uuid_text(MIGRATING_DIRECTORY))
    none_known = fn.forall("directories", lambda directory: directory == unknown)
    return fn.when(none_known, fn.transform("replicas", lambda _: unknown)).otherwise(fn.col("directories"))
