"""The clocks of the active controllers: each epoch's records have the times of the clock of its own controller.

So a log's order is that of its offsets. Its times go back where an epoch begins earlier than the one before it ended:
the new active controller's clock is behind, or the one before was ahead; which of them is wrong, no log says.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

__all__ = ["back_count", "epochs", "with_set_backs"]


def epochs(events: DataFrame) -> DataFrame:
    """Returns one row an epoch, by the clock of its own controller.

    `begin_offset`, `begin` and `leader_id` are those of its first record (the id is null if that is no LeaderChange),
    `end` is its latest time. `from_epoch` and `ended` are epoch and `end` of the epoch before it. `back_ms` is how far
    its begin is before that end, in ms; 0 if it is not.
    """
    leader = fn.when(fn.col("type") == "LEADER_CHANGE", fn.get_json_object("payload", "$.leaderId"))
    found = (
        events.where("not is_base")
        .groupBy("cluster_id", "epoch")
        .agg(
            fn.min("offset").alias("begin_offset"),
            fn.min_by("timestamp", "offset").alias("begin"),
            fn.max("timestamp").alias("end"),
            fn.min_by(leader, "offset").cast("int").alias("leader_id"),
        )
    )
    order = Window.partitionBy("cluster_id").orderBy("epoch")
    beside = found.withColumns({"from_epoch": fn.lag("epoch").over(order), "ended": fn.lag("end").over(order)})
    back_ms = fn.greatest(fn.unix_millis("ended") - fn.unix_millis("begin"), fn.lit(0))
    return beside.withColumn("back_ms", fn.coalesce(back_ms, fn.lit(0)))


def with_set_backs(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds `set_backs`: the offsets at which the times of the row's cluster go back, for `back_count`."""
    went_back = epochs(events).where("back_ms > 0")
    of_cluster = went_back.groupBy("cluster_id").agg(fn.collect_list("begin_offset").alias("set_backs"))
    joined = rows.join(fn.broadcast(of_cluster), "cluster_id", "left")
    return joined.withColumn("set_backs", fn.coalesce("set_backs", fn.array().cast("array<bigint>")))


def back_count(offset: str) -> Column:
    """Returns how often the times of a row of `with_set_backs` have gone back, until `offset`.

    With it, a time is one moment of a cluster: until they go back again, no epoch has a time of an earlier one.
    """
    return fn.size(fn.filter("set_backs", lambda back: back <= fn.col(offset)))
