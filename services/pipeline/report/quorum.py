"""The active controller's lane in the report: a segment for each epoch, and periods without a record on top."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from quorate.records import LeaderChangeMessage
from services.pipeline.frames import struct_type
from services.pipeline.gold.silence import silences
from services.pipeline.report.intervals import latest, ms
from services.pipeline.report.lanes import LaneSegment, TimelineLane, leader_look

__all__ = ["quorum_lane", "read_epochs", "read_silences"]


def read_epochs(events: DataFrame, most: int) -> list[Row]:
    """Collects the latest epochs of each cluster in order, with its active controller, the `leader`.

    `begin_ms` and `last_ms` are the times of its first and its last record; `total` is the number of the cluster's
    epochs, shown or not.
    """
    payload = fn.from_json("payload", struct_type(LeaderChangeMessage))
    led = events.where("type = 'LEADER_CHANGE'").withColumn("leader", payload["leaderId"])
    last = events.where("not is_base").groupBy("cluster_id", "epoch").agg(fn.max("timestamp").alias("last"))
    rows = latest(led, ["cluster_id"], most, by="offset").join(last, ["cluster_id", "epoch"])
    times = (ms("timestamp").alias("begin_ms"), ms("last").alias("last_ms"))
    return rows.orderBy("cluster_id", "offset").select("cluster_id", "epoch", "leader", *times, "total").collect()


def read_silences(events: DataFrame, most: int) -> list[Row]:
    """Collects the latest periods of each cluster in which no controller wrote, in order."""
    found = silences(events).select(
        "cluster_id", ms("before.timestamp").alias("begin_ms"), ms("after.timestamp").alias("end_ms")
    )
    rows = latest(found, ["cluster_id"], most, by="begin_ms").orderBy("cluster_id", "begin_ms")
    return rows.select("cluster_id", "begin_ms", "end_ms").collect()


def quorum_lane(epochs: Sequence[Row], silent: Sequence[Row], end_ms: int) -> TimelineLane:
    """Builds the lane of one cluster's epochs, of which there is at least one.

    An epoch that begins with the log's last record has no duration; it is drawn with the minimum visible width. One
    whose successor's clock is behind ends with its own last record, and the successor is drawn over it.
    """
    begins = [*(each.begin_ms for each in epochs[1:]), end_ms]
    ends = [max(each.last_ms, end) for each, end in zip(epochs, begins, strict=True)]
    segments = [
        LaneSegment(
            each.begin_ms,
            end,
            leader_look(each.leader),
            f"controller {each.leader} is active in epoch {each.epoch}",
            f"{each.leader} · epoch {each.epoch}",
            grave=each is epochs[-1] and end == each.begin_ms,
        )
        for each, end in zip(epochs, ends, strict=True)
    ]
    segments += [
        LaneSegment(each.begin_ms, each.end_ms, "silent", "no controller wrote", grave=True)
        for each in [*silent, *_between(epochs, silent)]
    ]
    begin_ms = epochs[0].begin_ms if len(epochs) < epochs[0].total else None
    return TimelineLane("active controller", segments, begin_ms)


def _between(epochs: Sequence[Row], silent: Sequence[Row]) -> list[Row]:
    """Returns the times from an epoch's last record to the next epoch's first, without those that `silent` has."""
    gaps = [
        Row(cluster_id=one.cluster_id, begin_ms=one.last_ms, end_ms=following.begin_ms)
        for one, following in pairwise(epochs)
        if one.last_ms < following.begin_ms
    ]
    return [
        gap for gap in gaps if not any(each.begin_ms <= gap.begin_ms and gap.end_ms <= each.end_ms for each in silent)
    ]
