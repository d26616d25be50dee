"""Spans: the intervals in which a partition's leader, its ISR's size and its min.insync.replicas did not change.

`conditions` says what offline, under min ISR and under-replicated mean. `min.insync.replicas` is the topic's, else its
leader's own, else the brokers' default (KIP-226), else an assumed value, as a broker's own file is not in the log.

Times are those of the records. A new active controller's clock may be behind; a timestamp earlier than one before it is
replaced by that one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import NO_LEADER, RECOVERED, RECOVERING
from services.pipeline.gold.conditions import is_offline, is_under_min_isr, is_under_replicated, wanted_counts
from services.pipeline.groups import NONE, Array, Groups, contained, has_value, lengths, taken
from services.pipeline.silver.present import MIN_ISR, MIN_ISR_DEFAULT
from services.pipeline.silver.stated import KEY, REMOVE
from services.pipeline.silver.validity import at_begin, at_end

__all__ = [
    "COLUMNS",
    "SCHEMA",
    "SpanSettings",
    "led_anew",
    "led_uncleanly",
    "settings",
    "spans_of",
]

COLUMNS: Final = (
    "topic",
    "leader",
    "isr",
    "elr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "leader_recovery_state",
    "is_first",
    "was_leader",
    "was_isr",
    "was_elr",
    "was_replicas",
    "was_adding_replicas",
    "was_removing_replicas",
    "was_leader_recovery_state",
    "valid_from_time",
    "valid_to_offset",
    "valid_to_time",
    "end_type",
)
"""The columns of a partition's states that spans are made of."""
_TIME: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    {
        "cluster_id": pa.string(),
        "topic": pa.string(),
        "topic_id": pa.string(),
        "partition_id": pa.int32(),
        "offset": pa.int64(),
        "timestamp": _TIME,
        "begin": _TIME,
        "end": _TIME,
        "leader": pa.int32(),
        "isr_count": pa.int32(),
        "replica_count": pa.int32(),
        "wanted_count": pa.int32(),
        "min_isr": pa.int32(),
        "min_isr_is_assumed": pa.bool_(),
        "offline": pa.bool_(),
        "under_min_isr": pa.bool_(),
        "short": pa.bool_(),
        "by_config": pa.bool_(),
        "led_anew": pa.bool_(),
        "unclean": pa.bool_(),
        "moves": pa.bool_(),
        "moved": pa.bool_(),
        "cancelled": pa.bool_(),
        "withdrawn": pa.bool_(),
        "is_last": pa.bool_(),
        "is_removed": pa.bool_(),
        "removed_offset": pa.int64(),
        "removed_time": _TIME,
    }
)
"""A span. `timestamp` is that of the record at its begin, which is later if a record before has a later one.

`by_config`: a change of the config began it. `is_last`: it holds at the log's end. `is_removed`: its topic's removal,
at `removed_offset`, ends it. `led_anew`: a leader was elected at its begin; `unclean`: that one may lack records.
At its begin a reassignment began (`moves`), ended with the new replicas (`moved`), or was `cancelled` (KIP-455); or a
replica was `withdrawn` from the ELR without joining the ISR (KIP-966).
"""
_CHANGES: Final = pa.schema(
    {
        "cluster_id": pa.string(),
        "topic": pa.string(),
        "broker_id": pa.int32(),
        "offset": pa.int64(),
        "time": _TIME,
        "min_isr": pa.int32(),
    }
)
_NOT_SET: Final = 0
_FOREVER: Final = (1 << 63) - 1
_STATE, _TOPIC, _LEADER, _DEFAULT = range(4)
"""The kinds of rows of _Merged: a state, or a change of the config of a topic, of a broker, or of all brokers."""


class SpanSettings(NamedTuple):
    """The input of spans besides the states: configs, the log's ends, and the min.insync.replicas that is assumed.

    `changes` are those of topics, `leaders` those of single brokers, which count where these lead and the topic has
    none, `defaults` those of all brokers' default, each with the new value, or 0 for none.
    """

    changes: pa.Table
    leaders: pa.Table
    defaults: pa.Table
    ends: pa.Table
    min_isr: int


def settings(configs: DataFrame, ends: DataFrame, *, min_isr: int = MIN_ISR_DEFAULT) -> SpanSettings:
    """Collects the settings: a row for each change of min.insync.replicas, and for each cluster's `log_end_time`."""
    rows = configs.where((fn.col("name") == MIN_ISR) & fn.col("resource_type").isin(TOPIC, BROKER))
    topic = fn.when(fn.col("resource_type") == TOPIC, fn.col("resource_name")).alias("topic")
    of_broker = (fn.col("resource_type") == BROKER) & (fn.col("resource_name") != "")
    broker = fn.when(of_broker, fn.col("resource_name").try_cast("int")).alias("broker_id")
    rows = rows.where(~of_broker | broker.isNotNull())
    value = fn.coalesce(fn.col("value").try_cast("int"), fn.lit(_NOT_SET))
    begun = at_begin(rows, topic, broker, value.alias("min_isr"))
    # The removal of a topic ends its configs, so a later topic of the same name starts without them.
    over = at_end(rows.where("valid_to_offset is not null"), topic, broker, fn.lit(_NOT_SET).alias("min_isr"))
    # If one value ends and another begins at the same offset, the new one counts.
    names = ("cluster_id", "topic", "broker_id", "offset", "time")
    both = begun.unionByName(over).groupBy(*names).agg(fn.max("min_isr").alias("min_isr"))
    every = both.toArrow().cast(_CHANGES)
    last = ends.select("cluster_id", "log_end_time").toArrow()
    of_topic, of_leader = every["topic"].is_valid(), every["broker_id"].is_valid()
    of_all = every.filter(pc.invert(pc.or_(of_topic, of_leader)))
    return SpanSettings(every.filter(of_topic), every.filter(of_leader), of_all, last, min_isr)


def spans_of(states: pa.Table, groups: Groups, given: SpanSettings) -> tuple[pa.Table, Groups]:
    """Returns the spans of states (SCHEMA), and their groups, as `groups` are those of the states: the partitions.

    A span is an interval in which leader, ISR size and min.insync.replicas do not change.
    """
    merged = _Merged(states, groups, given)
    found = merged.table()
    assert merged.groups.count == len(found), (merged.groups.count, len(found))
    return found, merged.groups


def led_anew(states: pa.Table) -> Array:
    """Returns for each state of a partition whether it begins with a new leader, after another one or after none."""
    moved, leader = has_value(_column(states, "was_leader")), _numbers(states, "leader")
    return moved & ~is_offline(leader) & ~_flags(states, "is_first")


def led_uncleanly(states: pa.Table) -> Array:
    """Returns for each state of a partition whether it begins with an unclean election.

    The rule is that of `quorate.metadata.partitions.led_uncleanly`, which says why: the leader recovery state becomes
    RECOVERING, or a new leader was neither in the ISR nor in the ELR, and the replicas are the same as before.
    """
    recovers = _numbers(states, "leader_recovery_state") == RECOVERING
    recovers &= _numbers(states, "was_leader_recovery_state", otherwise=RECOVERING) == RECOVERED
    at = np.flatnonzero(led_anew(states))
    some = states.take(pa.array(at))
    leader = _numbers(some, "leader")
    was_in = contained(_before(some, "isr"), leader) | contained(_before(some, "elr"), leader)
    moved = has_value(_column(some, "was_replicas"))
    moved[moved] = [
        sorted(row["replicas"]) != sorted(row["was_replicas"])
        for row in some.select(["replicas", "was_replicas"]).filter(pa.array(moved)).to_pylist()
    ]
    recovers[at] |= ~was_in & ~moved
    return recovers


def _reassigned(states: pa.Table) -> dict[str, Array]:
    """Returns whether a reassignment began with each state, ended, or was cancelled. KIP-455.

    Another target while one is under way is the begin of another reassignment. One that has ended has none of the
    replicas that it was to remove, and all that it was to add.
    """
    found = {name: np.zeros(len(states), bool) for name in ("moves", "moved", "cancelled")}
    names = ("adding_replicas", "removing_replicas")
    # A reassignment to members of the ISR alone begins and ends with one record.
    changed = np.logical_or.reduce([has_value(_column(states, f"was_{name}")) for name in ("replicas", *names)])
    at = np.flatnonzero(changed & ~_flags(states, "is_first"))
    some = states.take(pa.array(at))
    before = [_before(some, name).to_pylist() for name in names]
    for row, state, *was in zip(at, some.select(["replicas", *names]).to_pylist(), *before, strict=True):
        adding, removing = map(set, was)
        if state["adding_replicas"] or state["removing_replicas"]:
            found["moves"][row] = True
        elif adding <= set(state["replicas"]) and not removing & set(state["replicas"]):
            found["moved"][row] = True
        else:
            found["cancelled"][row] = True
    return found


def _withdrawn(states: pa.Table) -> Array:
    """Returns whether a replica left the ELR with each state, though it is still one and not in the ISR. KIP-966.

    It restarted uncleanly, or min.insync.replicas was changed. A larger ISR that leaves no need for an ELR is no loss.
    """
    found = np.zeros(len(states), bool)
    at = np.flatnonzero(has_value(_column(states, "was_elr")) & ~_flags(states, "is_first"))
    some = states.take(pa.array(at))
    before = _before(some, "elr").to_pylist(), _before(some, "isr").to_pylist()
    for row, state, elr, isr in zip(at, some.select(["replicas", "isr", "elr"]).to_pylist(), *before, strict=True):
        gone = set(elr) & set(state["replicas"]) - {*state["elr"], *state["isr"]}
        found[row] = bool(gone) and len(state["isr"]) <= len(isr)
    return found


class _Merged:
    """States and changes of their min.insync.replicas in one order, a row each."""

    def __init__(self, states: pa.Table, groups: Groups, given: SpanSettings) -> None:
        self._given = given
        self._states = states
        numbers = groups.numbers()
        changes = _concerned(states, groups, given)
        kind = np.repeat([_STATE, _TOPIC, _LEADER, _DEFAULT], [len(states), *map(len, changes)])
        number = np.concatenate([numbers, *(_of(each, "number") for each in changes)])
        offset = np.concatenate([_of(states, "valid_from_offset"), *(_of(each, "offset") for each in changes)])
        time = np.concatenate([_micros(states, "valid_from_time"), *(_micros(each, "time") for each in changes)])
        value = np.concatenate([np.zeros(len(states), np.int64), *(_of(each, "min_isr") for each in changes)])
        broker = np.concatenate([_numbers(states, "leader"), *(_numbers(each, "broker_id") for each in changes)])
        sizes = [*map(len, (kind, number, offset, time, value, broker))]
        assert len(set(sizes)) == 1, sizes  # a longer one would be cut by the order, and not be noticed
        # A base checkpoint has configs and partitions at one offset: there the configs are first.
        order = np.lexsort((kind == _STATE, offset, number))
        all_rows = Groups(number[order])
        kind, value, stamp, broker = kind[order], value[order], time[order], broker[order]
        time = all_rows.highest(stamp)
        is_state = kind == _STATE
        state_at = all_rows.latest(is_state)
        after = all_rows.after()
        shown = np.flatnonzero(state_at != NONE)
        ends = is_state.copy()
        # The states are the first rows of what was sorted.
        ends[is_state] = pc.equal(states["end_type"], REMOVE).fill_null(False).to_numpy()[order[is_state]]
        removed_at = all_rows.latest(ends)[shown]
        self.groups = all_rows.only(shown)
        self._source, self._offset = order[state_at[shown]], offset[order][shown]
        self._timestamp, self._begin = stamp[shown], time[shown]
        self._is_state = is_state[shown]
        assert np.count_nonzero(self._is_state) == len(states), (np.count_nonzero(self._is_state), len(states))
        self._next = after[shown]
        self._next_time = time[self._next]
        self._removed = np.where(removed_at == NONE, NONE, order[removed_at])
        leader = np.where(state_at == NONE, NO_LEADER, broker[state_at])
        self._min_isr = _set_or(_Changes(kind, value, broker), all_rows, leader, given.min_isr)[:, shown]

    def table(self) -> pa.Table:
        """Returns the table, with the columns of SCHEMA."""
        states, at = self._states, self._source
        leader, replicas = _numbers(states, "leader")[at], lengths(_column(states, "replicas"))[at]
        isr, wanted = lengths(_column(states, "isr"))[at], wanted_counts(states)[at]
        min_isr, is_assumed = self._min_isr
        is_end = self._next == NONE
        is_gone = self._removed != NONE
        columns = {name: _column(states, name).take(pa.array(at)) for name in ("cluster_id", "topic", *KEY)}
        columns |= {
            "offset": self._offset,
            "timestamp": self._timestamp,
            "begin": self._begin,
            "end": np.maximum(self._begin, self._ends(is_end, is_gone)),
            "leader": leader,
            "isr_count": isr,
            "replica_count": replicas,
            "wanted_count": wanted,
            "min_isr": min_isr,
            "min_isr_is_assumed": is_assumed.astype(bool),
            "offline": is_offline(leader),
            "under_min_isr": is_under_min_isr(leader, isr, replicas, min_isr),
            "short": is_under_replicated(isr, wanted),
            "by_config": ~self._is_state,
            "led_anew": self._is_state & led_anew(states)[at],
            **{name: self._is_state & flags[at] for name, flags in self._happened().items()},
            "is_last": is_end & ~is_gone,
            "is_removed": is_end & is_gone,
            "removed_offset": taken(_column(states, "valid_to_offset"), self._removed),
            "removed_time": taken(_column(states, "valid_to_time"), self._removed),
        }
        return pa.table([_typed(columns[field.name], field) for field in SCHEMA], schema=SCHEMA)

    def _happened(self) -> dict[str, Array]:
        """Returns what the record of each state did, by the column of SCHEMA."""
        unclean = led_uncleanly(self._states)
        withdrawn = _withdrawn(self._states) & ~unclean
        return {"unclean": unclean, **_reassigned(self._states), "withdrawn": withdrawn}

    def _ends(self, is_end: Array, is_gone: Array) -> Array:
        """Returns when each span ends: with the next row, the topic's removal, or the log."""
        removed_time = _micros(self._states, "valid_to_time")[self._removed]
        known = self._given.ends
        at = pc.index_in(_column(self._states, "cluster_id"), known["cluster_id"].combine_chunks()).to_numpy()
        log_end = _micros(known, "log_end_time")[at[self._source]]
        return np.where(is_end, np.where(is_gone, removed_time, log_end), self._next_time)


def _concerned(states: pa.Table, groups: Groups, given: SpanSettings) -> list[pa.Table]:
    """Returns the changes of the topics' configs, of brokers' own and of the default, a row for each partition of each.

    `number` is the partition's. A change before a partition was created counts, and none behind its end.
    """
    first, last = pa.array(np.flatnonzero(groups.first)), pa.array(np.flatnonzero(groups.last))
    there = states.select(["cluster_id", "topic"]).take(first)
    there = there.append_column("number", pa.array(np.arange(len(first))))
    there = there.append_column("gone", pc.fill_null(states["valid_to_offset"].take(last), _FOREVER))
    found = []
    of_cluster = [(each.drop_columns("topic"), ["cluster_id"]) for each in (given.leaders, given.defaults)]
    for changes, key in ((given.changes, ["cluster_id", "topic"]), *of_cluster):
        each = changes.join(there, key, join_type="inner", use_threads=False)
        found.append(each.filter(pc.less(each["offset"], each["gone"])))
    return found


class _Changes(NamedTuple):
    """Rows of _Merged: what each is, the min.insync.replicas that it sets, and for which broker if for one."""

    kind: Array
    value: Array
    broker: Array


def _set_or(changes: _Changes, groups: Groups, leader: Array, assumed: int) -> Array:
    """Returns after each row the topic's min.insync.replicas, or its leader's own, or the default, or `assumed`; and
    whether it is that.
    """
    kind, value, broker = changes
    found = np.full(len(value), _NOT_SET)
    brokers = np.unique(broker[kind == _LEADER])
    by_leader = [((kind == _LEADER) & (broker == each), leader == each) for each in brokers]
    everywhere = np.ones(len(value), bool)
    for sets, counts in ((kind == _DEFAULT, everywhere), *by_leader, (kind == _TOPIC, everywhere)):
        at = groups.latest(sets)
        is_set = counts & (at != NONE) & (value[at] != _NOT_SET)
        found = np.where(is_set, value[at], found)
    is_assumed = found == _NOT_SET
    return np.stack([np.where(is_assumed, assumed, found), is_assumed])


def _before(states: pa.Table, name: str) -> pa.Array:
    """Returns the list before each state."""
    return pc.coalesce(_column(states, f"was_{name}"), _column(states, name))


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].combine_chunks()


def _of(rows: pa.Table, name: str) -> Array:
    return rows[name].to_numpy()


def _numbers(rows: pa.Table, name: str, *, otherwise: int = NO_LEADER) -> Array:
    return pc.fill_null(rows[name], otherwise).to_numpy()


def _flags(rows: pa.Table, name: str) -> Array:
    return rows[name].to_numpy(zero_copy_only=False)


def _micros(rows: pa.Table, name: str) -> Array:
    """Returns times in µs since 1970; 0 for null."""
    return pc.fill_null(rows[name].cast(pa.int64()), 0).to_numpy()


def _typed(values: Array | pa.Array, field: pa.Field) -> pa.Array:
    found = values if isinstance(values, pa.Array) else pa.array(values)
    return found if found.type == field.type else found.cast(field.type)
