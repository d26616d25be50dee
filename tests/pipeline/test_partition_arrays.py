"""Histories of partitions as workers compute them, against a replay of one record after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

import pyarrow as pa

from kraft import Message
from quorate.metadata.partitions import NO_LEADER_CHANGE, Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, record_version
from quorate.nouns import uuid_text
from quorate.pipeline.json_text import writer
from quorate.records import FeatureLevelRecord, PartitionChangeRecord, PartitionRecord, TopicRecord
from quorate.wire.json_names import type_name
from services.pipeline.payloads import parsed_payloads
from services.pipeline.silver.partition_arrays import CHANGED, SCHEMA, histories
from services.pipeline.silver.stated import OF_PARTITIONS, OF_TOPICS, ROWS, STATE
from tests.metadata.histories import (
    change_partition,
    clear_elr,
    create_topic,
    feature_level,
    lay_down_partition,
    remove_topic,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.tables import Computed, ParquetTables

pytestmark = pytest.mark.timeout(1_800)

STEPS: Final = (
    feature_level,
    *(create_topic,) * 3,
    *(lay_down_partition,) * 6,
    *(change_partition,) * 12,
    remove_topic,
    *(clear_elr,) * 2,
)
SEEDS: Final = 40
RECORD_COUNT: Final = 200
NOON: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
TYPES: Final = pa.schema(
    {
        **dict.fromkeys(ROWS, pa.string()),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
)
Log = list[Message]


def logs(seeds: range) -> dict[str, Log]:
    """Logs by cluster; ELRs are enabled from the first record on in every second one."""
    found = {}
    for seed in seeds:
        chance = Random(seed)
        begin: Log = [FeatureLevelRecord("metadata.version", LATEST)] if seed % 2 else []
        begin += [FeatureLevelRecord("eligible.leader.replicas.version", 1)] if seed % 2 else []
        found[f"cluster={seed % 7} {seed}"] = begin + write(chance, RECORD_COUNT, STEPS)
    return found


def events(written: dict[str, Log]) -> list[dict[str, Any]]:
    """The records that histories are made of, as rows of `silver/events`."""
    return [
        {
            "cluster_id": cluster_id,
            "offset": offset,
            "timestamp": at(offset),
            "type": type_name(type(record)),
            "trace_id": trace_of(offset),
            "payload": writer(type(record), record_version(record, LATEST))(record),
        }
        for cluster_id, log in written.items()
        for offset, record in enumerate(log)
        if type_name(type(record)) in (*OF_PARTITIONS, *OF_TOPICS)
    ]


def at(offset: int) -> datetime:
    return NOON + timedelta(seconds=offset)


def trace_of(offset: int) -> str | None:
    """Some requests are traced."""
    return None if offset % 3 else f"trace-{offset}"


@dataclass(slots=True)
class Walk:
    """The rows of one log, as they come about record by record."""

    cluster_id: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    state: ClusterState = field(default_factory=ClusterState)
    held: dict[tuple[str, int], tuple[Partition, dict[str, Any]]] = field(default_factory=dict)

    def take(self, offset: int, record: Message) -> None:
        """Apply a record, and note what states of partitions it begins and ends."""
        self.state.apply(record, offset)
        now = {
            (uuid_text(topic.id), number): (topic.name, partition)
            for topic in self.state.topics
            for number, partition in topic.partitions.items()
        }
        about = None
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            about = uuid_text(record.topic_id), record.partition_id
        ended = {"valid_to_offset": offset, "valid_to_time": at(offset), "end_trace_id": trace_of(offset)}
        for key in [key for key in self.held if key not in now or key == about or self.held[key][0] != now[key][1]]:
            self.held[key][1].update(ended, end_type=type_name(type(record)))
            if key not in now:
                del self.held[key]
        for key, (topic, partition) in now.items():
            before, row = self.held.get(key, (None, None))
            if row is None or "valid_to_offset" in row:
                begun = self._row(topic, key, before, partition)
                begun |= {"valid_from_offset": offset, "valid_from_time": at(offset), "trace_id": trace_of(offset)}
                begun["carries_leader"] = (
                    isinstance(record, PartitionChangeRecord) and record.leader != NO_LEADER_CHANGE
                )
                self.held[key] = partition, begun
                self.rows.append(begun)

    def _row(self, topic: str, key: tuple[str, int], before: Partition | None, now: Partition) -> dict[str, Any]:
        shown, was = shown_of(now), None if before is None else shown_of(before)
        changed = {name: was[name] if was and was[name] != shown[name] else None for name in CHANGED}
        return {
            "cluster_id": self.cluster_id,
            "topic": topic,
            "topic_id": key[0],
            "partition_id": key[1],
            **shown,
            **{f"was_{name}": value for name, value in changed.items()},
            "is_first": before is None,
        }


def shown_of(partition: Partition) -> dict[str, Any]:
    """A partition as the columns of STATE."""
    values = {name: getattr(partition, name) for name in STATE}
    values["directories"] = tuple(map(uuid_text, partition.directories))
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def walked(written: dict[str, Log]) -> list[dict[str, Any]]:
    rows = []
    for cluster_id, log in written.items():
        walk = Walk(cluster_id)
        for offset, record in enumerate(log):
            walk.take(offset, record)
        rows += walk.rows
    return [{name: row.get(name) for name in SCHEMA.names} for row in rows]


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    key = ("cluster_id", "topic_id", "partition_id", "valid_from_offset")
    return sorted(rows, key=lambda row: tuple(row[name] for name in key))


def test_every_state_of_every_partition_is_the_replayed_one() -> None:
    written = logs(range(SEEDS))
    rows = events(written)
    Random(1).shuffle(rows)
    found = histories(pa.Table.from_pylist(rows, TYPES))
    expected = walked(written)

    assert ordered(expected) == ordered(found.to_pylist())
    for name in ("was_directories", "was_elr", "was_leader_epoch", "end_trace_id", "valid_to_offset"):
        assert any(row[name] is not None for row in expected), name
    ends = {row["end_type"] for row in expected}
    assert {None, "REMOVE_TOPIC_RECORD", "CLEAR_ELR_RECORD", *OF_PARTITIONS} == ends


def test_the_states_of_a_partition_are_together_and_in_order() -> None:
    rows = events(logs(range(7)))
    Random(2).shuffle(rows)
    found = histories(pa.Table.from_pylist(rows, TYPES)).to_pylist()
    keys = [(row["cluster_id"], row["topic_id"], row["partition_id"]) for row in found]
    begun = [key for at, key in enumerate(keys) if at == 0 or keys[at - 1] != key]

    assert len(set(keys)) == len(begun)
    assert all(
        row["valid_from_offset"] > found[number]["valid_from_offset"]
        for number, row in enumerate(found[1:])
        if keys[number] == keys[number + 1]
    )


def test_records_of_partitions_that_do_not_exist_are_ignored() -> None:
    rows = [row for row in events(logs(range(3))) if row["type"] != "PARTITION_RECORD"]

    assert rows
    assert 0 == len(histories(pa.Table.from_pylist(rows, TYPES)))
    assert SCHEMA == histories(TYPES.empty_table()).schema


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (None, "1 of 2 payloads of TOPIC_RECORD are null"),
        ('{"name": "a"} {"name": "b"}', "2 payloads of TOPIC_RECORD are 3 JSON objects"),
        ('{"name": "a"', "JSON parse error"),
        ("", "2 payloads of TOPIC_RECORD are 1 JSON objects"),
    ],
)
def test_a_payload_that_is_no_records_json_is_an_error(payload: str | None, says: str) -> None:
    whole = '{"name": "whole", "topicId": "x"}'
    with pytest.raises(ValueError, match=says):
        parsed_payloads(pa.array([whole, payload]), TopicRecord)


@pytest.fixture
def computed(spark: SparkSession) -> Computed:
    """The histories of several clusters in many tasks, so that a topic's partitions go to different ones."""
    from services.pipeline.silver.partitions import partition_history

    frame = spark.createDataFrame(pa.Table.from_pylist(events(logs(range(12))), TYPES))
    return partition_history(frame, frame, task_rows=150)


def tables(spark: SparkSession, place: str) -> Iterator[ParquetTables]:
    """Tables that workers write, and tables whose rows come from Spark, as those of an object store."""
    from services.pipeline.tables import ParquetTables

    class OnlyRows(ParquetTables):
        def inbox(self) -> None:
            return None

    yield ParquetTables(spark, f"{place}/files")
    yield OnlyRows(spark, f"{place}/rows")


def test_tables_get_the_same_rows_from_workers_and_from_spark(
    spark: SparkSession, computed: Computed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected = ordered(walked(logs(range(12))))
    place = tmp_path_factory.mktemp("tables")
    for each in tables(spark, str(place)):
        kept = each.keep("silver/partition_history", computed)

        assert sorted(SCHEMA.names) == sorted(kept.columns)
        assert expected == ordered([told(row.asDict(recursive=True)) for row in kept.collect()])

    assert not list(place.rglob(".inbox*"))
    assert {"partition_history"} == {path.name for path in (place / "files" / "silver").iterdir()}


def told(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Spark's as the walk has it: its times know their zone."""
    times = {name: row[name] and row[name].replace(tzinfo=UTC) for name in ("valid_from_time", "valid_to_time")}
    return {name: {**row, **times}[name] for name in SCHEMA.names}


def test_clusters_that_are_computed_again_replace_their_own_rows_only(
    spark: SparkSession, computed: Computed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from services.pipeline.silver.partitions import partition_history

    again = logs(range(3, 4))
    (cluster_id,) = again
    half = {cluster_id: again[cluster_id][: RECORD_COUNT // 2]}
    frame = spark.createDataFrame(pa.Table.from_pylist(events(half), TYPES))
    expected = [row for row in walked(logs(range(12))) if row["cluster_id"] != cluster_id] + walked(half)
    for each in tables(spark, str(tmp_path_factory.mktemp("tables"))):
        each.keep("silver/partition_history", computed)
        found = each.replace("silver/partition_history", partition_history(frame, frame))

        assert ordered(expected) == ordered([told(row.asDict(recursive=True)) for row in found.collect()])


def test_a_table_without_a_row_has_its_columns(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    from services.pipeline.silver.partitions import partition_history

    frame = spark.createDataFrame(TYPES.empty_table())
    for each in tables(spark, str(tmp_path_factory.mktemp("tables"))):
        kept = each.keep("silver/partition_history", partition_history(frame, frame))

        assert sorted(SCHEMA.names) == sorted(kept.columns)
        assert [] == kept.collect()
