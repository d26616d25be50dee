"""Rows of gold from states that workers read from files, and from states that Spark shuffles: they are the same."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

import pyarrow as pa

from tests.pipeline.test_partition_arrays import NOON, TYPES, events, logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from services.pipeline.gold.states import States
    from services.pipeline.tables import ParquetTables, Rows

pytestmark = pytest.mark.timeout(1_800)

NAME = "silver/partition_history"
LOGS = logs(range(9))


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    """Tables with the histories of clusters whose ids Spark escapes in the names of directories."""
    from services.pipeline.silver.partitions import partition_history
    from services.pipeline.tables import ParquetTables

    found = ParquetTables(spark, str(tmp_path_factory.mktemp("states")))
    frame = spark.createDataFrame(pa.Table.from_pylist(events(LOGS), TYPES))
    found.keep(NAME, partition_history(frame, frame, task_rows=300))
    return found


@pytest.fixture(scope="module")
def history(tables: ParquetTables) -> DataFrame:
    found = tables.read(NAME)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def both(tables: ParquetTables, history: DataFrame) -> tuple[States, States]:
    """The same states, from files and from Spark."""
    from services.pipeline.gold.states import States

    return States(history, tables.files(NAME)), States(history)


def test_each_file_is_of_the_cluster_that_its_directory_names(tables: ParquetTables) -> None:
    files = tables.files(NAME)

    assert files is not None
    assert len(files) > len(LOGS)
    assert set(LOGS) == {file.cluster_id for file in files}


def test_sentences_of_files_are_those_of_shuffled_rows_and_others_are_kept_with_them(
    spark: SparkSession, tables: ParquetTables, both: tuple[States, States], history: DataFrame
) -> None:
    from services.pipeline.gold.partition_sentences import COLUMNS, SCHEMA, sentences
    from services.pipeline.tables import Computed, frame_of

    other = {"cluster_id": "else", "offset": 7, "time": NOON, "subject": "s", "sentence": "s changes", "trace_id": None}
    beside = spark.createDataFrame(pa.Table.from_pylist([other], SCHEMA))
    no_base = pa.table({"cluster_id": pa.array([], pa.string()), "offset": pa.array([], pa.int64())})

    def told(rows: Rows) -> list[dict[str, object]]:
        return sorted(frame_of(rows).select(*SCHEMA.names).toArrow().to_pylist(), key=repr)

    def of(states: States) -> list[Computed]:
        own = states.computed(COLUMNS, lambda rows, _: sentences(rows, no_base), SCHEMA)
        others = Computed(
            beside, lambda batches: (pa.Table.from_batches([each]).cast(SCHEMA) for each in batches), SCHEMA
        )
        return [own, others]

    found = told(of(both[0]))

    assert found == told(of(both[1]))
    assert found == told(tables.keep("gold/sentences", of(both[0])))
    assert [other] == [row for row in found if row["cluster_id"] == "else"]
    assert 1 + history.count() == len(found)


def test_spans_of_files_are_those_of_shuffled_rows(spark: SparkSession, both: tuple[States, States]) -> None:
    from pyspark.sql import functions as fn

    from services.pipeline.gold.past import partitions_told, turning_spans
    from services.pipeline.gold.spans import COLUMNS, SCHEMA, settings, spans_of

    name = next(iter(LOGS))
    config = (name, 2, "payments", "min.insync.replicas", "2", 40, NOON.replace(tzinfo=None), None, None)
    columns = "valid_from_offset bigint, valid_from_time timestamp, valid_to_offset bigint, valid_to_time timestamp"
    key = "cluster_id string, resource_type int, resource_name string, name string, value string"
    configs = spark.createDataFrame([config], f"{key}, {columns}")
    last = [(each, NOON.replace(tzinfo=None, year=2027)) for each in LOGS]
    given = settings(configs, spark.createDataFrame(last, "cluster_id string, log_end_time timestamp"))

    def every(states: States) -> DataFrame:
        return states.computed(COLUMNS, lambda rows, groups: spans_of(rows, groups, given)[0], SCHEMA).frame()

    def told(states: States) -> DataFrame:
        """A topic has a row from each file with partitions of it; the first of them counts."""
        rows = partitions_told(states, given)
        return rows.groupBy("cluster_id", "kind", "type", "value").agg(fn.min(fn.struct("at_offset", "at_ms")))

    for of in (every, lambda states: turning_spans(states, given), told):
        found, shuffled = (sorted(of(each).collect(), key=repr) for each in both)

        assert found == shuffled != []
    assert any(row["by_config"] for row in every(both[0]).collect())


def test_since_when_something_has_held_is_found_as_by_a_walk() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    import numpy as np

    from services.pipeline.groups import NONE, Groups

    chance = Random(5)
    for _ in range(200):
        keys = sorted(chance.choices(range(5), k=chance.randrange(1, 20)))
        holds = [chance.random() < 0.7 for _ in keys]
        expected = []
        for key in dict.fromkeys(keys):
            since = NONE
            for at in (at for at, each in enumerate(keys) if each == key):
                since = (at if since == NONE else since) if holds[at] else NONE
            expected.append(since)

        assert expected == Groups(np.array(keys)).since(np.array(holds)).tolist()
