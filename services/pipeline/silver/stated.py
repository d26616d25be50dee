"""Statements of records about partitions: a row for each record and each partition that it is about, in order.

A PartitionRecord states everything, a PartitionChangeRecord only what changes. The removal of a topic is about all
partitions of the topic that there are; a ClearElrRecord about those of one topic, or about all (KIP-966).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraft import Message
from quorate.metadata.partitions import RECOVERED
from quorate.records import ClearElrRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from quorate.wire.json_names import type_name
from services.pipeline.groups import Groups, grouped, has_value
from services.pipeline.payloads import parsed_payloads

__all__ = [
    "CHANGE",
    "CLEAR",
    "FULL",
    "KEY",
    "OF_PARTITIONS",
    "OF_TOPICS",
    "REMOVE",
    "ROWS",
    "STATE",
    "Stated",
    "stated",
]

KEY: Final = ("topic_id", "partition_id")
STATE: Final = (
    "replicas",
    "directories",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "elr",
    "last_known_elr",
    "leader",
    "leader_recovery_state",
    "leader_epoch",
    "partition_epoch",
)
FULL: Final = type_name(PartitionRecord)
CHANGE: Final = type_name(PartitionChangeRecord)
REMOVE: Final = type_name(RemoveTopicRecord)
CLEAR: Final = type_name(ClearElrRecord)
OF_PARTITIONS: Final = (FULL, CHANGE)
OF_TOPICS: Final = (type_name(TopicRecord), REMOVE, CLEAR)
"""Types of the records about topics that name partitions, or end a state of theirs."""
ROWS: Final = ("cluster_id", "offset", "timestamp", "type", "trace_id", "payload")
"""The columns of an event that are read."""
_AT: Final = ROWS[:-1]
_TOPIC: Final = ("cluster_id", "topic_id")
_JSON_FIELDS: Final = {
    "replicas": "replicas",
    "directories": "directories",
    "isr": "isr",
    "removing_replicas": "removingReplicas",
    "adding_replicas": "addingReplicas",
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
    "leader": "leader",
    "leader_recovery_state": "leaderRecoveryState",
    "leader_epoch": "leaderEpoch",
    "partition_epoch": "partitionEpoch",
}
"""The JSON field of a record for each column; null in a record that does not state it."""
_EMPTY: Final = ("directories", "elr", "last_known_elr")
"""Lists that a PartitionRecord leaves out if they are empty."""


class Stated(NamedTuple):
    """Rows with the columns of ROWS but for the payload, `topic` (null if no record names it), KEY and STATE.

    They are sorted by partition and offset; `groups` has the rows of each partition.
    """

    rows: pa.Table
    groups: Groups


def stated(events: pa.Table) -> Stated:
    """Returns what events (ROWS) state about partitions.

    Among them are the records of all topics of these partitions, and each ClearElrRecord of their clusters.
    """
    own = _of_partitions(events)
    names = _of(events, TopicRecord, topic_id="topicId", topic="name").select([*_TOPIC, "topic"])
    born = own.filter(pc.equal(own["type"], FULL)).group_by([*_TOPIC, "partition_id"], use_threads=False)
    there = born.aggregate([("offset", "min")]).rename_columns({"offset_min": "born"})
    there = there.append_column("topic", _named(there, names))
    every = pa.concat_tables([own, _removals(events, there), *_clearings(events, there)], promote_options="default")
    rows, groups = grouped(every.combine_chunks(), (*_TOPIC, "partition_id"), "offset")
    # Only the first row of a partition is looked up.
    topics = _named(rows.filter(pa.array(groups.first)), names).take(pa.array(np.cumsum(groups.first) - 1))
    return Stated(rows.append_column("topic", topics), groups)


def _of(events: pa.Table, record: type[Message], **fields: str) -> pa.Table:
    """Returns the records of one type: the columns _AT, and a column for each of the JSON fields."""
    found = events.filter(pc.equal(events["type"], type_name(record)))
    parsed = parsed_payloads(found["payload"].combine_chunks(), record)
    columns = {name: found[name] for name in _AT} | {name: parsed[field] for name, field in fields.items()}
    return pa.table(columns)


def _of_partitions(events: pa.Table) -> pa.Table:
    """Returns the partitions' own records; a field that a full PartitionRecord leaves out gets its default."""
    found = events.filter(pc.is_in(events["type"], pa.array(OF_PARTITIONS)))
    parsed = parsed_payloads(found["payload"].combine_chunks(), PartitionRecord, PartitionChangeRecord)
    full = pc.equal(found["type"], FULL)
    fields = {name: parsed[field] for name, field in _JSON_FIELDS.items()}
    for name in _EMPTY:
        fields[name] = _or_empty(fields[name].combine_chunks(), full)
    fields["leader_recovery_state"] = pc.if_else(
        full, pc.fill_null(fields["leader_recovery_state"], RECOVERED), fields["leader_recovery_state"]
    )
    keys = {"topic_id": parsed["topicId"], "partition_id": parsed["partitionId"]}
    return pa.table({**{name: found[name] for name in _AT}, **keys, **fields})


def _or_empty(lists: pa.Array, full: pa.ChunkedArray) -> pa.Array:
    """Returns the lists, and an empty one where a full record has none."""
    with_empty = pa.concat_arrays([lists, pa.array([[]], lists.type)])
    at = np.arange(len(lists))
    at[full.to_numpy() & ~has_value(lists)] = len(lists)
    return with_empty.take(pa.array(at))


def _removals(events: pa.Table, there: pa.Table) -> pa.Table:
    """Returns a removal row for each partition of a topic that is removed."""
    removed = _of(events, RemoveTopicRecord, topic_id="topicId")
    return _concerned(removed.join(there, list(_TOPIC), join_type="inner", use_threads=False))


def _clearings(events: pa.Table, there: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Returns a change row for each partition whose ELR is cleared: those of a named topic, or all of the cluster."""
    clears = _of(events, ClearElrRecord, topic="topicName")
    of_all = pc.equal(clears["topic"], "")
    one = clears.filter(pc.invert(of_all)).join(there, ["cluster_id", "topic"], join_type="inner", use_threads=False)
    every = clears.filter(of_all).drop_columns("topic")
    every = every.join(there, ["cluster_id"], join_type="inner", use_threads=False)
    found = []
    for rows in map(_concerned, (one, every)):
        nobody = pa.array([[]] * len(rows), pa.list_(pa.int32()))
        found.append(rows.append_column("elr", nobody).append_column("last_known_elr", nobody))
    return found[0], found[1]


def _concerned(rows: pa.Table) -> pa.Table:
    """Returns the rows of partitions that had been created before."""
    return rows.filter(pc.greater(rows["offset"], rows["born"])).select([*_AT, *KEY])


def _named(rows: pa.Table, names: pa.Table) -> pa.Array:
    """Returns the name of each row's topic, null if there is none."""
    keys = [pc.binary_join_element_wise(each["cluster_id"], each["topic_id"], "/") for each in (rows, names)]
    return names["topic"].combine_chunks().take(pc.index_in(keys[0].combine_chunks(), keys[1].combine_chunks()))
