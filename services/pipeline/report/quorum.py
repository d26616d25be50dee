"""The active controller's lane in the report: a segment for each epoch, and periods without a record on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.records import LeaderChangeMessage
from services.pipeline.frames import struct_type
from services.pipeline.gold.silence import silences
from services.pipeline.report.intervals import latest, ms
from services.pipeline.report.lanes import LaneSegment, TimelineLane, leader_look

__all__ = ["Epoch", "Silence", "quorum_lane", "read_epochs", "read_silences"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """An epoch: its active controller, and when its first and its last record were written, in ms since 1970."""

    cluster_id: str
    epoch: int
    leader: int
    begin_ms: int
    last_ms: int
    total: int
    """Number of epochs of this cluster, shown or not."""


def read_epochs(events: DataFrame, most: int) -> list[Epoch]:
    """Collects the latest epochs of each cluster in order."""
    payload = fn.from_json("payload", struct_type(LeaderChangeMessage))
    led = events.where("type = 'LEADER_CHANGE'").withColumn("leader", payload["leaderId"])
    last = events.where("not is_base").groupBy("cluster_id", "epoch").agg(fn.max("timestamp").alias("last"))
    rows = latest(led, ["cluster_id"], most, by="offset").join(last, ["cluster_id", "epoch"])
    rows = rows.select("cluster_id", "epoch", "leader", ms("timestamp"), ms("last"), "total", "offset")
    return [
        Epoch(cluster_id=row[0], epoch=row[1], leader=row[2], begin_ms=row[3], last_ms=row[4], total=row[5])
        for row in rows.orderBy("cluster_id", "offset").collect()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A period in which no controller wrote; times in ms since 1970."""

    cluster_id: str
    begin_ms: int
    end_ms: int


def read_silences(events: DataFrame, most: int) -> list[Silence]:
    """Collects the latest periods of each cluster in which no controller wrote, in order."""
    found = silences(events).select(
        "cluster_id", ms("before.timestamp").alias("begin"), ms("after.timestamp").alias("end")
    )
    rows = latest(found, ["cluster_id"], most).orderBy("cluster_id", "begin").collect()
    return [Silence(cluster_id=row["cluster_id"], begin_ms=row["begin"], end_ms=row["end"]) for row in rows]


def quorum_lane(epochs: Sequence[Epoch], silent: Sequence[Silence], end_ms: int) -> TimelineLane:
    """Builds the lane of one cluster's epochs, of which there is at least one.

    An epoch that begins with the log's last record has no duration; it is drawn with the minimum visible width. One
    whose successor's clock is behind ends with its own last record, and the successor is drawn over it.
    """
    begins = [*(each.begin_ms for each in epochs[1:]), end_ms]
    ends = [max(each.last_ms, end) for each, end in zip(epochs, begins, strict=True)]
    return TimelineLane(
        label="active controller",
        first_shown_ms=epochs[0].begin_ms if len(epochs) < epochs[0].total else None,
        segments=[
            LaneSegment(
                begin_ms=each.begin_ms,
                end_ms=end,
                look=leader_look(each.leader),
                title=f"controller {each.leader} is active in epoch {each.epoch}",
                words=f"{each.leader} · epoch {each.epoch}",
                grave=each is epochs[-1] and end == each.begin_ms,
            )
            for each, end in zip(epochs, ends, strict=True)
        ]
        + [
            LaneSegment(
                begin_ms=each.begin_ms, end_ms=each.end_ms, look="silent", title="no controller wrote", grave=True
            )
            for each in [*silent, *_between(epochs, silent)]
        ],
    )


def _between(epochs: Sequence[Epoch], silent: Sequence[Silence]) -> list[Silence]:
    """Returns the times from an epoch's last record to the next epoch's first, without those that `silent` has."""
    gaps = [
        Silence(cluster_id=one.cluster_id, begin_ms=one.last_ms, end_ms=following.begin_ms)
        for one, following in pairwise(epochs)
        if one.last_ms < following.begin_ms
    ]
    return [
        gap for gap in gaps if not any(each.begin_ms <= gap.begin_ms and gap.end_ms <= each.end_ms for each in silent)
    ]
