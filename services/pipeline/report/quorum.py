"""Who led the quorum: an epoch is a stretch of its lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.records import LeaderChangeMessage
from services.pipeline.frames import struct_type
from services.pipeline.report.lanes import Lane, Segment
from services.pipeline.report.stretches import latest, ms

__all__ = ["Epoch", "quorum_lane", "read_epochs"]

LOOKS: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Who won which epoch, and when."""

    cluster_id: str
    epoch: int
    leader: int
    begin_ms: int
    total: int
    """Epochs that the cluster had in all."""


def read_epochs(events: DataFrame, most: int) -> list[Epoch]:
    """The latest epochs of each cluster, in order."""
    payload = fn.from_json("payload", struct_type(LeaderChangeMessage))
    led = events.where("type = 'LEADER_CHANGE'").withColumn("leader", payload["leaderId"])
    rows = latest(led, ["cluster_id"], most, by="offset")
    rows = rows.select("cluster_id", "epoch", "leader", ms("timestamp"), "total", "offset")
    return [
        Epoch(cluster_id=row[0], epoch=row[1], leader=row[2], begin_ms=row[3], total=row[4])
        for row in rows.orderBy("cluster_id", "offset").collect()
    ]


def quorum_lane(epochs: Sequence[Epoch], end_ms: int) -> Lane:
    """The lane of one cluster's epochs, of which there is one at least."""
    ends = [*(each.begin_ms for each in epochs[1:]), end_ms]
    return Lane(
        label="quorum leader",
        untold_ms=epochs[0].begin_ms if len(epochs) < epochs[0].total else None,
        segments=[
            Segment(
                begin_ms=each.begin_ms,
                end_ms=end,
                look=f"n{each.leader % LOOKS}",
                title=f"node {each.leader} leads in epoch {each.epoch}",
                words=f"{each.leader} · epoch {each.epoch}",
            )
            for each, end in zip(epochs, ends, strict=True)
        ],
    )
