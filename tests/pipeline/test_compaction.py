"""Compaction of plain Parquet: wherever it is killed, and with any reader meanwhile, no row is lost and none
doubled."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deploy.spark import HOW_TO_GET, is_installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from services.pipeline.tables import ParquetTables

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]

NAME = "bronze/records"
SCHEMA = "`offset` bigint, payload string, attributes map<string, string>, cluster_id string, date string"
OPEN = date(2026, 11, 21)
CLUSTERS = ("one", "odd %25 = /näme")
DAYS = ("2026-11-20", "2026-11-21")
"""The first is closed, the other one is not."""
APPENDS = 2
OPERATIONS = 1 + 1 + APPENDS * len(CLUSTERS) + 2
"""On files, of a whole run in one round: a note, its rename, each old file of the closed day, and both its names."""

Row = tuple[Any, ...]


class Killed(BaseException):
    """The process is gone: nobody catches it."""


class WatchedFiles:
    """Files as they are, and somebody who looks (or kills) before each operation."""

    def __init__(self, spark: SparkSession, look: Callable[[int, str, str], None]) -> None:
        from services.pipeline.tables.files import HadoopFiles

        self.files = HadoopFiles(spark)
        self.look = look
        self.count = 0

    def write(self, path: str, text: str) -> None:
        self.seen("write", path)
        self.files.write(path, text)

    def rename(self, path: str, to: str) -> None:
        self.seen("rename", path)
        self.files.rename(path, to)

    def delete(self, path: str) -> None:
        self.seen("delete", path)
        self.files.delete(path)

    def seen(self, what: str, path: str) -> None:
        number, self.count = self.count, self.count + 1
        self.look(number, what, path)


def append(spark: SparkSession, tables: ParquetTables, number: int) -> list[Row]:
    """A row for each cluster and day, as the append of this number has them."""
    rows: list[Row] = [
        (number * 10, f"{cluster} {day}", {"number": str(number)}, cluster, day) for cluster in CLUSTERS for day in DAYS
    ]
    tables.append(NAME, spark.createDataFrame(rows, SCHEMA).coalesce(1), partition_by=("cluster_id", "date"))
    return rows


def counted(tables: ParquetTables) -> Counter[str]:
    """How often the table has each of its rows."""
    found = tables.read(NAME)
    return Counter() if found is None else Counter(str(row) for row in found.orderBy("offset").collect())


def files(lake: Path, day: str) -> list[str]:
    """The names of a day's files, all clusters'."""
    return sorted(path.name for path in (lake / NAME).rglob(f"date={day}/*.parquet"))


def notes(lake: Path) -> list[str]:
    return sorted(path.name for path in (lake / NAME / "_compaction").glob("*.json"))


def compact(spark: SparkSession, lake: Path, look: Callable[[int, str, str], None], **options: Any) -> tuple[int, int]:
    """As `ParquetTables.compact`, watched."""
    from services.pipeline.tables.compaction import Compaction

    return Compaction(spark, str(lake / NAME), WatchedFiles(spark, look)).run(before=OPEN, **options)


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake to be copied: two files a day for each of two clusters."""
    from services.pipeline.tables import ParquetTables

    place = tmp_path_factory.mktemp("filled")
    for number in range(APPENDS):
        append(spark, ParquetTables(spark, str(place)), number)
    return place


@pytest.fixture
def lake(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "lake"))


@pytest.fixture
def tables(spark: SparkSession, lake: Path) -> ParquetTables:
    from services.pipeline.tables import ParquetTables

    return ParquetTables(spark, str(lake))


def test_closed_days_become_one_file_each_and_open_ones_stay(tables: ParquetTables, lake: Path) -> None:
    before, open_ = counted(tables), files(lake, DAYS[1])
    done = tables.compact(NAME, before=OPEN)

    assert (4, 2) == done
    assert before == counted(tables)
    assert [2, 4] == [len(files(lake, day)) for day in DAYS]
    assert open_ == files(lake, DAYS[1])
    assert [] == notes(lake)
    assert (0, 0) == tables.compact(NAME, before=OPEN)
    assert (0, 0) == tables.compact("bronze/never", before=OPEN)


def test_rows_lie_in_the_order_of_their_offsets(spark: SparkSession, tables: ParquetTables, lake: Path) -> None:
    tables.compact(NAME, before=OPEN)
    path = next((lake / NAME / "cluster_id=one" / f"date={DAYS[0]}").glob("*.parquet"))

    assert [0, 10] == [row["offset"] for row in spark.read.parquet(str(path)).collect()]


def test_at_every_step_a_reader_sees_each_row_once(spark: SparkSession, tables: ParquetTables, lake: Path) -> None:
    before, seen = counted(tables), []
    compact(spark, lake, lambda *_: seen.append(counted(tables)))

    assert [before] * OPERATIONS == seen


@pytest.mark.parametrize("killed_at", range(OPERATIONS))
def test_a_run_that_is_killed_loses_and_doubles_nothing(
    spark: SparkSession, tables: ParquetTables, lake: Path, killed_at: int
) -> None:
    """Killed before each operation on a file; the next run ends what it left, or begins anew."""

    def kill(number: int, *_: str) -> None:
        if number == killed_at:
            raise Killed

    before = counted(tables)
    with pytest.raises(Killed):
        compact(spark, lake, kill)
    after = counted(tables)
    tables.compact(NAME, before=OPEN)

    assert before == after
    assert before == counted(tables)
    assert [2, 4] == [len(files(lake, day)) for day in DAYS]
    assert [] == notes(lake)


def test_half_of_what_was_written_is_taken_back(spark: SparkSession, tables: ParquetTables, lake: Path) -> None:
    """Spark gives files their names one by one at a job's end: it may be killed between two of them."""

    def kill(_: int, what: str, __: str) -> None:
        if what == "rename":
            raise Killed

    before = counted(tables)
    with pytest.raises(Killed):
        compact(spark, lake, kill)
    new = sorted((lake / NAME).rglob("compact-*.parquet"))
    for path in new[::2]:
        path.unlink()

    assert 2 == len(new)
    assert before == counted(tables)
    assert (4, 2) == tables.compact(NAME, before=OPEN)
    assert before == counted(tables)


def test_a_run_that_ends_another_ones_work_may_be_killed_too(
    spark: SparkSession, tables: ParquetTables, lake: Path
) -> None:
    def killer(at: int) -> Callable[[int, str, str], None]:
        def kill(number: int, *_: str) -> None:
            if number == at:
                raise Killed

        return kill

    before = counted(tables)
    for at in (4, 2, 0, 1):
        with pytest.raises(Killed):
            compact(spark, lake, killer(at))
        assert before == counted(tables), at
    tables.compact(NAME, before=OPEN)

    assert before == counted(tables)
    assert [2, 4] == [len(files(lake, day)) for day in DAYS]


def test_rows_that_come_meanwhile_stay(spark: SparkSession, tables: ParquetTables, lake: Path) -> None:
    def add(_: int, what: str, path: str) -> None:
        if what == "rename" and not late:
            late.extend(append(spark, tables, APPENDS))

    late: list[Row] = []
    before = counted(tables)
    compact(spark, lake, add)

    assert len(before) + len(CLUSTERS) * len(DAYS) == len(counted(tables))
    assert {1} == set(counted(tables).values())
    assert [4, 6] == [len(files(lake, day)) for day in DAYS]


def test_rounds_are_of_some_files_each(spark: SparkSession, tables: ParquetTables, lake: Path) -> None:
    what: list[str] = []
    before = counted(tables)
    done = compact(spark, lake, lambda _, operation, __: what.append(operation), files_max=2)

    assert (4, 2) == done
    assert 2 == what.count("rename")
    assert before == counted(tables)


def test_new_files_that_are_not_what_the_old_were_change_nothing(
    spark: SparkSession, tables: ParquetTables, lake: Path
) -> None:
    """A file of the round's name that is not of its making: a row would be there twice."""

    def plant(_: int, what: str, path: str) -> None:
        if what == "write":
            old = next((lake / NAME).rglob("*.parquet"))
            id_ = Path(path).name.partition(".")[0]
            shutil.copyfile(old, old.with_name(f"{id_}-planted.parquet"))

    before = counted(tables)
    with pytest.raises(ArithmeticError, match=re.escape("(4, ") + ".* became " + re.escape("(5, ")):
        compact(spark, lake, plant)

    assert before == counted(tables)
    assert [4, 4] == [len(files(lake, day)) for day in DAYS]
    assert [] == notes(lake)


def test_a_column_that_only_some_files_have_is_kept(spark: SparkSession, tables: ParquetTables, lake: Path) -> None:
    rows: list[Row] = [(30, "new", {}, "one", DAYS[0], "trace")]
    more = spark.createDataFrame(rows, f"{SCHEMA}, trace_id string")
    tables.append(NAME, more, partition_by=("cluster_id", "date"))
    tables.compact(NAME, before=OPEN)
    found = spark.read.option("mergeSchema", "true").parquet(str(lake / NAME))

    assert [(30, "trace")] == [
        tuple(row) for row in found.where("trace_id is not null").select("offset", "trace_id").collect()
    ]
    assert 9 == found.count()


def test_tables_in_delta_are_refused_and_not_read_as_plain_files(spark: SparkSession, tmp_path: Path) -> None:
    """Of a release that wrote them: Spark would read what Delta has overwritten, too."""
    from services.pipeline.tables import opened

    (tmp_path / "silver/partitions/_delta_log").mkdir(parents=True)
    (tmp_path / "silver/partitions/_delta_log/00000000000000000000.json").touch()
    (tmp_path / "plain/silver/partitions").mkdir(parents=True)
    opened(spark, f"{tmp_path}/plain")

    with pytest.raises(LookupError, match="are in Delta, and only plain Parquet is read: make them anew elsewhere"):
        opened(spark, str(tmp_path))
