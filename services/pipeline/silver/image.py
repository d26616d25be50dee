"""The state as of any offset: all histories as rows of one table, each a record that would rebuild its part.

kind, key    what it is and which
type, value  the record, in its newest version, as JSON
raw          the bytes of a record that nobody knows
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as fn

from kraft import Message
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset
from quorate.pipeline.json_text import from_document, json_name, type_name
from quorate.records import (
    RECORDS,
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
)
from quorate.wire.schema import layout_of
from services.pipeline.silver import progress, write_path
from services.pipeline.silver.brokers import broker_history
from services.pipeline.silver.events import events
from services.pipeline.silver.kept import UNKNOWN_KIND, feature_history, kept_history, voter_history
from services.pipeline.silver.partitions import partition_history
from services.pipeline.silver.topics import config_history, topic_history
from services.pipeline.tables import Keeping, Replacing, Tables

__all__ = ["HISTORIES", "QUORUM_KINDS", "SILVER", "build", "histories", "image_history", "state_of"]

SILVER: Final = "silver"
EVENTS: Final = "events"
HISTORIES: Final = ("topic_history", "partition_history", "config_history", "broker_history", "kept_history")
QUORUM_KINDS: Final = ("voters", "kraft_version")
"""What the quorum keeps and the controllers' state does not have."""
_PLACES: Final = ("feature", "zk_migration_state", "broker", "controller", "topic", "partition")
"""What is loaded first, in order; the rest follows."""
_BY_TYPE: Final = {type_name(record): record for record in RECORDS.values()}
_SPAN: Final = ("valid_from_offset", "valid_to_offset")
MOST: Final = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD", "NO_OP_RECORD")
"""The records that logs consist of; only partitions are made of them."""
_COLUMNS: Final = ("cluster_id", "kind", "key", "type", "value", "raw", *_SPAN)


def build(records: DataFrame, snapshots: DataFrame | None, tables: Tables) -> dict[str, DataFrame]:
    """Silver from bronze: the events that count, every history, and what has a table for people's sake.

    Made are the clusters of which bronze has something new, and all if one of these has not only grown (`progress`).
    """
    now, before = progress.bronze_sums(records, snapshots), progress.marks(tables)
    stale = sorted(name for name, found in now.items() if name not in before or before[name].bronze != found)
    gone = before.keys() - now.keys()
    if stale or gone or not before:
        some = _of(records, stale), None if snapshots is None else _of(snapshots, stale)
        known = {name: before[name] for name in stale if name in before}
        if before and not gone and progress.has_only_grown(events(*some), known):
            counted = _make(*some, Replacing(tables, stale))
        else:
            progress.note(records.sparkSession, tables, {})  # nobody goes on from what is half made
            counted, before, stale = _make(records, snapshots, tables), {}, sorted(now)
        ends = progress.event_marks(counted)
        made = {name: progress.Mark(now[name], *ends.get(name, progress.NOTHING)) for name in stale}
        progress.note(records.sparkSession, tables, {**before, **made})
    there = {name: _read(tables, name) for name in HISTORIES}
    return there | write_path.build(_read(tables, EVENTS), tables)


def _make(records: DataFrame, snapshots: DataFrame | None, tables: Keeping) -> DataFrame:
    """Write it all; the answer is the events."""
    counted = tables.keep(f"{SILVER}/{EVENTS}", events(records, snapshots))
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
    """Every history by its name, written to the tables below `layer`.

    Each is written before the next is asked for: plans stay small, and what several need is made once. Nearly all
    records are changes of partitions; the rest is read once, and kept for the other histories.
    """
    rest = counted.where(~fn.col("type").isin(*MOST)).persist()
    try:
        topics = tables.keep(f"{layer}/topic_history", topic_history(rest))
        made = {
            "partition_history": partition_history(counted, topics),
            "config_history": config_history(rest, topics),
            "broker_history": broker_history(rest),
            "kept_history": kept_history(rest),
        }
        kept = {name: tables.keep(f"{layer}/{name}", rows) for name, rows in made.items()}
    finally:
        rest.unpersist()
    return {"topic_history": topics, **kept}


def image_history(tables: Mapping[str, DataFrame]) -> DataFrame:
    """All histories as one: `as_of` of it is a whole state."""
    partitions = _rows(
        tables["partition_history"],
        "partition",
        PartitionRecord,
        ("topic_id", "partition_id"),
        {"elr": "eligibleLeaderReplicas", "last_known_elr": "lastKnownElr"},
    )
    topics = _rows(tables["topic_history"], "topic", TopicRecord, ("topic_id",))
    configs = _rows(tables["config_history"], "config", ConfigRecord, ("resource_type", "resource_name", "name"))
    brokers = _rows(tables["broker_history"], "broker", RegisterBrokerRecord, ("broker_id",))
    kept = tables["kept_history"].withColumn("value", fn.col("payload")).select(*_COLUMNS)
    return kept.unionByName(partitions).unionByName(topics).unionByName(configs).unionByName(brokers)


def state_of(rows: Iterable[Row], offset: Offset) -> ClusterState:
    """The state that the rows of an image at `offset` say. Raises ReplayFault for rows that are no state."""
    state = ClusterState()
    state.load(_records(rows), offset)
    return state


def _records(rows: Iterable[Row]) -> Iterator[Message]:
    places = {kind: place for place, kind in enumerate(_PLACES)}
    kept = [row for row in rows if row["kind"] not in QUORUM_KINDS]
    for row in sorted(kept, key=lambda row: (places.get(row["kind"], len(places)), row["valid_from_offset"])):
        if row["kind"] == UNKNOWN_KIND:
            yield decode_record(bytes(row["raw"]))
        else:
            record = _BY_TYPE[row["type"]]
            yield from_document(record, layout_of(record).last_version, json.loads(row["value"]))


def _rows(
    history: DataFrame, kind: str, record: type[Message], key: tuple[str, ...], renamed: Mapping[str, str] | None = None
) -> DataFrame:
    """A history's rows as records of this class: columns are fields of the same name, or as `renamed`."""
    known = set(history.columns)
    columns = {json_field: column for column, json_field in (renamed or {}).items()}
    fields: list[Column] = []
    for field in layout_of(record).fields:
        name = json_name(field.name)
        column = columns.get(name, field.name)
        assert column in known, (record, column, known)
        fields.append(fn.col(column).alias(name))
    options: dict[str, Any] = {"ignoreNullFields": "false"}  # Any: the stubs' word for it
    return history.select(
        "cluster_id",
        fn.lit(kind).alias("kind"),
        fn.to_json(fn.struct(*key)).alias("key"),
        fn.lit(type_name(record)).alias("type"),
        fn.to_json(fn.struct(*fields), options).alias("value"),
        fn.lit(None).cast("binary").alias("raw"),
        *_SPAN,
    )
