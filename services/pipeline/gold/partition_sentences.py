"""The audit timeline's sentences about partitions, over arrays, with the words of `quorate.sql.sentences`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.metadata.partitions import NO_LEADER, RECOVERED, RECOVERING
from quorate.sql.sentences import (
    AGAIN,
    CREATED,
    DIRECTORIES,
    EPOCH,
    LEADER,
    LISTS,
    NONE_THERE,
    RECOVERED_WORDS,
    RESERVED,
    UNCLEAN,
)
from services.pipeline.gold.spans import led_uncleanly
from services.pipeline.groups import NONE, Array, has_value, taken

__all__ = ["COLUMNS", "SCHEMA", "sentences"]

_LISTS: Final = {{"eligible_leader_replicas": "elr"}.get(name, name): words for name, words in LISTS.items()}
_EPOCH: Final = "leader_epoch"
_SHOWN: Final = ("leader", *_LISTS, "directories", _EPOCH, "leader_recovery_state")
COLUMNS: Final = (
    "topic",
    "is_first",
    "valid_from_time",
    "trace_id",
    *_SHOWN,
    *(f"was_{name}" for name in _SHOWN),
)
"""The columns of a partition's states that are read."""
SCHEMA: Final = pa.schema(
    {
        "cluster_id": pa.string(),
        "offset": pa.int64(),
        "time": pa.timestamp("us", tz="UTC"),
        "subject": pa.string(),
        "sentence": pa.string(),
        "trace_id": pa.string(),
    }
)
"""The columns of the audit timeline."""
_Shown = Callable[[pa.Array], pa.Array]


def sentences(states: pa.Table, bases: pa.Table) -> pa.Table:
    """Returns the audit timeline's row (SCHEMA) for each state of a partition: how it differs from the one before.

    `states` has the columns COLUMNS, those of the key, and `valid_from_offset`. The values before are in the columns
    `was_…` of the same row (null if unchanged), so rows need no order; with `is_first` it says that it was created.
    `bases` has cluster ids and offsets of the base checkpoints: states that began there have no row.
    """
    states = _changes(states, bases).combine_chunks()
    is_first = states["is_first"].to_numpy()
    changed = _joined(*_parts(states), separator="; ")
    plain = pc.equal(changed, "")
    again = pc.coalesce(_arrow(states, EPOCH, _EPOCH, _text), AGAIN)
    said = _scattered(pc.if_else(plain, again, changed), _created(states, np.flatnonzero(is_first)), is_first)
    numbers = _text(states["partition_id"].combine_chunks())
    subject = pc.binary_join_element_wise("partition ", states["topic"].combine_chunks(), "-", numbers, "")
    columns = {
        "cluster_id": states["cluster_id"],
        "offset": states["valid_from_offset"],
        "time": states["valid_from_time"],
        "subject": subject,
        "sentence": _joined(subject, said, separator=" "),
        "trace_id": states["trace_id"],
    }
    return pa.table(columns, schema=SCHEMA)


def _changes(states: pa.Table, bases: pa.Table) -> pa.Table:
    """Returns the states without what the base checkpoint of each cluster holds."""
    at = pc.index_in(states["cluster_id"].combine_chunks(), bases["cluster_id"].combine_chunks())
    offsets = bases["offset"].combine_chunks().take(at)
    return states.filter(pc.fill_null(pc.not_equal(states["valid_from_offset"].combine_chunks(), offsets), True))


def _parts(states: pa.Table) -> Sequence[pa.Array]:
    """Returns the parts of the sentences about changes; null where nothing is said."""
    state, was = (
        pc.fill_null(states[name], NONE).to_numpy() for name in ("leader_recovery_state", "was_leader_recovery_state")
    )
    return [
        _arrow(states, LEADER, "leader", _leader),
        *(_arrow(states, words, name, _ids) for name, words in _LISTS.items()),
        _arrow(states, DIRECTORIES, "directories", _directories),
        _where(led_uncleanly(states), UNCLEAN),
        _where((state == RECOVERED) & (was == RECOVERING), RECOVERED_WORDS),
    ]


def _arrow(states: pa.Table, words: str, name: str, shown: _Shown) -> pa.Array:
    """Returns `words before → after` for each state that changed the column; null for the others."""
    changed = has_value(states[f"was_{name}"].combine_chunks())
    some = states.select([name, f"was_{name}"]).filter(pa.array(changed))
    was, now = (shown(some[each].combine_chunks()) for each in (f"was_{name}", name))
    text = pc.binary_join_element_wise(f"{words} ", was, " → ", now, "")
    return taken(text, np.where(changed, np.cumsum(changed) - 1, NONE))


def _created(states: pa.Table, at: Array) -> pa.Array:
    """Returns the sentences about the states at these indices, each a partition's first."""
    first = states.select(["replicas", "isr", "leader"]).take(pa.array(at)).combine_chunks()
    replicas, isr = (_ids(first[name].combine_chunks()) for name in ("replicas", "isr"))
    leader = _leader(first["leader"].combine_chunks())
    before_replicas, before_isr, before_leader = CREATED
    return pc.binary_join_element_wise(before_replicas, replicas, before_isr, isr, before_leader, leader, "")


def _scattered(texts: pa.Array, others: pa.Array, where: Array) -> pa.Array:
    """Returns the texts, with the others in their order where `where`."""
    at = np.where(where, len(texts) + np.cumsum(where) - 1, np.arange(len(texts)))
    return pa.concat_arrays([texts, others]).take(pa.array(at))


def _where(holds: Array, words: str) -> pa.Array:
    return pc.if_else(pa.array(holds), words, pa.scalar(None, pa.string()))


def _joined(first: pa.Array, *others: pa.Array, separator: str) -> pa.Array:
    """Returns the texts of each row joined, without those that are null; empty if all are."""
    # Arrow leaves out a row of nulls only.
    is_any = reduce(pc.or_, (each.is_valid() for each in (first, *others)))
    texts = (pc.if_else(is_any, first, ""), *others)
    return pc.binary_join_element_wise(*texts, separator, null_handling="skip")


def _text(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.string())


def _ids(lists: pa.Array) -> pa.Array:
    return _listed(lists.cast(pa.list_(pa.string())))


def _listed(lists: pa.Array) -> pa.Array:
    joined = pc.fill_null(pc.binary_join(lists, ","), "")
    return pc.if_else(pc.equal(joined, ""), NONE_THERE, joined)


def _directories(lists: pa.Array) -> pa.Array:
    """Lists the replicas' directories; three reserved ids are shown as words (KIP-858)."""
    shown = _listed(lists)
    for directory, word in RESERVED.items():
        shown = pc.replace_substring(shown, directory, word)
    return shown


def _leader(numbers: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(numbers, NO_LEADER), NONE_THERE, _text(numbers))
