"""ISR churn: counts for each broker and day the ISRs left and joined, leaderships won and lost, and fencings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from quorate.metadata.partitions import NO_LEADER
from services.pipeline.gold.states import States
from services.pipeline.groups import Array, Groups, codes, has_value, items
from services.pipeline.silver.validity import by_key
from services.pipeline.tables import TableFile

__all__ = ["COUNTS", "isr_churn"]

OF_PARTITIONS: Final = ("isr_shrinks", "isr_expands", "leaderships_gained", "leaderships_lost")
OF_BROKERS: Final = ("fenced", "unfenced")
COUNTS: Final = (*OF_PARTITIONS, *OF_BROKERS)
_COLUMNS: Final = ("valid_from_time", "leader", "was_leader", "isr", "was_isr")
_SCHEMA: Final = pa.schema(
    {
        "cluster_id": pa.string(),
        "date": pa.date32(),
        "broker_id": pa.int32(),
        **dict.fromkeys((*OF_PARTITIONS, "partitions"), pa.int64()),
    }
)
_DAY_US: Final = 86_400_000_000


def isr_churn(silver: Mapping[str, DataFrame], *, files: Sequence[TableFile] | None = None) -> DataFrame:
    """Computes one row a broker and day (UTC) with any change: the counts, and the number of partitions concerned.

    `files` are those of the partition histories, if workers may read them.
    """
    of_partitions = States(silver["partition_history"], files).computed(_COLUMNS, _of_partitions, _SCHEMA).frame()
    parts = of_partitions.unionByName(_of_brokers(silver["broker_history"]), allowMissingColumns=True)
    sums = [fn.coalesce(fn.sum(name), fn.lit(0)).alias(name) for name in (*COUNTS, "partitions")]
    return parts.groupBy("cluster_id", "date", "broker_id").agg(*sums)


def _of_partitions(states: pa.Table, groups: Groups) -> pa.Table:
    """Returns the counts of these partitions, all whose states are there."""
    row, broker, what = _effects(states)
    day = states["valid_from_time"].cast(pa.int64()).to_numpy()[row] // _DAY_US
    partition = groups.numbers()[row]
    # A cell is a cluster, a day and a broker; each has a row of the result.
    since, broker_code = day.min(initial=0), codes(pa.chunked_array([broker]))
    days, brokers = (int(each.max(initial=0)) + 1 for each in (day - since, broker_code))
    key = (codes(states["cluster_id"])[row] * days + day - since) * brokers + broker_code
    _, at, cell = np.unique(key, return_index=True, return_inverse=True)
    partitions = int(partition.max(initial=0)) + 1
    concerned = np.unique(cell * partitions + partition) // partitions
    counts = {name: _counts(cell[what == number], at) for number, name in enumerate(OF_PARTITIONS)}
    told = sum(pc.sum(each).as_py() or 0 for each in counts.values())
    assert told == len(row), (told, len(row))
    columns = {
        "cluster_id": states["cluster_id"].take(pa.array(row[at])),
        "date": pa.array(day[at].astype(np.int32), pa.date32()),
        "broker_id": pa.array(broker[at], pa.int32()),
        **counts,
        "partitions": _counts(concerned, at),
    }
    return pa.table(columns, schema=_SCHEMA)


def _effects(states: pa.Table) -> tuple[Array, Array, Array]:
    """Returns for each effect of a state on a broker the index of the state, the broker, and what it is."""
    isr, was_isr = (states[name].combine_chunks() for name in ("isr", "was_isr"))
    changed = np.flatnonzero(has_value(was_isr))
    was, now = (each.take(pa.array(changed)) for each in (was_isr, isr))
    left, joined = _except(was, now), _except(now, was)
    leader, was_leader = (pc.fill_null(states[name], NO_LEADER).to_numpy() for name in ("leader", "was_leader"))
    won = np.flatnonzero(has_value(states["was_leader"].combine_chunks()) & (leader != NO_LEADER))
    lost = np.flatnonzero(was_leader != NO_LEADER)
    rows = [changed[left[0]], changed[joined[0]], won, lost]
    brokers = [left[1], joined[1], leader[won], was_leader[lost]]
    what = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    return np.concatenate(rows), np.concatenate(brokers), what


def _except(lists: pa.Array, others: pa.Array) -> tuple[Array, Array]:
    """Returns the items of each list that are not in the other of the same index: the list's index, and the item."""
    (owners, values), (other_owners, other_values) = items(lists), items(others)
    keys, known = (
        (at << 32) | number.astype(np.int64) for at, number in ((owners, values), (other_owners, other_values))
    )
    gone = ~pc.is_in(pa.array(keys), pa.array(known)).to_numpy(zero_copy_only=False)
    return owners[gone], values[gone]


def _counts(cells: Array, all_cells: Array) -> pa.Array:
    return pa.array(np.bincount(cells, minlength=len(all_cells)))


def _of_brokers(history: DataFrame) -> DataFrame:
    # A new registration over one that was not fenced counts as a fencing too: the broker restarted before it was
    # fenced.
    order = by_key(("broker_id",), "valid_from_offset")
    follows = fn.lag("valid_to_offset").over(order) == fn.col("valid_from_offset")
    rows = history.withColumn("was_fenced", fn.when(follows, fn.lag("fenced").over(order)))
    changed = rows.where(fn.col("fenced") != fn.col("was_fenced"))
    counts = [(fn.col("fenced") == (name == "fenced")).cast("bigint").alias(name) for name in OF_BROKERS]
    return changed.select("cluster_id", fn.to_date("valid_from_time").alias("date"), "broker_id", *counts)
