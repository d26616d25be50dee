"""Partition histories over arrays: each PartitionChangeRecord states only the fields that change.

The rules are those of `quorate.metadata.partitions`: every change raises the partition epoch, a change that has a
leader raises the leader epoch, and directories follow the replicas as long as none is known.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.nouns import MIGRATING_DIRECTORY, uuid_text
from services.pipeline.groups import NONE, Groups, different_lists, has_value, lengths, taken
from services.pipeline.silver.stated import CHANGE, CLEAR, FULL, KEY, REMOVE, STATE, stated

__all__ = ["CHANGED", "SCHEMA", "histories"]

CHANGED: Final = STATE[:-1]
assert STATE[-1] == "partition_epoch", STATE
"""Fields whose value before the change is kept; the partition epoch is left out because it was just one less."""
_IDS: Final = pa.list_(pa.int32())
_TEXTS: Final = pa.list_(pa.string())
_TIME: Final = pa.timestamp("us", tz="UTC")
_STATE_TYPES: Final = {
    **dict.fromkeys(STATE, _IDS),
    "directories": _TEXTS,
    "leader": pa.int32(),
    "leader_recovery_state": pa.int32(),
    "leader_epoch": pa.int64(),
    "partition_epoch": pa.int32(),
}
SCHEMA: Final = pa.schema(
    {
        "cluster_id": pa.string(),
        "topic": pa.string(),
        "topic_id": pa.string(),
        "partition_id": pa.int32(),
        **_STATE_TYPES,
        "carries_leader": pa.bool_(),
        "is_first": pa.bool_(),
        **{f"was_{name}": _STATE_TYPES[name] for name in CHANGED},
        "valid_from_offset": pa.int64(),
        "valid_to_offset": pa.int64(),
        "valid_from_time": _TIME,
        "valid_to_time": _TIME,
        "trace_id": pa.string(),
        "end_trace_id": pa.string(),
        "end_type": pa.string(),
    }
)
"""The columns of a history."""
_UNKNOWN: Final = uuid_text(MIGRATING_DIRECTORY)


def histories(events: pa.Table) -> pa.Table:
    """Returns the states of partitions, those of each together and in order, from the events about them.

    `events` have the columns ROWS (see `stated`). A change to a partition that does not exist is ignored.
    """
    rows, groups = _counting(*stated(events))
    history = _History(rows, groups)
    return history.table()


def _counting(rows: pa.Table, groups: Groups) -> tuple[pa.Table, Groups]:
    """Returns the rows without those for partitions that do not exist, and without the clearing of empty ELRs."""
    kind = rows["type"]
    full, gone, clear = (pc.equal(kind, name).to_numpy() for name in (FULL, REMOVE, CLEAR))
    starts = groups.latest(full | gone)
    is_there = (starts != NONE) & full[starts]
    had_elr = np.zeros(groups.count, bool)
    for name in ("elr", "last_known_elr"):
        lists = rows[name].combine_chunks()
        before = groups.earlier(groups.latest(has_value(lists)))
        had_elr |= (before != NONE) & (lengths(lists)[before] > 0)
    counted = np.flatnonzero((is_there & (~clear | had_elr)) | gone)
    return rows.take(pa.array(counted)).combine_chunks(), groups.only(counted)


class _History:
    """The states after each of these rows, but for removals, which only end the states before them."""

    def __init__(self, rows: pa.Table, groups: Groups) -> None:
        assert groups.count == len(rows), (groups.count, len(rows))
        self._rows = rows
        self._groups = groups
        self._before = groups.before()
        kind = rows["type"]
        gone = pc.equal(kind, REMOVE).to_numpy()
        self._full = pc.equal(kind, FULL).to_numpy()
        self._leads = pc.equal(kind, CHANGE).to_numpy() & has_value(self._column("leader"))
        self._is_first = (self._before == NONE) | gone[self._before]
        self._states = np.flatnonzero(~gone)
        # An index of no row is to numpy that of the last one, a state of another partition.
        assert (groups.latest(self._full)[self._states] != NONE).all(), kind

    def table(self) -> pa.Table:
        """Returns the table, with the columns of SCHEMA."""
        columns = {name: self._of_states(self._column(name)) for name in ("cluster_id", "topic", *KEY)}
        columns["carries_leader"] = pa.array(self._leads[self._states])
        columns["is_first"] = pa.array(self._is_first[self._states])
        for name in STATE:
            if name == "directories":
                now, was = self._directories()
            elif name in ("leader_epoch", "partition_epoch"):
                now, was = self._epoch(name)
            else:
                now, was = self._field(name)
            columns |= {name: now, f"was_{name}": was}
        columns |= self._span()
        return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)

    def _column(self, name: str) -> pa.Array:
        return self._rows[name].combine_chunks()

    def _of_states(self, values: pa.Array) -> pa.Array:
        return values.take(pa.array(self._states))

    def _field(self, name: str) -> tuple[pa.Array, pa.Array]:
        """Returns a field's value in each state, and its value before, null if that is the same."""
        values = self._column(name)
        latest = self._groups.latest(has_value(values))
        was = self._groups.earlier(latest)
        stated = np.flatnonzero((latest != was) & ~self._is_first)
        if pa.types.is_list(values.type):
            differs = different_lists(values, latest[stated], was[stated])
        else:
            numbers = pc.fill_null(values, 0).to_numpy()
            differs = numbers[latest[stated]] != numbers[was[stated]]
        changed = np.full(len(latest), NONE)
        changed[stated[differs]] = was[stated[differs]]
        return taken(values, latest[self._states]), taken(values, changed[self._states])

    def _epoch(self, name: str) -> tuple[pa.Array, pa.Array]:
        """Returns the same for an epoch: the last full record states it, and each change that counts raises it."""
        raised = self._groups.cumulated(self._leads if name == "leader_epoch" else np.ones(self._groups.count, bool))
        stated = pc.fill_null(self._column(name), 0).to_numpy()
        latest = self._groups.latest(self._full)
        epochs = stated[latest] + raised - raised[latest]
        was = epochs[self._before]
        same = self._is_first | (epochs == was)
        kind = SCHEMA.field(name).type
        return pa.array(epochs[self._states], kind), pa.array(was[self._states], kind, mask=same[self._states])

    def _directories(self) -> tuple[pa.Array, pa.Array]:
        """Returns the same for the directories: one unknown directory for each replica if none is known. KIP-858."""
        directories, replicas = self._column("directories"), self._column("replicas")
        latest = self._groups.latest(has_value(directories))
        placed = self._groups.latest(has_value(replicas))
        known = np.zeros(len(directories), bool)
        sizes = lengths(directories)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        known[owners[pc.not_equal(directories.flatten(), _UNKNOWN).to_numpy(zero_copy_only=False)]] = True
        # Behind the lists that are stated is one of so many unknown directories for each number of replicas.
        most = int(lengths(replicas).max(initial=0))
        unknown = pa.array([[_UNKNOWN] * count for count in range(most + 1)], directories.type)
        every = pa.concat_arrays([directories, unknown])
        at = np.where(known[latest], latest, len(directories) + lengths(replicas)[placed])
        was = at[self._before]
        moved = np.flatnonzero((at != was) & ~self._is_first)
        moved = moved[different_lists(every, at[moved], was[moved])]
        changed = np.full(len(at), NONE)
        changed[moved] = was[moved]
        return every.take(pa.array(at[self._states])), taken(every, changed[self._states])

    def _span(self) -> dict[str, pa.Array]:
        """Returns the columns of validity: a state ends with the next row of its partition."""
        after = self._groups.after()[self._states]
        starts = {"valid_from_offset": "offset", "valid_from_time": "timestamp", "trace_id": "trace_id"}
        ends = {
            "valid_to_offset": "offset",
            "valid_to_time": "timestamp",
            "end_trace_id": "trace_id",
            "end_type": "type",
        }
        return {
            **{name: self._of_states(self._column(column)) for name, column in starts.items()},
            **{name: taken(self._column(column), after) for name, column in ends.items()},
        }
