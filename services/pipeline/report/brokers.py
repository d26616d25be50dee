"""The broker timeline of the report: a lane for each broker that shows when it served, was fenced, or shut down."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from services.pipeline.report.intervals import latest, ms, stretches, worst
from services.pipeline.report.lanes import LaneSegment, TimelineLane, TimelineMark
from services.pipeline.report.limits import TEXT_MAX, ReportLimits
from services.pipeline.silver.validity import by_key

__all__ = ["broker_lanes", "fencings", "read_brokers"]

_WORDS: Final = {"fenced": "fenced", "leaving": "in controlled shutdown", "serving": "serves"}


def read_brokers(history: DataFrame, ends: DataFrame, limits: ReportLimits) -> list[Row]:
    """Collects the latest intervals of each cluster's most changed brokers, ordered by broker and time.

    In each the broker was `serving`, `fenced`, or `leaving` (controlled shutdown). `total` is the number of the
    broker's intervals, shown or not, and `of` that of the cluster's brokers.
    """
    key = ("cluster_id", "broker_id")
    known = history.join(fn.broadcast(ends), "cluster_id")
    # A new active controller's clock may be behind; a time earlier than one before it is replaced by that one.
    latest_yet = fn.max("valid_from_time").over(by_key(key[1:], "valid_from_offset"))
    begin = fn.greatest(latest_yet, "log_begin_time")
    end = fn.greatest(begin, fn.coalesce("valid_to_time", "log_end_time"))
    rows = known.withColumns({"begin": begin, "end": end, "is_last": fn.col("valid_to_offset").isNull()})
    each = history.groupBy(*key).agg(fn.max_by("rack", "valid_from_offset").alias("rack"), fn.count("*").alias("rows"))
    some = worst(each, ["cluster_id"], [fn.desc("rows"), fn.col("broker_id")], limits.brokers)
    some = some.select(*key, fn.substring("rack", 1, TEXT_MAX).alias("rack"), fn.col("total").alias("of"))
    word = fn.when(fn.col("fenced"), "fenced").when(fn.col("in_controlled_shutdown"), "leaving").otherwise("serving")
    each_state = stretches(rows.withColumn("state", word), key, ["state"])
    states = latest(each_state, key, limits.changes).join(fn.broadcast(some), list(key))
    times = (ms("begin").alias("begin_ms"), ms("end").alias("end_ms"))
    return states.select(*key, "rack", "state", *times, "total", "of", "stretch").orderBy(*key, "stretch").collect()


def broker_lanes(states: Sequence[Row]) -> list[TimelineLane]:
    """Builds a lane for each broker of one cluster."""
    return [_lane(list(of)) for _, of in groupby(states, key=lambda state: state.broker_id)]


def fencings(states: Sequence[Row]) -> list[TimelineMark]:
    """Returns a mark for each moment at which a broker that was not fenced became fenced."""
    return [
        TimelineMark(now.begin_ms, "fencing", f"broker {now.broker_id} is fenced")
        for was, now in pairwise(states)
        if was.broker_id == now.broker_id and was.state != "fenced" and now.state == "fenced"
    ]


def _lane(states: Sequence[Row]) -> TimelineLane:
    first = states[0]
    rack = f" · rack {first.rack}" if first.rack else ""
    begin_ms = first.begin_ms if len(states) < first.total else None
    return TimelineLane(f"broker {first.broker_id}{rack}", list(map(_segment, states)), begin_ms)


def _segment(each: Row) -> LaneSegment:
    words = _WORDS[each.state]
    title = f"broker {each.broker_id} {'is fenced' if each.state == 'fenced' else words}"
    share = {"serving": 1.0, "leaving": 0.7, "fenced": 0.35}[each.state]
    is_short = each.begin_ms == each.end_ms
    return LaneSegment(each.begin_ms, each.end_ms, each.state, title, words, share, grave=is_short)
