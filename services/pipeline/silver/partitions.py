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
from services.pipeline.silver.validity import SPAN, ended

__all__ = ["CHANGED", "CHANGES", "KEY", "STATE", "before", "partition_history"]

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
CHANGED: Final = STATE[:-1]
"""Of these it is kept what was before; the partition epoch was one less."""
CHANGES: Final = tuple(f"was_{name}" for name in CHANGED)
"""Columns that say what was before a row, null of what has not changed."""
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
    """Each state of each partition, with its topic's name.

    `was_…` is what was before, of what has changed; `is_first`, that nothing was before: CHANGES.
    """
    born = _born(events)
    rows = _said(events).unionByName(_removals(events, born), allowMissingColumns=True)
    rows = rows.unionByName(_clearings(events, born, topics), allowMissingColumns=True)
    names = topics.select("cluster_id", "topic_id", fn.col("name").alias("topic"))
    columns = ("cluster_id", "topic", *KEY, *STATE, "carries_leader", "is_first", *CHANGES, *SPAN)
    return _merged(rows).join(names, ["cluster_id", "topic_id"], "left").select(*columns)


def _born(events: DataFrame) -> DataFrame:
    """From which offset on there has been each partition."""
    rows = parsed(events, PartitionRecord, only=("topicId", "partitionId"))
    keys = rows.select(
        "cluster_id", "offset", fn.col("r.topicId").alias("topic_id"), fn.col("r.partitionId").alias("partition_id")
    )
    return keys.groupBy("cluster_id", *KEY).agg(fn.min("offset").alias("born"))


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
    """Every state whole, and what ended it. Changes to what is not there, which no controller writes, are passed over.

    A PartitionRecord says everything, so what was said last was said in the same life. One order serves all windows:
    the rows are sorted once, and while they are narrow.
    """
    keyed = rows.withColumn("key_hash", fn.xxhash64("cluster_id", *KEY))
    # Sorting compares eight bytes first: of the hash, they tell apart nearly all that differ.
    order = Window.partitionBy("key_hash", "cluster_id", *KEY).orderBy("offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    is_full, is_gone = fn.col("type") == _FULL, fn.col("type") == _REMOVE
    sizes = [fn.when(fn.col(name).isNotNull(), fn.size(name)) for name in ("elr", "last_known_elr")]
    elr = [fn.coalesce(_last(size).over(before), fn.lit(0)) for size in sizes]
    told = keyed.withColumns(
        {
            "is_there": _last(fn.when(is_full | is_gone, is_full)).over(order),
            "had_elr": (elr[0] + elr[1]) > 0,
            "carries_leader": (fn.col("type") == _CHANGE) & fn.col("leader").isNotNull(),
        }
    )
    counts = fn.col("is_there") & ((fn.col("type") != _CLEAR) | fn.col("had_elr"))
    placed = told.where(counts | is_gone).withColumns(
        {"place": fn.row_number().over(order), "leaders": fn.sum(fn.col("carries_leader").cast("int")).over(order)}
    )
    # What an epoch is ahead of these numbers, it is for a whole life.
    ahead = {"leader_epoch": "leaders", "partition_epoch": "place"}
    said = {name: fn.when(is_full, fn.col(name) - fn.col(number)) for name, number in ahead.items()}
    past = placed.withColumns(
        {
            **said,
            **{f"was_{name}": _last(said.get(name, fn.col(name))).over(before) for name in STATE},
            "was_leaders": fn.lag("leaders").over(order),
            "is_first": fn.coalesce(fn.lag("type").over(order) == _REMOVE, fn.lit(True)),
        }
    )
    spans = ended(past, order, is_gone)
    spans = spans.withColumns({name: fn.coalesce(name, f"was_{name}") for name in STATE})
    states = spans.withColumns(
        {
            "directories": _directories("replicas", "directories"),
            "was_directories": _directories("was_replicas", "was_directories"),
            **{name: fn.col(name) + fn.col(number) for name, number in ahead.items()},
            "was_leader_epoch": fn.col("was_leader_epoch") + fn.col("was_leaders"),
        }
    )
    return states.withColumns({f"was_{name}": _changed(name) for name in CHANGED})


def _changed(name: str) -> Column:
    before = fn.col(f"was_{name}")
    return fn.when(~fn.col("is_first") & (before != fn.col(name)), before)


def before(name: str) -> Column:
    """What a column of CHANGED was before; null of the first state."""
    return fn.when(~fn.col("is_first"), fn.coalesce(f"was_{name}", name))


def _last(value: Column) -> Column:
    return fn.last(value, ignorenulls=True)


def _directories(replicas: str, said: str) -> Column:
    """Where no replica's directory is known, one unknown each, however many replicas there are by now. KIP-858."""
    unknown = fn.lit(uuid_text(MIGRATING_DIRECTORY))
    none_known = fn.forall(said, lambda directory: directory == unknown)
    return fn.when(none_known, fn.transform(replicas, lambda _: unknown)).otherwise(fn.col(said))
