"""The partitions' past as gold needs it: rows about each for the doctor, and spans for the story.

Both are computed over arrays, by the workers that have the states of a partition together. The doctor's rows stand
beside a cluster's state (`told`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from quorate.doctor import Condition
from services.pipeline.gold.conditions import (
    CONDITIONS,
    is_moving,
    is_offline,
    is_recovering,
    is_under_replicated,
    wanted_counts,
)
from services.pipeline.gold.spans import COLUMNS, SpanSettings, led_uncleanly, spans_of
from services.pipeline.gold.spans import SCHEMA as SPANS
from services.pipeline.gold.states import States
from services.pipeline.gold.told import PARTITION_PAST, SINCE
from services.pipeline.gold.told import SCHEMA as TOLD
from services.pipeline.groups import NONE, Array, Groups, different_lists, has_value, lengths

__all__ = ["partitions_told", "turning_spans"]

_EVENTS: Final = ("is_removed", "unclean", "moves", "moved", "cancelled", "withdrawn")
"""The story's events of a span besides the conditions that begin or end with it."""


def turning_spans(states: States, given: SpanSettings) -> DataFrame:
    """Returns those spans of partitions (intervals, see `spans.SCHEMA`) that the story needs.

    At the begin of such a span a condition (CONDITIONS) begins or ends, or there is an event: an unclean election, a
    step of a reassignment, a member of the ELR withdrawn. Or the removal of the topic ends it.
    """
    return states.computed(COLUMNS, lambda rows, groups: _turning(*spans_of(rows, groups, given)), SPANS).frame()


def partitions_told(states: States, given: SpanSettings) -> DataFrame:
    """Computes a row for each condition that holds of a partition that exists, or of its topic.

    It has the offset and the time (ms since 1970) since which the condition has held. Of partitions that are ill, or
    had an unclean leader election, further rows have their state before that.
    """
    return states.computed(COLUMNS, lambda rows, groups: _told(rows, groups, given), TOLD).frame()


def _turning(spans: pa.Table, groups: Groups) -> pa.Table:
    offline, under, short = (spans[name].to_numpy() for name in CONDITIONS)
    state = offline + 2 * under + 4 * short
    turns = np.logical_or.reduce([spans[name].to_numpy() for name in _EVENTS])
    turns |= state != np.where(groups.first, 0, np.roll(state, 1))
    return spans.filter(pa.array(turns))


def _told(states: pa.Table, groups: Groups, given: SpanSettings) -> pa.Table:
    last = np.flatnonzero(groups.last)
    is_there = ~has_value(states["valid_to_offset"].combine_chunks().take(pa.array(last)))
    held = _conditions(states)
    spans, of_spans = spans_of(states, groups, given)
    assert np.count_nonzero(of_spans.first) == len(last), (np.count_nonzero(of_spans.first), len(last))
    under, replicas, min_isr = (spans[name].to_numpy() for name in ("under_min_isr", "replica_count", "min_isr"))
    topics = pc.fill_null(states["topic"].combine_chunks().take(pa.array(last)), "none")
    numbers = states["partition_id"].combine_chunks().take(pa.array(last)).cast(pa.string())
    named = pc.binary_join_element_wise("partition ", topics, "-", numbers, "")
    of_topic = pc.binary_join_element_wise("topic ", topics, "")

    def since(of: Groups, holds: Array, condition: Condition, subjects: pa.Array, rows: pa.Table) -> pa.Table:
        at = np.where(is_there, of.since(holds), NONE)
        some = pa.array(np.flatnonzero(at != NONE))
        offset, time = ("valid_from_offset", "valid_from_time") if rows is states else ("offset", "begin")
        found = rows.select(["cluster_id", offset, time]).take(pa.array(at[at != NONE]))
        ms = np.floor_divide(found[time].cast(pa.int64()).to_numpy(), 1000)
        values = [SINCE, condition.value, subjects.take(some), found[offset], pa.array(ms)]
        return _rows(found["cluster_id"], *values)

    parts = [since(groups, held[name], condition, named, states) for condition, name in _OF_STATES.items()]
    parts.append(since(of_spans, under, Condition.UNDER_MIN_ISR, named, spans))
    of_topics = {
        Condition.ONE_REPLICA: replicas == 1,
        Condition.MIN_ISR_ABOVE: min_isr > replicas,
        Condition.MIN_ISR_EQUALS: (min_isr == replicas) & (replicas > 1),
    }
    firsts = pa.concat_tables(since(of_spans, holds, each, of_topic, spans) for each, holds in of_topics.items())
    # Of a topic's partitions the first counts; there may be a million.
    key = ["cluster_id", "kind", "type", "value"]
    order = [("at_offset", "ascending"), ("at_ms", "ascending")]
    grouped = firsts.sort_by(order).group_by(key, use_threads=False)
    first = grouped.aggregate([("at_offset", "first"), ("at_ms", "first")])
    parts.append(first.rename_columns([*key, "at_offset", "at_ms"]).select(TOLD.names).cast(TOLD))
    return pa.concat_tables([*parts, _documents(states, groups, held, is_there)])


_OF_STATES: Final = {
    Condition.NO_LEADER: "offline",
    Condition.UNDER_REPLICATED: "short",
    Condition.ELR: "has_elr",
    Condition.RECOVERING: "recovering",
    Condition.MOVING: "moving",
    Condition.LED_BY_ANOTHER: "led_by_another",
}


def _documents(states: pa.Table, groups: Groups, held: Mapping[str, Array], is_there: Array) -> pa.Table:
    """Returns what was before of partitions that are ill, or that were led by an unclean election."""
    last = np.flatnonzero(groups.last)
    unclean = led_uncleanly(states)
    counts = groups.cumulated(unclean)[last]
    isr, replicas = (lengths(states[name].combine_chunks())[last] for name in ("isr", "replicas"))
    # Of a partition that has a leader and all replicas in the ISR, nothing is said of those before.
    told = np.flatnonzero(is_there & (held["offline"][last] | (isr < replicas) | (counts > 0)))
    at = last[told]
    led, changed, elected = (groups.latest(each)[at] for each in (~held["offline"], held["isr_changed"], unclean))

    def of(name: str, rows: Array) -> Iterator[Any]:
        values = states[name].combine_chunks().take(pa.array(rows, mask=rows == NONE))
        is_time = pa.types.is_timestamp(values.type)
        return iter(pc.divide(values.cast(pa.int64()), 1000).to_pylist() if is_time else values.to_pylist())

    columns = {
        "topic_id": of("topic_id", at),
        "partition_id": of("partition_id", at),
        "last_leader": of("leader", led),
        "isr_changed_ms": of("valid_from_time", changed),
        "isr_was": of("was_isr", changed),
    }
    of_unclean = [of(name, elected) for name in ("leader", "valid_from_offset", "valid_from_time")]
    made = []
    shown = zip(*columns.values(), strict=True)
    for row, count, *elected_at in zip(shown, counts[told].tolist(), *of_unclean, strict=True):
        found = dict(zip(columns, row, strict=True))
        if count:
            found["unclean"] = {**dict(zip(("leader", "offset", "ms"), elected_at, strict=True)), "count": count}
        made.append(json.dumps({name: value for name, value in found.items() if value is not None}))
    clusters = states["cluster_id"].take(pa.array(at))
    return _rows(clusters, PARTITION_PAST, None, pa.array(made, pa.string()), None, None)


def _rows(clusters: pa.ChunkedArray, *values: Any) -> pa.Table:
    """Returns rows of `told`; a value that is no array is that of all."""
    columns = [
        each if isinstance(each, pa.Array | pa.ChunkedArray) else pa.repeat(pa.scalar(each, field.type), len(clusters))
        for each, field in zip((clusters, *values), TOLD, strict=True)
    ]
    return pa.table(columns, schema=TOLD)


def _conditions(states: pa.Table) -> dict[str, Array]:
    """Returns of each state whether the partition is offline, short (under-replicated) and so on."""
    leader = states["leader"].to_numpy()
    replicas, isr, was_isr, adding, removing, elr = (
        states[name].combine_chunks()
        for name in ("replicas", "isr", "was_isr", "adding_replicas", "removing_replicas", "elr")
    )
    placed = lengths(replicas) > 0
    is_led_by_another = placed.copy()
    is_led_by_another[placed] = leader[placed] != pc.list_element(replicas.filter(pa.array(placed)), 0).to_numpy()
    is_led_by_another &= ~is_offline(leader)
    return {
        "offline": is_offline(leader),
        "short": is_under_replicated(lengths(isr), wanted_counts(states)),
        "has_elr": lengths(elr) > 0,
        "recovering": is_recovering(states["leader_recovery_state"].to_numpy()),
        "moving": is_moving(lengths(adding), lengths(removing)),
        "led_by_another": is_led_by_another,
        "isr_changed": _has_other_members(isr, was_isr),
    }


def _has_other_members(lists: pa.Array, before: pa.Array) -> Array:
    """Returns whether each list has other members than the one before, which is null if nothing has changed."""
    found = has_value(before)
    at = np.flatnonzero(found)
    both = pa.concat_arrays([_sorted(lists.take(pa.array(at))), _sorted(before.take(pa.array(at)))])
    found[at] = different_lists(both, np.arange(len(at)), np.arange(len(at)) + len(at))
    return found


def _sorted(lists: pa.Array) -> pa.Array:
    """Returns lists of numbers, none of them null, with sorted items."""
    sizes = lengths(lists)
    values = lists.flatten().to_numpy()
    order = np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    assert offsets[-1] == len(values), (offsets[-1], len(values))  # Arrow does not look at them
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[order]), type=lists.type)
