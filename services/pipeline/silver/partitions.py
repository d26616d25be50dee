"""Partition histories: each PartitionChangeRecord states only the fields that change, the rest comes from before.

The rules are those of `quorate.metadata.partitions`: every change raises the partition epoch, a change that has a
leader raises the leader epoch, and directories follow the replicas as long as none is known.
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
"""Fields whose value before the change is kept; the partition epoch is left out because it was just one less."""
CHANGES: Final = tuple(f"was_{name}" for name in CHANGED)
"""Columns with the value before a state; null if that field did not change."""
_FULL: Final = "PARTITION_RECORD"
_CHANGE: Final = "PARTITION_CHANGE_RECORD"
_REMOVE: Final = "REMOVE_TOPIC_RECORD"
_CLEAR: Final = "CLEAR_ELR_RECORD"
_JSON_FIELDS: Final = {
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
"""The JSON field of a record for each column; null in a record that does not state it."""
_AT: Final = ("cluster_id", "offset", "timestamp", "type", "trace_id")


def partition_history(events: DataFrame, topics: DataFrame) -> DataFrame:
    """Builds one row for each state of each partition, with its topic's name.

    `was_…` columns (CHANGES) hold previous values of changed fields; `is_first` marks a state without a previous one.
    """
    born = _born(events)
    rows = _stated_fields(events).unionByName(_removals(events, born), allowMissingColumns=True)
    rows = rows.unionByName(_clearings(events, born, topics), allowMissingColumns=True)
    names = topics.select("cluster_id", "topic_id", fn.col("name").alias("topic"))
    columns = ("cluster_id", "topic", *KEY, *STATE, "carries_leader", "is_first", *CHANGES, *SPAN)
    return _merged(rows).join(names, ["cluster_id", "topic_id"], "left").select(*columns)


def _born(events: DataFrame) -> DataFrame:
    """Returns the offset at which each partition was first created."""
    rows = parsed(events, PartitionRecord, only=("topicId", "partitionId"))
    keys = rows.select(
        "cluster_id", "offset", fn.col("r.topicId").alias("topic_id"), fn.col("r.partitionId").alias("partition_id")
    )
    return keys.groupBy("cluster_id", *KEY).agg(fn.min("offset").alias("born"))


def _stated_fields(events: DataFrame) -> DataFrame:
    """Extracts the stated fields of each record; a field that a full PartitionRecord leaves out gets its default."""
    rows = parsed(events, PartitionRecord, PartitionChangeRecord)
    full = fn.col("type") == _FULL
    stated = {name: fn.col(f"r.{field}") for name, field in _JSON_FIELDS.items()}
    nothing = fn.array().cast("array<int>")
    for name in ("elr", "last_known_elr"):
        stated[name] = fn.when(full, fn.coalesce(stated[name], nothing)).otherwise(stated[name])
    stated["directories"] = fn.when(
        full, fn.coalesce(stated["directories"], fn.array().cast("array<string>"))
    ).otherwise(stated["directories"])
    stated["leader_recovery_state"] = fn.when(full, fn.coalesce(stated["leader_recovery_state"], fn.lit(0))).otherwise(
        stated["leader_recovery_state"]
    )
    keys = {"topic_id": fn.col("r.topicId"), "partition_id": fn.col("r.partitionId")}
    return rows.select(*_AT, *(column.alias(name) for name, column in {**keys, **stated}.items()))


def _removals(events: DataFrame, born: DataFrame) -> DataFrame:
    """Returns a removal row for each partition of a topic that is removed."""
    removed = parsed(events, RemoveTopicRecord).select(*_AT, fn.col("r.topicId").alias("topic_id"))
    return removed.join(born, ["cluster_id", "topic_id"]).where("offset > born").drop("born")


def _clearings(events: DataFrame, born: DataFrame, topics: DataFrame) -> DataFrame:
    """Returns a change row for each partition that a ClearElrRecord clears: those of one topic, or all (no name).

    KIP-966.
    """
    clears = parsed(events, ClearElrRecord).select(*_AT, fn.col("r.topicName").alias("named")).alias("clear")
    there = topics.select("cluster_id", "topic_id", "name", "valid_from_offset", "valid_to_offset").alias("topic")
    concerned = fn.expr(
        "clear.cluster_id = topic.cluster_id and (clear.named = '' or clear.named = topic.name)"
        " and topic.valid_from_offset < clear.offset"
        " and (topic.valid_to_offset is null or topic.valid_to_offset > clear.offset)"
    )
    found = (
        fn.broadcast(clears)
        .join(there, concerned)
        .select(*(fn.col(f"clear.{name}").alias(name) for name in _AT), "topic_id")
    )
    rows = found.join(born, ["cluster_id", "topic_id"]).where("offset > born").drop("born")
    nothing = fn.array().cast("array<int>")
    return rows.withColumns({"elr": nothing, "last_known_elr": nothing})


def _merged(rows: DataFrame) -> DataFrame:
    """Fills in unstated fields and adds each state's end. A change to a partition that does not exist is ignored.

    A PartitionRecord states every field, so the last stated value always belongs to the same life of the partition. All
    windows use one order, so the rows are sorted once, while they are still narrow.
    """
    keyed = rows.withColumn("key_hash", fn.xxhash64("cluster_id", *KEY))
    # Sorting compares the first eight bytes before the rest; with the hash in front these nearly always differ.
    order = Window.partitionBy("key_hash", "cluster_id", *KEY).orderBy("offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    is_full, is_gone = fn.col("type") == _FULL, fn.col("type") == _REMOVE
    sizes = [fn.when(fn.col(name).isNotNull(), fn.size(name)) for name in ("elr", "last_known_elr")]
    elr = [fn.coalesce(_last(size).over(before), fn.lit(0)) for size in sizes]
    lifetimes = keyed.withColumns(
        {
            "is_there": _last(fn.when(is_full | is_gone, is_full)).over(order),
            "had_elr": (elr[0] + elr[1]) > 0,
            "carries_leader": (fn.col("type") == _CHANGE) & fn.col("leader").isNotNull(),
        }
    )
    counts = fn.col("is_there") & ((fn.col("type") != _CLEAR) | fn.col("had_elr"))
    placed = lifetimes.where(counts | is_gone).withColumns(
        {"place": fn.row_number().over(order), "leaders": fn.sum(fn.col("carries_leader").cast("int")).over(order)}
    )
    # The difference between an epoch and its running count is constant while a partition lives.
    ahead = {"leader_epoch": "leaders", "partition_epoch": "place"}
    stated = {name: fn.when(is_full, fn.col(name) - fn.col(number)) for name, number in ahead.items()}
    past = placed.withColumns(
        {
            **stated,
            **{f"was_{name}": _last(stated.get(name, fn.col(name))).over(before) for name in STATE},
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
    """Returns the value of a column of CHANGED before the state; null for the first state."""
    return fn.when(~fn.col("is_first"), fn.coalesce(f"was_{name}", name))


def _last(value: Column) -> Column:
    return fn.last(value, ignorenulls=True)


def _directories(replicas: str, stated: str) -> Column:
    """Fills in one unknown directory for each present replica if no replica's directory is known. KIP-858."""
    unknown = fn.lit(uuid_text(MIGRATING_DIRECTORY))
    none_known = fn.forall(stated, lambda directory: directory == unknown)
    return fn.when(none_known, fn.transform(replicas, lambda _: unknown)).otherwise(fn.col(stated))
