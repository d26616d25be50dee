"""Files to bronze by the workers' own Parquet files: the same rows as through the JVM, each once, also after a kill."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quorate.nouns import OffsetAndEpoch
from tests.pipeline.logs import batches, checkpoint, flipped, history, node, segment
from tests.pipeline.test_committed import DIVERGED

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed: `make spark-setup`")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = pytest.mark.timeout(1_800)

DAY_MS = 86_400_000
YEAR_10_000_MS = 253_402_300_800_000


def ingested(spark: SparkSession, logs: Path, lake: Path) -> ParquetTables:
    """Tables that the workers have written."""
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    tables = ParquetTables(spark, str(lake))
    bronze.ingest_files(spark, {"path": str(logs)}, tables)
    return tables


def through_jvm(spark: SparkSession, logs: Path, lake: Path) -> ParquetTables:
    """Tables that Spark has written."""
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    tables = ParquetTables(spark, str(lake))
    bronze.ingest(spark.read.format("kraft").load(str(logs)), tables)
    return tables


def check_equal(one: ParquetTables, other: ParquetTables) -> None:
    """Both have the same tables of bronze, with the same columns and rows, and nothing else."""
    from services.pipeline import bronze

    for name in (bronze.RECORDS, bronze.SNAPSHOTS, bronze.KNOWN, bronze.QUARANTINE):
        first, second = one.read(name), other.read(name)
        assert (first is None) == (second is None), name
        if first is not None and second is not None:
            assert first.dtypes == second.dtypes, name
            assert rows_of(first) == rows_of(second), name


def rows_of(found: DataFrame) -> list[str]:
    return sorted(map(repr, found.collect()))


def test_the_logs_of_a_quorum_with_a_deposed_leader_make_the_same_tables_either_way(
    spark: SparkSession, tmp_path: Path
) -> None:
    expected = through_jvm(spark, DIVERGED, tmp_path / "jvm")
    found = ingested(spark, DIVERGED, tmp_path / "workers")

    check_equal(expected, found)

    ingested(spark, DIVERGED, tmp_path / "workers")

    check_equal(expected, found)


def test_days_clusters_damage_and_copies_make_the_same_tables_either_way(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze

    logs = tmp_path / "logs"
    # Two days of a log that has a copy, a cluster whose id Spark escapes, damage, and half a checkpoint.
    daily = batches(history(), every_ms=DAY_MS // 3)
    segment(node(logs / "a", "one"), daily)
    segment(node(logs / "b", "one"), daily[1:], base_offset=2)
    segment(node(logs / "c", "a=b/c: d%"), daily)
    broken = node(logs / "d", "broken")
    segment(broken, [*daily[:2], flipped(daily[2]), *daily[3:]])
    half = checkpoint(broken, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    half.write_bytes(half.read_bytes()[:-20])
    lake = tmp_path / "workers"
    found = ingested(spark, logs, lake)

    check_equal(through_jvm(spark, logs, tmp_path / "jvm"), found)
    records, damage = found.read(bronze.RECORDS), found.read(bronze.QUARANTINE)
    assert records is not None
    assert damage is not None
    assert {"one": 6, "a=b/c: d%": 6, "broken": 5} == {
        row["cluster_id"]: row["count"] for row in records.groupBy("cluster_id").count().collect()
    }
    assert 2 == records.select("date").distinct().count()
    assert 0 < damage.count()
    assert ["bronze"] == [path.name for path in lake.iterdir()]


def test_a_late_replica_adds_only_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    content = batches(history(6))
    lake = tmp_path / "workers"
    segment(node(tmp_path / "logs" / "a", "c"), content[:4])
    ingested(spark, tmp_path / "logs", lake)
    segment(node(tmp_path / "logs" / "b", "c"), content[2:], base_offset=3)

    check_equal(through_jvm(spark, tmp_path / "logs", tmp_path / "jvm"), ingested(spark, tmp_path / "logs", lake))


def test_a_job_that_is_killed_while_files_are_adopted_adds_the_rest_when_it_is_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.pipeline import bronze

    logs, lake = tmp_path / "logs", tmp_path / "workers"
    segment(node(logs / "a", "one"), batches(history(6), every_ms=DAY_MS))
    renamed = []
    rename = Path.rename

    def interrupted(path: Path, to: Path) -> Path:
        renamed.append(to)
        if len(renamed) > 3:
            raise KeyboardInterrupt
        return rename(path, to)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ingested(spark, logs, lake)
    assert 4 == len(renamed)
    assert 3 == len(list((lake / bronze.RECORDS).rglob("*.parquet")))

    check_equal(through_jvm(spark, logs, tmp_path / "jvm"), ingested(spark, logs, lake))


def test_what_a_job_that_was_killed_left_is_deleted_by_the_next_and_what_another_has_is_not(tmp_path: Path) -> None:
    from services.pipeline.tables.inbox import Inbox

    making = "import pathlib, sys, os, signal\nfrom services.pipeline.tables.inbox import Inbox\n"
    killed = f"{making}Inbox(pathlib.Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", killed, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()

    with Inbox(tmp_path) as first, Inbox(tmp_path) as second:
        assert not left.exists()
        assert {first.place, second.place} == set(tmp_path.iterdir())
    assert [] == list(tmp_path.iterdir())


def test_timestamps_that_the_jvm_writes_are_micros_as_those_of_the_workers(spark: SparkSession, tmp_path: Path) -> None:
    """Not INT96, which has no statistics and for other readers no zone."""
    from pyarrow import parquet

    segment(node(tmp_path / "logs", "c"), batches(history(2)))
    for make in (through_jvm, ingested):
        make(spark, tmp_path / "logs", tmp_path / make.__name__)
    files = list(tmp_path.rglob("*.parquet"))
    of_time = [
        column
        for schema in (parquet.ParquetFile(file).schema for file in files)
        for column in (schema.column(number) for number in range(len(schema)))
        if column.name == "timestamp"
    ]

    assert len(of_time) == 2  # one file of each
    assert {"INT64"} == {column.physical_type for column in of_time}
    assert {"timeUnit=microseconds"} == {
        part.strip() for column in of_time for part in str(column.logical_type).split(",") if "timeUnit" in part
    }


def test_a_batch_after_the_year_9999_is_damage_either_way(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze

    segment(node(tmp_path / "logs", "c"), batches(history(1), first_ms=YEAR_10_000_MS - 1, every_ms=1))
    found = [
        make(spark, tmp_path / "logs", tmp_path / make.__name__).read(bronze.RECORDS)
        for make in (through_jvm, ingested)
    ]
    shown = [rows_of(each.drop("timestamp")) for each in found if each is not None]

    assert 2 == len(shown)
    assert shown[0] == shown[1]
    assert 2 == len(shown[0])  # the record of the year before, and what is not read
    assert not any("date='+10000-01-01'" in row for row in shown[0])


def test_tables_without_an_inbox_get_the_same_rows_from_spark(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    class OnlyRows(ParquetTables):
        """As Delta's tables, and those of an object store."""

        def inbox(self) -> None:
            return None

    segment(node(tmp_path / "logs", "c"), batches(history(2)))
    tables = OnlyRows(spark, str(tmp_path / "rows"))

    assert 4 == bronze.ingest_files(spark, {"path": str(tmp_path / "logs")}, tables).records
    check_equal(ingested(spark, tmp_path / "logs", tmp_path / "workers"), tables)


def test_the_digest_is_sparks_hash(spark: SparkSession) -> None:
    from pyspark.sql import functions as fn

    from services.pipeline.bronze.digest import xxhash64

    chance = random.Random(14)
    count = 2_000

    def some(*values: object) -> object:
        return chance.choice((None, *values))

    def text() -> str:
        return "".join(chance.choices('a{}"é€𐍈', k=chance.randint(0, 90)))

    table = pa.table(
        {
            "at": pa.array(
                [some(chance.randint(-(10**15), 10**15)) for _ in range(count)], pa.timestamp("us", tz="UTC")
            ),
            "yes": pa.array([some(True, False) for _ in range(count)], pa.bool_()),
            "number": pa.array([some(0, -1, 5, (1 << 31) - 1, -(1 << 31)) for _ in range(count)], pa.int32()),
            "long": pa.array([some(0, -1, 5, (1 << 63) - 1, -(1 << 63)) for _ in range(count)], pa.int64()),
            "text": pa.array([some(text(), text()) for _ in range(count)], pa.string()),
            "raw": pa.array([some(chance.randbytes(chance.randint(0, 70))) for _ in range(count)], pa.binary()),
            "nothing": pa.nulls(count, pa.string()),
        }
    )

    def parts(rows: pa.Table) -> Iterator[Any]:
        for column in rows.combine_chunks().columns:
            yield column.chunk(0)
            yield column.chunk(0).is_null()

    names = [part for name in table.column_names for part in (fn.col(name), fn.col(name).isNull())]
    expected = [row[0] for row in spark.createDataFrame(table).select(fn.xxhash64(*names)).collect()]

    assert expected == xxhash64(parts(table)).tolist()
    assert expected[70:90] == xxhash64(parts(table.slice(70, 20))).tolist()
    assert len(set(expected)) > count // 2


def test_nothing_is_left_of_a_run_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    content = batches(history(2))
    segment(node(tmp_path / "logs", "c"), [content[0], flipped(content[1])])
    lake = tmp_path / "lake"

    with pytest.raises(PySparkException, match="checksum"):
        bronze.ingest_files(
            spark, {"path": str(tmp_path / "logs"), "mode": "FAILFAST"}, ParquetTables(spark, str(lake))
        )
    assert [] == list(lake.iterdir())

    shutil.rmtree(tmp_path / "logs")
    with pytest.raises(FileNotFoundError, match="logs"):
        bronze.ingest_files(spark, {"path": str(tmp_path / "logs")}, ParquetTables(spark, str(lake)))
    assert [] == list(lake.iterdir())


def test_numbers_that_grow_take_next_to_nothing_and_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    import numpy as np
    import pyarrow.parquet as pq

    from services.pipeline.row_files import row_file

    count = 20_000
    numbers = np.arange(count)
    rows = pa.table(
        {
            "offset": numbers,
            "timestamp": pa.array(1_760_000_000_000_000 + numbers * 500_000).cast(pa.timestamp("us", "UTC")),
            # A row of damage has none.
            "batch_base_offset": pa.array([None if number % 9 == 0 else number for number in range(count)]),
            "type": ["NO_OP_RECORD"] * count,
            "digest": np.random.default_rng(1).integers(-(2**63), 2**63, count),
        }
    )
    path = tmp_path / "rows.parquet"
    with row_file(path, rows.schema) as file:
        file.write_table(rows)
    group = pq.read_metadata(path).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    sizes = {column.path_in_schema: column.total_compressed_size / count for column in columns}

    assert 8 == round(sizes.pop("digest"))
    assert 0.5 > max(sizes.values()), sizes
    assert rows.to_pylist() == spark.read.parquet(str(path)).orderBy("offset").toArrow().to_pylist()
