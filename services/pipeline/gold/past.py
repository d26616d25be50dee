"""What the doctor and the story need of the partitions' past: a few states and spans of each partition.

Since when a condition has held depends on two states: the last one in which it did not hold, and the next. So of all
states with the same conditions only the last is kept, with the one after it. This bounds the rows of a partition by the
number of conditions, whatever the length of its history; a test compares the findings with those from all rows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from services.pipeline.gold.conditions import (
    CONDITIONS,
    is_moving,
    is_offline,
    is_recovering,
    is_under_replicated,
    wanted_counts,
)
from services.pipeline.gold.spans import COLUMNS, SpanSettings, spans_of
from services.pipeline.gold.spans import SCHEMA as SPANS
from services.pipeline.gold.states import States
from services.pipeline.groups import Array, Groups, different_lists, has_value, lengths
from services.pipeline.silver.partition_arrays import SCHEMA

__all__ = ["Past", "past_of", "with_conditions"]

_SHOWN: Final = (
    "cluster_id",
    "topic_id",
    "partition_id",
    "leader",
    "was_isr",
    "valid_from_offset",
    "valid_to_offset",
    "valid_from_time",
    "valid_to_time",
)
_READ: Final = (*_SHOWN, "replicas", "isr", "adding_replicas", "removing_replicas", "elr", "leader_recovery_state")
_HELD: Final = ("offline", "short", "has_elr", "recovering", "moving", "led_by_another", "isr_changed")
_EVENTS: Final = ("is_removed", "unclean", "moves", "moved", "cancelled", "withdrawn")
"""What the story tells of a span besides the conditions that begin or end with it."""
_PAST_STATES: Final = pa.schema(
    [*(SCHEMA.field(name) for name in _SHOWN), *(pa.field(name, pa.bool_()) for name in _HELD)]
)
_PAST_SPANS: Final = pa.schema([*SPANS, pa.field("turns", pa.bool_()), pa.field("is_last_of_kind", pa.bool_())])


class Past(NamedTuple):
    """The earlier states of partitions that tell since when a condition has held, and what was before; and their spans.

    The states have a column for each condition that the doctor asks about (`with_conditions`).

    Two columns of the spans say what each is for. `turns` marks those that the story needs: a condition begins or ends,
    the partition does, or an event of it is told. `is_last_of_kind` marks those by which it is known since when one has
    held that depends on min.insync.replicas.
    """

    states: DataFrame
    spans: DataFrame


def past_of(states: States, given: SpanSettings) -> Past:
    """Returns what is needed of the past of these states."""
    spans = states.computed(COLUMNS, lambda rows, groups: _kept_spans(*spans_of(rows, groups, given)), _PAST_SPANS)
    return Past(states.computed(_READ, _kept_states, _PAST_STATES).frame(), spans.frame())


def with_conditions(states: States) -> DataFrame:
    """Returns all states with what holds in each: it is `offline`, or `short` (under-replicated), `recovering` from an
    unclean election or `moving`; it has an ELR, is led by another than its preferred leader, or has another ISR than
    the state before.
    """
    return states.computed(_READ, lambda rows, _: _with_conditions(rows), _PAST_STATES).frame()


def _last_of_each(groups: Groups, *kinds: Array) -> Array:
    """Returns whether to keep each row: of each kind in each group the last one and the next; the group's first one.

    A kind is what rows have in common whose `kinds`, arrays of small numbers or flags, are equal.
    """
    kind = groups.numbers()
    for each in kinds:
        kind = kind * (int(each.max(initial=0)) + 1) + each
    kept = groups.first.copy()
    _, behind = np.unique(kind[::-1], return_index=True)
    last = len(kind) - 1 - behind
    kept[last] = True
    kept[last[~groups.last[last]] + 1] = True
    return kept


def _kept_states(states: pa.Table, groups: Groups) -> pa.Table:
    found = _with_conditions(states)
    return found.filter(pa.array(_last_of_each(groups, *(found[name].to_numpy() for name in _HELD))))


def _with_conditions(states: pa.Table) -> pa.Table:
    held = _conditions(states)
    shown = states.select(_SHOWN)
    for name in _HELD:
        shown = shown.append_column(name, pa.array(held[name]))
    return shown.cast(_PAST_STATES)


def _conditions(states: pa.Table) -> dict[str, Array]:
    """Returns whether each of _HELD holds in each state."""
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
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[order]), type=lists.type)


def _kept_spans(spans: pa.Table, groups: Groups) -> pa.Table:
    offline, under, short = (spans[name].to_numpy() for name in CONDITIONS)
    state = offline + 2 * under + 4 * short
    turns = np.logical_or.reduce([spans[name].to_numpy() for name in _EVENTS])
    turns |= state != np.where(groups.first, 0, np.roll(state, 1))
    replicas, min_isr = spans["replica_count"].to_numpy(), spans["min_isr"].to_numpy()
    is_last = _last_of_each(groups, under, replicas == 1, np.sign(min_isr - replicas) + 1)
    with_marks = spans.append_column("turns", pa.array(turns)).append_column("is_last_of_kind", pa.array(is_last))
    return with_marks.filter(pa.array(turns | is_last)).cast(_PAST_SPANS)
