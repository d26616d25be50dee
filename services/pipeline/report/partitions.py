"""Partition timelines in the report: leader (colour) and ISR size (height) of the worst partitions over time.

The height is the ISR's share of the replicas without those being added: a partition is as high as the lane when it is
not under-replicated, which is how the counts of partitions are made, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.report.intervals import latest, ms, stretches, worst
from services.pipeline.report.lanes import LaneSegment, TimelineLane, leader_look
from services.pipeline.report.limits import TEXT_MAX
from services.pipeline.silver.partitions import KEY

__all__ = ["chosen", "partition_lanes", "read_partitions"]

_STATES = ("leader", "isr_count", "wanted_count", "offline", "under_min_isr")


def chosen(availability: DataFrame, most: int) -> DataFrame:
    """Ranks each cluster's partitions by offline time, time under min ISR, and leader changes; keeps the first."""
    key = ("cluster_id", "topic", *KEY)
    sums = ("offline_seconds", "under_min_isr_seconds", "leader_changes")
    whole = availability.groupBy(*key).agg(*(fn.sum(name).alias(name) for name in sums))
    order = [*(fn.desc(name) for name in sums), fn.col("topic"), fn.col("partition_id")]
    places = worst(whole, ["cluster_id"], order, most)
    return places.select("cluster_id", *KEY, "place", fn.col("total").alias("of"))


def read_partitions(spans: DataFrame, places: DataFrame, most: int) -> list[Row]:
    """Collects the latest intervals of the `chosen` partitions, ordered by rank and time.

    In each the partition had one leader and one ISR size. `place` is its rank within the cluster, 1 the worst, `of` the
    number of ranked partitions, `total` that of the partition's intervals, shown or not. `wanted_count` is the number
    of replicas, without those that are being added.
    """
    key = ("cluster_id", "place", "of", "partition")
    name = fn.concat_ws("-", fn.substring("topic", 1, TEXT_MAX), fn.col("partition_id").cast("string"))
    rows = spans.join(fn.broadcast(places), ["cluster_id", *KEY]).withColumn("partition", name)
    shown = latest(stretches(rows, key, _STATES), key, most)
    columns = (*key, *_STATES, ms("begin").alias("begin_ms"), ms("end").alias("end_ms"), "total")
    ordered = shown.select(*columns, "stretch").orderBy("cluster_id", "place", "stretch")
    return ordered.collect()


def partition_lanes(states: Sequence[Row]) -> list[TimelineLane]:
    """Builds a lane for each partition of one cluster, the worst first."""
    return [_lane(list(of)) for _, of in groupby(states, key=lambda state: state.place)]


def _lane(states: Sequence[Row]) -> TimelineLane:
    first = states[0]
    begin_ms = first.begin_ms if len(states) < first.total else None
    return TimelineLane(first.partition, list(map(_segment, states)), begin_ms)


def _segment(state: Row) -> LaneSegment:
    low = ", under min ISR" if state.under_min_isr else ""
    isr = f"ISR {state.isr_count} of {state.wanted_count}{low}"
    share = min(state.isr_count / max(state.wanted_count, 1), 1.0)
    times = state.begin_ms, state.end_ms
    if state.offline:
        return LaneSegment(*times, "offline", f"{state.partition}: offline; {isr}", "offline", share, grave=True)
    title, foot = f"{state.partition}: leader {state.leader}; {isr}", "under" if state.under_min_isr else None
    return LaneSegment(*times, leader_look(state.leader), title, f"{state.leader}", share, foot)
