"""The cluster image: all histories as one table, from which the state as of any offset is selected.

kind, key    what the row describes, and which one
type, value  the record that would restore it, in its newest version, as JSON
raw          the bytes of an unknown record
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kraft import Message
from quorate.pipeline.json_text import from_document
from quorate.records import (
    RECORDS,
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
)
from quorate.wire.json_names import json_name, type_name
from quorate.wire.schema import layout_of
from services.pipeline.bronze import Known, divided, known
from services.pipeline.memory import kept
from services.pipeline.silver import progress, write_path
from services.pipeline.silver.brokers import broker_history
from services.pipeline.silver.events import events, events_of
from services.pipeline.silver.kept import UNKNOWN_KIND, feature_history, kept_history, voter_history
from services.pipeline.silver.partitions import partition_history
from services.pipeline.silver.topics import config_history, topic_history
from services.pipeline.tables import Keeping, Replacing, Rows, Tables

__all__ = [
    "DEPOSED",
    "HISTORIES",
    "PLACES",
    "SILVER",
    "UNKNOWN_KIND",
    "build",
    "histories",
    "image_history",
    "image_rows",
    "other_rows",
    "record_of",
]

SILVER: Final = "silver"
EVENTS: Final = "events"
DEPOSED: Final = "deposed"
"""Records that are known to be uncommitted: a leader appended them, and later leaders never had them."""
HISTORIES: Final = ("topic_history", "partition_history", "config_history", "broker_history", "kept_history")
PLACES: Final = ("feature", "zk_migration_state", "broker", "controller", "topic", "partition")
"""Kinds of state whose records are loaded first, in this order; all others follow."""
_BY_TYPE: Final = {type_name(record): record for record in RECORDS.values()}
_SPAN: Final = ("valid_from_offset", "valid_to_offset")
MOST: Final = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "NO_OP_RECORD")
"""The most frequent record types; apart from partitions no history needs them."""
_COLUMNS: Final = ("cluster_id", "kind", "key", "type", "value", "raw")


def build(records: DataFrame, snapshots: DataFrame | None, tables: Tables) -> dict[str, DataFrame]:
    """Builds silver from bronze: the events, every history, the tables for features and voters, and the write path.

    Only clusters with new rows in bronze are rebuilt; all are, if the old events of one of them have changed
    (`progress`).
    """
    committed = known(tables)
    now, before = progress.bronze_sums(records, snapshots, committed), progress.marks(tables)
    stale = sorted(name for name, found in now.items() if name not in before or before[name].bronze != found)
    gone = before.keys() - now.keys()
    if stale or gone or not before:
        some = _of(records, stale), None if snapshots is None else _of(snapshots, stale)
        marked = {name: before[name] for name in stale if name in before}
        if before and not gone and progress.has_only_grown(events(*some, committed), marked):
            counted = _make(*some, committed, Replacing(tables, stale))
        else:
            progress.note(records.sparkSession, tables, {})  # if killed now, everything is rebuilt
            counted, before, stale = _make(records, snapshots, committed, tables), {}, sorted(now)
        ends = progress.event_marks(counted)
        assert ends.keys() <= set(stale), (ends.keys(), stale)
        made = {name: progress.SilverProgress(now[name], *ends.get(name, progress.NOTHING)) for name in stale}
        progress.note(records.sparkSession, tables, {**before, **made})
    there = {name: _read(tables, name) for name in HISTORIES}
    return there | write_path.build(_read(tables, EVENTS), tables)


def _make(records: DataFrame, snapshots: DataFrame | None, committed: Known, tables: Keeping) -> DataFrame:
    """Writes the events, the deposed records and the histories of these clusters; returns the events."""
    found = divided(records, committed)
    counted = tables.keep(f"{SILVER}/{EVENTS}", events_of(found.settled, snapshots, committed))
    tables.keep(f"{SILVER}/{DEPOSED}", found.deposed)
    made = histories(counted, tables, SILVER)
    for name, of in (("feature_history", feature_history), ("voter_history", voter_history)):
        tables.keep(f"{SILVER}/{name}", of(made["kept_history"]))
    return counted


def _of(rows: DataFrame, clusters: Sequence[str]) -> DataFrame:
    return rows.where(fn.col("cluster_id").isin(list(clusters)))


def _read(tables: Tables, name: str) -> DataFrame:
    found = tables.read(f"{SILVER}/{name}")
    assert found is not None, f"{name} was just made"
    return found


def histories(counted: DataFrame, tables: Keeping, layer: str) -> dict[str, DataFrame]:
    """Builds every history and writes it to the tables below `layer`; returns them by name.

    Each table is written before the next is built, so that plans stay small and shared inputs are computed once. Nearly
    all records are partition changes; the others are read once and cached for the other histories.
    """
    with kept(counted.where(~fn.col("type").isin(*MOST))) as (rest,):
        topics = tables.keep(f"{layer}/topic_history", topic_history(rest))
        made: dict[str, Rows] = {
            "partition_history": partition_history(counted, rest),
            "config_history": config_history(rest, topics),
            "broker_history": broker_history(rest),
            "kept_history": kept_history(rest),
        }
        assert ("topic_history", *made) == HISTORIES, made.keys()
        written = {name: tables.keep(f"{layer}/{name}", rows) for name, rows in made.items()}
    return {"topic_history": topics, **written}


def image_history(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Combines all histories into one; `as_of` selects a complete state from it."""
    return image_rows(tables, _SPAN)


def image_rows(tables: Mapping[str, DataFrame], more: Sequence[str] = ()) -> DataFrame:
    """Combines these tables, of histories or of one state, into one, with a record as JSON (`value`) in each row.

    Its columns are `cluster_id`, `kind`, `key`, `type`, `value` and `raw`, and those of `more`, which all tables have.
    """
    partitions = _rows(
        tables["partition_history"],
        "partition",
        PartitionRecord,
        ("topic_id", "partition_id"),
        more,
        {"elr": "eligibleLeaderReplicas", "last_known_elr": "lastKnownElr"},
    )
    return other_rows(tables, more).unionByName(partitions)


def other_rows(tables: Mapping[str, DataFrame], more: Sequence[str] = ()) -> DataFrame:
    """Combines all these tables but that of partitions, of which there are most, into one (see `image_rows`)."""
    topics = _rows(tables["topic_history"], "topic", TopicRecord, ("topic_id",), more)
    configs = _rows(tables["config_history"], "config", ConfigRecord, ("resource_type", "resource_name", "name"), more)
    brokers = _rows(tables["broker_history"], "broker", RegisterBrokerRecord, ("broker_id",), more)
    kept = tables["kept_history"].withColumn("value", fn.col("payload")).select(*_COLUMNS, *more)
    return kept.unionByName(topics).unionByName(configs).unionByName(brokers)


def record_of(kind: str, type_: str, value: str, raw: bytes | None) -> Message:
    """Returns the record of a row of an image: of its JSON, or of its bytes if it is an unknown one."""
    if kind == UNKNOWN_KIND:
        assert raw is not None, (kind, type_)
        return decode_record(bytes(raw))
    record = _BY_TYPE[type_]
    return from_document(record, layout_of(record).last_version, json.loads(value))


def _rows(
    history: DataFrame,
    kind: str,
    record: type[Message],
    key: tuple[str, ...],
    more: Sequence[str],
    renamed: Mapping[str, str] | None = None,
) -> DataFrame:
    """Converts a history's rows to records of one class; each field is the column of its name, or as `renamed`."""
    known = set(history.columns)
    columns = {json_field: column for column, json_field in (renamed or {}).items()}
    fields: list[Column] = []
    for field in layout_of(record).fields:
        name = json_name(field.name)
        column = columns.get(name, field.name)
        assert column in known, (record, column, known)
        fields.append(fn.col(column).alias(name))
    options: dict[str, Any] = {"ignoreNullFields": "false"}  # Any, because pyspark's stubs declare it so
    return history.select(
        "cluster_id",
        fn.lit(kind).alias("kind"),
        fn.to_json(fn.struct(*key)).alias("key"),
        fn.lit(type_name(record)).alias("type"),
        fn.to_json(fn.struct(*fields), options).alias("value"),
        fn.lit(None).cast("binary").alias("raw"),
        *more,
    )
