"""Silver run again makes only what has something new, and comes to what it would be if it were made from nothing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraft import Message
from quorate.records import PartitionChangeRecord, RemoveTopicRecord
from tests.pipeline.logs import TOPIC_ID, batches, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)  # several runs of all of silver

GROWS, STAYS = "grows", "stays"


def lake(spark: SparkSession, place: Path) -> ParquetTables:
    from services.pipeline.tables import ParquetTables

    return ParquetTables(spark, str(place))


def run(spark: SparkSession, logs: Path, tables: ParquetTables) -> None:
    """Ingest and silver, as the jobs do."""
    from services.pipeline import bronze
    from services.pipeline.silver import image

    bronze.ingest(spark.read.format("kraft").load(str(logs)), tables)
    records = tables.read(bronze.RECORDS)
    assert records is not None
    image.build(records, None, tables)


def content(tables: ParquetTables) -> Mapping[str, list[str]]:
    """Every row of silver's tables, in order."""
    from services.pipeline.silver.image import HISTORIES

    found = {name: tables.read(f"silver/{name}") for name in ("events", "feature_history", *HISTORIES)}
    return {
        name: sorted(str(row.asDict()) for row in table.select(*sorted(table.columns)).collect())
        for name, table in found.items()
        if table is not None
    }


def files(place: Path, cluster: str) -> set[str]:
    """The files of a cluster's partitions in silver, by names that no two writes share."""
    found = (place / "silver").rglob(f"cluster_id={cluster}/*.parquet")
    return {path.name for path in found if "progress" not in path.parts}


def write_logs(place: Path) -> Path:
    """A log of two clusters: a topic that was made, and changed four times."""
    for name in (GROWS, STAYS):
        segment(node(place / name, name), batches(history(4)))
    return place


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return write_logs(tmp_path / "logs")


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a first run, for all tests."""
    top = tmp_path_factory.mktemp("first")
    run(spark, write_logs(top / "logs"), lake(spark, top / "lake"))
    return top / "lake"


@pytest.fixture
def tables(spark: SparkSession, first: Path, tmp_path: Path) -> ParquetTables:
    """A copy of them."""
    shutil.copytree(first, tmp_path / "lake")
    return lake(spark, tmp_path / "lake")


def partition(logs: Path) -> Path:
    return logs / GROWS / "__cluster_metadata-0"


def test_a_cluster_that_has_grown_is_made_again_and_no_other(
    spark: SparkSession, tables: ParquetTables, logs: Path, tmp_path: Path
) -> None:
    before = {name: files(tmp_path / "lake", name) for name in (GROWS, STAYS)}
    more: list[list[Message]] = [
        [PartitionChangeRecord(0, TOPIC_ID, isr=(2,), leader=2)],
        [RemoveTopicRecord(TOPIC_ID)],
    ]
    segment(partition(logs), batches(more, base_offset=6), 6)
    run(spark, logs, tables)
    anew = lake(spark, tmp_path / "anew")
    run(spark, logs, anew)

    assert content(anew) == content(tables)
    assert before[STAYS] == files(tmp_path / "lake", STAYS)
    assert not before[GROWS] & files(tmp_path / "lake", GROWS)


def test_nothing_is_made_where_nothing_is_new(
    spark: SparkSession, tables: ParquetTables, logs: Path, tmp_path: Path
) -> None:
    before = {name: files(tmp_path / "lake", name) for name in (GROWS, STAYS)}
    run(spark, logs, tables)

    assert before == {name: files(tmp_path / "lake", name) for name in (GROWS, STAYS)}


def test_a_tail_that_gave_way_is_in_no_history(
    spark: SparkSession, tables: ParquetTables, logs: Path, tmp_path: Path
) -> None:
    """Epoch 2 begins at offset 4: what epoch 1 had from there on has never been, and an increment would keep it."""
    other: list[list[Message]] = [*history(2), [PartitionChangeRecord(0, TOPIC_ID, isr=(2,), leader=2)]]
    rewritten = batches(other[:3]) + batches(other[3:], base_offset=4, epoch=2)
    (partition(logs) / f"{0:020d}.log").unlink()
    segment(partition(logs), rewritten)
    run(spark, logs, tables)
    (logs / STAYS).rename(tmp_path / STAYS)
    both = lake(spark, tmp_path / "anew")
    run(spark, logs, both)
    kept = {name: [row for row in rows if GROWS in row] for name, rows in content(tables).items()}

    assert content(both)["partition_history"] == kept["partition_history"]
    assert content(both)["events"] == kept["events"]
