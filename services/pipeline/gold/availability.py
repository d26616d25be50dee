"""Availability: each partition's seconds offline and under min ISR, and its elections, for each day.

`spans` says what is counted, and by which min.insync.replicas; the time in which that is assumed is counted, too. A
leader change is a new leader after another one or after none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from services.pipeline.gold.spans import COLUMNS, SpanSettings, settings, spans_of
from services.pipeline.gold.spans import SCHEMA as SPANS
from services.pipeline.gold.states import States
from services.pipeline.groups import Groups
from services.pipeline.silver.present import MIN_ISR_DEFAULT
from services.pipeline.tables import Computed, TableFile

__all__ = ["SCHEMA", "availability", "days_of", "ends_of", "partition_spans"]

_KEY: Final = ("cluster_id", "topic", "topic_id", "partition_id")
_DAY_US: Final = 86_400_000_000
DAYS_MAX: Final = 3_660
"""Most days of a span that are counted one by one. A longer one is a controller's clock that was wrong for a while."""
_SECONDS: Final = {
    "seconds": None,
    "offline_seconds": "offline",
    "under_min_isr_seconds": "under_min_isr",
    "min_isr_assumed_seconds": "min_isr_is_assumed",
}
_COUNTS: Final = {"leader_changes": "led_anew", "unclean_elections": "unclean"}
SCHEMA: Final = pa.schema(
    {
        **{name: SPANS.field(name).type for name in _KEY},
        "date": pa.date32(),
        **dict.fromkeys(_SECONDS, pa.float64()),
        **dict.fromkeys(_COUNTS, pa.int64()),
        "ends_under_min_isr": pa.bool_(),
        "assumed_min_isr": pa.int32(),
    }
)


def availability(
    silver: Mapping[str, DataFrame], *, files: Sequence[TableFile] | None = None, given: SpanSettings | None = None
) -> Computed:
    """Computes one row for each partition and day (UTC) on which it existed: seconds, and counts of elections.

    `assumed_min_isr` is that of `given`; `min_isr_assumed_seconds` is the time in which no record set the config.
    `files` are those of the partition histories, if workers may read them; `given` are the settings, if they are known.
    `ends_under_min_isr` says of the last day of a partition that is there whether it is under its min ISR at the end.
    """
    known = given or settings(silver["config_history"], ends_of(silver["events"]))

    def days(states: pa.Table, groups: Groups) -> pa.Table:
        return days_of(*spans_of(states, groups, known), known.min_isr)

    return States(silver["partition_history"], files).computed(COLUMNS, days, SCHEMA)


def days_of(spans: pa.Table, groups: Groups, assumed: int) -> pa.Table:
    """Returns a row (SCHEMA) for each partition and day (UTC) of its `spans`, which are sorted by partition and time.

    A span is an interval in which leader, ISR size and min.insync.replicas do not change; `groups` are the partitions.
    Of a span of more than DAYS_MAX days only the first and the last day are counted.
    """
    assert groups.count == len(spans), (groups.count, len(spans))
    begin, end = (spans[name].cast(pa.int64()).to_numpy() for name in ("begin", "end"))
    first = begin // _DAY_US
    last = end // _DAY_US
    is_long = last - first >= DAYS_MAX
    count = np.where(is_long, 2, last - first + 1)
    at = np.repeat(np.arange(len(begin)), count)
    number = np.arange(len(at)) - np.repeat(np.cumsum(count) - count, count)
    day = np.where(is_long[at] & (number == 1), last[at], first[at] + number)
    micros = np.minimum(end[at], (day + 1) * _DAY_US) - np.maximum(begin[at], day * _DAY_US)
    began_here = first[at] == day
    lost = np.sum(end - begin, where=~is_long) - np.sum(micros, where=~is_long[at])
    assert lost == 0, (lost, len(begin))
    # An interval that ends at midnight has no time on the following day.
    counts = (micros > 0) | began_here
    at, day, micros, began_here = at[counts], day[counts], micros[counts], began_here[counts]
    partition = groups.numbers()[at]
    assert not ((partition[1:] == partition[:-1]) & (day[1:] < day[:-1])).any(), day
    days = Groups(partition, day)
    starts = np.flatnonzero(days.first)
    columns = {name: spans[name].take(pa.array(at[starts])) for name in _KEY}
    columns["date"] = pa.array(day[starts].astype(np.int32), pa.date32())
    for name, flag in _SECONDS.items():
        amounts = micros if flag is None else micros * _flags(spans, flag)[at]
        columns[name] = pa.array(_sums(amounts, starts) / 1_000_000)
    for name, flag in _COUNTS.items():
        columns[name] = pa.array(_sums(_flags(spans, flag)[at] & began_here, starts))
    ends_here = _flags(spans, "is_last")[at] & (end[at] <= (day + 1) * _DAY_US)
    columns["ends_under_min_isr"] = pa.array(_sums(ends_here & _flags(spans, "under_min_isr")[at], starts) > 0)
    columns["assumed_min_isr"] = pa.array(np.full(len(starts), assumed, np.int32))
    return pa.table(columns, schema=SCHEMA)


def partition_spans(
    partitions: DataFrame, configs: DataFrame, ends: DataFrame, *, min_isr: int = MIN_ISR_DEFAULT
) -> DataFrame:
    """Computes the spans of all partitions, with the columns of `spans.SCHEMA`: one leader, ISR size and min ISR each.

    `ends` has each cluster's `log_end_time`; `min_isr` is assumed while no record sets the config.
    """
    given = settings(configs, ends, min_isr=min_isr)
    return States(partitions).computed(COLUMNS, lambda rows, groups: spans_of(rows, groups, given)[0], SPANS).frame()


def ends_of(events: DataFrame) -> DataFrame:
    """Computes the time of each cluster's last record; a record before may have a later one, by another clock."""
    last = fn.max_by("timestamp", fn.struct("offset", "timestamp"))
    return events.groupBy("cluster_id").agg(last.alias("log_end_time"))


def _flags(rows: pa.Table, name: str) -> np.ndarray:
    return rows[name].to_numpy()


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns the sum of each run of values; the runs begin at `starts`."""
    return np.add.reduceat(values.astype(np.int64), starts) if len(starts) else np.zeros(0, np.int64)
