"""Who led the worst partitions and how large their ISRs were: a colour for each leader, the height is the ISR's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.report.lanes import Lane, Segment
from services.pipeline.report.limits import TEXT_MAX
from services.pipeline.report.stretches import latest, ms, stretches, worst
from services.pipeline.silver.partitions import KEY

__all__ = ["PartitionState", "chosen", "partition_lanes", "read_partitions"]

LOOKS: int = 8
_STATES = ("leader", "isr_count", "replica_count", "offline", "under_min_isr")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A stretch in which a partition had one leader and an ISR of one size."""

    cluster_id: str
    place: int
    """1 is the worst partition of the cluster."""
    of: int
    """Partitions that the cluster had in all."""
    partition: str
    leader: int
    isr_count: int
    replica_count: int
    offline: bool
    under_min_isr: bool
    begin_ms: int
    end_ms: int
    total: int
    """Stretches that this partition had in all."""


def chosen(availability: DataFrame, most: int) -> DataFrame:
    """The partitions of each cluster that were offline longest, then under their min ISR, then changed leaders."""
    key = ("cluster_id", "topic", *KEY)
    sums = ("offline_seconds", "under_min_isr_seconds", "leader_changes")
    whole = availability.groupBy(*key).agg(*(fn.sum(name).alias(name) for name in sums))
    order = [*(fn.desc(name) for name in sums), fn.col("topic"), fn.col("partition_id")]
    places = worst(whole, ["cluster_id"], order, most)
    return places.select("cluster_id", *KEY, "place", fn.col("total").alias("of"))


def read_partitions(spans: DataFrame, places: DataFrame, most: int) -> list[PartitionState]:
    """The latest stretches of the `chosen` partitions, in order."""
    key = ("cluster_id", "place", "of", "partition")
    name = fn.concat_ws("-", fn.substring("topic", 1, TEXT_MAX), fn.col("partition_id").cast("string"))
    rows = spans.join(fn.broadcast(places), ["cluster_id", *KEY]).withColumn("partition", name)
    told = latest(stretches(rows, key, _STATES), key, most)
    columns = (*key, *_STATES, ms("begin").alias("begin_ms"), ms("end").alias("end_ms"), "total")
    ordered = told.select(*columns, "stretch").orderBy("cluster_id", "place", "stretch")
    return [
        PartitionState(**{name: value for name, value in row.asDict().items() if name != "stretch"})
        for row in ordered.collect()
    ]


def partition_lanes(states: Sequence[PartitionState]) -> list[Lane]:
    """A lane for each partition of one cluster, the worst first."""
    return [_lane(list(of)) for _, of in groupby(states, key=lambda state: state.place)]


def _lane(states: Sequence[PartitionState]) -> Lane:
    first = states[0]
    return Lane(
        label=first.partition,
        segments=[_segment(each) for each in states],
        untold_ms=first.begin_ms if len(states) < first.total else None,
    )


def _segment(state: PartitionState) -> Segment:
    low = ", under min ISR" if state.under_min_isr else ""
    isr = f"ISR {state.isr_count} of {state.replica_count}{low}"
    if state.offline:
        return Segment(
            begin_ms=state.begin_ms,
            end_ms=state.end_ms,
            look="offline",
            title=f"offline; {isr}",
            words="offline",
            grave=True,
        )
    return Segment(
        begin_ms=state.begin_ms,
        end_ms=state.end_ms,
        look=f"n{state.leader % LOOKS}",
        title=f"leader {state.leader}; {isr}",
        words=f"{state.leader}",
        share=state.isr_count / max(state.replica_count, 1),
        foot="under" if state.under_min_isr else None,
    )
