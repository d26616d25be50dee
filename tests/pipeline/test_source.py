"""The source `kraft` in Spark: real directories, options, filters, damage; and bronze, which never doubles a row."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quorate.nouns import OffsetAndEpoch
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import batches, checkpoint, flipped, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(1_800)

THREE = FIXTURES / "three-dynamic"


def read(spark: SparkSession, path: object, **options: object) -> DataFrame:
    """The rows of the source with these options."""
    return spark.read.format("kraft").options(**{name: str(value) for name, value in options.items()}).load(str(path))


def test_the_rows_are_those_of_the_reader_without_spark(spark: SparkSession) -> None:
    from quorate.pipeline.log_files import find, parts
    from quorate.pipeline.rows import RowFilter
    from quorate.pipeline.rows import read as read_part

    expected = []
    for place in find([str(THREE / "controller-1")]):
        for part in parts(place):
            for columns in read_part(part, RowFilter()):
                named = columns.by_name()
                expected += [
                    (place.path, *row) for row in zip(named["offset"], named["type"], named["payload"], strict=True)
                ]
    columns = ("source", "offset", "type", "payload")
    found = read(spark, THREE / "controller-1", maxPartitionBytes=1000).select(*columns).collect()

    assert sorted(expected) == sorted(map(tuple, found))


def test_a_filter_keeps_what_it_says(spark: SparkSession) -> None:
    rows = read(spark, THREE / "controller-1", include="log").select("offset", "type").collect()
    narrow = read(spark, THREE / "controller-1", include="log").where(
        "offset >= 70 and offset < 90 and type = 'PARTITION_CHANGE_RECORD'"
    )
    changes = [row["offset"] for row in rows if row["type"] == "PARTITION_CHANGE_RECORD"]
    expected = sorted(offset for offset in changes if 70 <= offset < 90)
    assert expected

    assert expected == sorted(row["offset"] for row in narrow.select("offset").collect())


def test_a_filter_spares_reading() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan

    from services.pipeline.source.kraft import KraftReader

    reader = KraftReader({"path": str(THREE / "controller-1"), "include": "log"}, ["offset"])
    filters: list[Filter] = [
        GreaterThanOrEqual(("offset",), 80),
        LessThan(("offset",), 86),
        EqualTo(("type",), "PARTITION_CHANGE_RECORD"),
    ]

    assert filters == list(reader.pushFilters(filters))
    assert [80, 81, 82, 83, 84, 85] == [
        offset
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for offset in batch.column(0).to_pylist()
    ]


def test_conditions_on_offsets_choose_the_parts_of_a_segment() -> None:
    """The segment is cut at each batch. The asked offsets lie within two of its parts, and no other is read."""
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.datasource import Filter, GreaterThan, In, LessThanOrEqual

    from services.pipeline.source.columns import Bundle
    from services.pipeline.source.kraft import KraftReader

    def read_of(**options: str) -> Callable[..., tuple[int, list[int]]]:
        def by(*filters: Filter) -> tuple[int, list[int]]:
            given = {"path": str(THREE / "controller-1"), "include": "log", "maxPartitionBytes": "1b", **options}
            reader = KraftReader(given, ["offset"])
            assert list(filters) == list(reader.pushFilters(list(filters)))
            bundles = [bundle for bundle in reader.partitions() if isinstance(bundle, Bundle)]
            offsets = [at for each in bundles for batch in reader.read(each) for at in batch.column(0).to_pylist()]
            return sum(len(bundle.parts) for bundle in bundles), sorted(offsets)

        return by

    whole, every = read_of()()
    assert whole > 50
    assert list(range(239)) == every
    few, offsets = read_of()(In(("offset",), (84, 80, None)))
    assert {80, 84} <= set(offsets)
    assert few <= 5
    assert (few, offsets) == read_of()(GreaterThan(("offset",), 79), LessThanOrEqual(("offset",), 84))
    assert (few, offsets) == read_of(startOffset="80", endOffset="85")()


def test_conditions_on_kind_and_cluster_choose_files(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.datasource import EqualTo, Filter, In

    from services.pipeline.source.columns import Bundle
    from services.pipeline.source.kraft import KraftReader

    for cluster in ("one", "two"):
        partition = node(tmp_path / cluster, cluster)
        segment(partition, batches(history(3)))
        checkpoint(partition, history(2)[0], OffsetAndEpoch(epoch=1, offset=3))

    def read_files(*filters: Filter) -> set[tuple[str, str]]:
        reader = KraftReader({"path": str(tmp_path)}, ["offset"])
        assert list(filters) == list(reader.pushFilters(list(filters)))
        bundles = [bundle for bundle in reader.partitions() if isinstance(bundle, Bundle)]
        return {(part.place.cluster_id, part.place.kind) for bundle in bundles for part in bundle.parts}

    kind, cluster_id = ("kind",), ("cluster_id",)
    assert {("one", "log"), ("one", "checkpoint"), ("two", "log"), ("two", "checkpoint")} == read_files()
    assert {("one", "log"), ("two", "log")} == read_files(EqualTo(kind, "log"))
    assert {("two", "checkpoint")} == read_files(EqualTo(cluster_id, "two"), In(kind, ("checkpoint",)))
    assert set() == read_files(EqualTo(cluster_id, "two"), In(cluster_id, ("one", "three")))


def test_what_no_column_needs_is_not_decoded(spark: SparkSession) -> None:
    """The same records are counted; their payloads are never written."""
    from quorate.pipeline.log_files import find, parts
    from quorate.pipeline.rows import RowFilter
    from quorate.pipeline.rows import read as read_part

    every = [part for place in find([str(THREE / "controller-1")]) for part in parts(place)]
    decoded, heads = (
        [columns.by_name() for part in every for columns in read_part(part, RowFilter(decoded=is_decoded))]
        for is_decoded in (True, False)
    )
    names = ("offset", "epoch", "timestamp", "api_key", "type", "version", "is_control")
    of_data = [
        payload
        for rows in heads
        for payload, is_control in zip(rows["payload"], rows["is_control"], strict=True)
        if not is_control
    ]
    whole = read(spark, THREE / "controller-1")
    short = read(spark, THREE / "controller-1", columns="type, offset")

    assert [[rows[name] for name in names] for rows in decoded] == [[rows[name] for name in names] for rows in heads]
    assert [None] * len(of_data) == of_data
    assert ["type", "offset"] == short.columns
    assert sorted(short.collect()) == sorted(whole.select("type", "offset").collect())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "LENIENT"}, "mode is 'LENIENT'"),
        ({"startOffset": "-1"}, "startOffset is '-1'"),
        ({"startOffset": 9, "endOffset": 3}, "endOffset 3 is below startOffset 9"),
        ({"recordTypes": "TOPIC"}, "recordTypes has TOPIC"),
        ({"includeControl": "maybe"}, "includeControl is 'maybe'"),
        ({"maxPartitionBytes": "32 apples"}, "maxPartitionBytes is '32 apples'; it is a number of bytes above 0"),
        ({"maxPartitionBytes": "0m"}, "maxPartitionBytes is '0m'"),
        ({"colour": "red"}, "has no option colour"),
        ({"endpoints": "a:1", "kafka.bootstrap.controllers": "b:1"}, "needs one of: a path"),
        ({"kafka.sasl.jaas.config": "secret"}, "kafka.sasl.jaas.config without kafka.bootstrap.controllers"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: dict[str, object], words: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.source.kraft import KraftReader

    with pytest.raises(ValueError, match=words):
        KraftReader({"path": str(tmp_path), **{name: str(value) for name, value in options.items()}}, ["offset"])


@pytest.mark.parametrize(("given", "size"), [("7", 7), ("7b", 7), ("32m", 32 << 20), ("1GB", 1 << 30), ("2k", 2048)])
def test_a_size_has_the_units_of_sparks_settings(given: str, size: int) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.source.options import parse

    assert size == parse({"path": "logs", "maxPartitionBytes": given}).part_bytes


def test_sql_reads_a_view_and_is_told_why_a_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    segment(node(tmp_path, "one"), batches(history(2)))
    of = f"USING kraft OPTIONS (path '{tmp_path}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW log_of_one {of}")

    assert 4 == spark.table("log_of_one").count()
    with pytest.raises(PySparkException, match="the source kraft cannot be a table of the catalog: "):
        spark.sql(f"CREATE TABLE log_of_two {of}")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.source.kraft import KraftReader

    with pytest.raises(FileNotFoundError, match="there is no such file or directory"):
        KraftReader({"path": str(tmp_path / "nowhere")}, ["offset"]).partitions()
    with pytest.raises(FileNotFoundError, match="there is no segment"):
        KraftReader({"path": str(tmp_path)}, ["offset"]).partitions()


def test_where_there_is_nothing_to_read_there_are_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    segment(node(tmp_path), batches(history(3)))

    assert [] == read(spark, tmp_path, include="checkpoint").collect()


def test_failfast_fails_naming_file_and_byte(spark: SparkSession, tmp_path: Path) -> None:
    content = batches(history(3))
    path = segment(node(tmp_path), [content[0], flipped(content[1]), *content[2:]])

    with pytest.raises(Exception, match=rf"{path.name}.* at byte {len(content[0])}"):
        read(spark, tmp_path, mode="FAILFAST").collect()


# Bronze.


def test_damage_is_quarantined_and_the_rest_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze
    from services.pipeline.silver.events import reach
    from services.pipeline.tables import ParquetTables

    content = batches(history(4))
    files = tmp_path / "files"
    segment(node(files / "middle", "damaged-middle"), [*content[:2], flipped(content[2]), *content[3:]])
    segment(node(files / "tail", "damaged-tail"), [*content[:-1], content[-1][:-7]])
    sound = node(files / "sound", "sound")
    segment(sound, content)
    half = checkpoint(sound, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    half.write_bytes(half.read_bytes()[:-20])
    stranger = node(files / "stranger", "one")
    segment(stranger, content)
    # Of the checkpoint two things are said: which batch is cut, and that its end is missing.
    (stranger / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=another\n")
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    first = bronze.ingest(read(spark, files), tables)
    again = bronze.ingest(read(spark, files), tables)
    quarantine, records, snapshots = (
        tables.read(name) for name in (bronze.QUARANTINE, bronze.RECORDS, bronze.SNAPSHOTS)
    )
    assert quarantine is not None
    assert records is not None
    assert snapshots is not None
    said = {row["cluster_id"]: row["_corrupt"] for row in quarantine.collect()}
    ends = {row["cluster_id"]: row["end_offset"] for row in reach(bronze.settled(records), None).collect()}

    assert (bronze.RowCounts(5 + 5 + 6, 3, 5), bronze.RowCounts(0, 0, 0)) == (first, again)
    assert {"damaged-middle": "checksum", "damaged-tail": "at offset 5: batch of", "stranger": "two clusters"} == {
        name: next(word for word in ("checksum", "at offset 5: batch of", "two clusters") if word in said[name])
        for name in said
        if name != "sound"
    }
    assert {"damaged-middle": 3, "damaged-tail": 5, "sound": 6} == ends
    assert [] == bronze.whole_snapshots(snapshots).collect()


def test_what_a_node_is_writing_is_left_out_until_it_has_stood_still(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from services.pipeline import jobs
    from services.pipeline.__main__ import parser
    from services.pipeline.exits import DONE, FOUND
    from services.pipeline.source.options import SETTLE_MS

    partition = node(tmp_path / "logs", "one")
    segment(partition, batches(history(2)))
    half = checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    half.write_bytes(half.read_bytes()[:-20])
    part = half.rename(half.with_name(f"{half.stem}-4711260935.checkpoint.part"))
    asked = parser().parse_args(["ingest", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake")])

    assert DONE == jobs.run(spark, asked)
    told = capsys.readouterr().err
    assert f"{part}: being written; left for another time\n" in told
    assert "records: 4 new\n" in told
    assert "quarantine: 0 new\n" in told

    long_ago = part.stat().st_mtime - SETTLE_MS / 1000
    os.utime(part, (long_ago, long_ago))
    assert FOUND == jobs.run(spark, asked)
    told = capsys.readouterr().err
    assert "being written; left" not in told
    assert "quarantine: 1 new\n" in told
    assert f"{part}: a checkpoint that is not whole" in told

    # It has come after all.
    part.unlink()
    checkpoint(partition, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    assert DONE == jobs.run(spark, asked)
    told = capsys.readouterr().err
    assert "checkpoint records: 4 new\n" in told
    assert "quarantine: 1 withdrawn, as they are whole now or given up\n" in told


def test_how_long_half_a_checkpoint_is_waited_for_is_an_option(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.source.kraft import KraftReader

    partition = node(tmp_path, "one")
    log = segment(partition, batches(history(2)))
    part = partition / "00000000000000000002-0000000001.checkpoint.part"
    part.write_bytes(b"half")
    os.utime(part, (5, 5))

    def read_at(now_ms: int, **options: str) -> list[str]:
        reader = KraftReader({"path": str(tmp_path), **options}, ["source"], At(now_ms))
        return sorted(each.place.path for bundle in reader.partitions() for each in bundle.parts)  # type: ignore[attr-defined]  # a Bundle

    assert [str(log)] == read_at(604_999)
    assert [str(log), str(part)] == read_at(605_000)
    assert [str(log)] == read_at(5_999, settleMs="1000")
    assert [str(log), str(part)] == read_at(6_000, settleMs="1000")
    assert [str(log), str(part)] == read_at(5_000, settleMs="0")


class At:
    """A clock that stands still."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def wall_ms(self) -> int:
        return self._now_ms

    def wall_ns(self) -> int:
        return self._now_ms * 1_000_000


def test_copies_and_late_files_make_no_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    content = batches(history(4))
    first, second = node(tmp_path / "a", "c"), node(tmp_path / "b", "c")
    segment(first, content[3:], base_offset=4)
    checkpoint(first, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    late = bronze.ingest(read(spark, tmp_path / "a"), tables)
    segment(second, content)
    shutil.copy(first / "00000000000000000002-0000000001.checkpoint", second)
    rest = bronze.ingest(read(spark, tmp_path), tables)
    records = tables.read(bronze.RECORDS)
    assert records is not None

    assert (bronze.RowCounts(2, 4, 0), bronze.RowCounts(4, 0, 0)) == (late, rest)
    assert list(range(6)) == sorted(row["offset"] for row in records.collect())


def test_a_tail_that_was_truncated_is_not_in_the_settled_log(spark: SparkSession, tmp_path: Path) -> None:
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    old = batches(history(4), epoch=1)
    new = batches([[history(1)[1][0]]], base_offset=3, epoch=2)
    segment(node(tmp_path / "left-behind", "c"), old)
    segment(node(tmp_path / "leader", "c"), [*old[:2], *new])
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    bronze.ingest(read(spark, tmp_path), tables)
    records = tables.read(bronze.RECORDS)
    assert records is not None
    settled = {row["offset"]: row["epoch"] for row in bronze.settled(records).collect()}

    assert 7 == records.count()
    assert {0: 1, 1: 1, 2: 1, 3: 2} == settled
    assert [] == bronze.conflicts(records).collect()


def test_a_record_that_an_earlier_release_could_not_read_counts_as_a_later_one_reads_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as fn

    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    segment(node(tmp_path, "c"), batches(history(2)))
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    bronze.ingest(read(spark, tmp_path), tables)
    records = tables.read(bronze.RECORDS)
    assert records is not None
    unread = {"payload": fn.lit(None).cast("string"), "raw": fn.lit(b"\x01\x7f"), "digest": fn.col("digest") + 1}
    twice = records.where("offset = 1").withColumns(unread).select(records.columns).union(records)
    found = {row["offset"]: row["payload"] is not None for row in bronze.settled(twice).collect()}

    assert dict.fromkeys(range(4), True) == found
    assert [] == bronze.conflicts(twice).collect()


def test_two_clusters_under_one_name_are_named(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    segment(node(tmp_path / "a", "c"), batches(history(2)))
    segment(node(tmp_path / "b", "c"), batches(history(2, name="payments")))
    (refused,) = read(spark, tmp_path).collect()
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    for name in ("a", "b"):
        bronze.ingest(read(spark, tmp_path / name), tables)
    records = tables.read(bronze.RECORDS)
    assert records is not None
    (row,) = bronze.conflicts(records).collect()

    assert {0} == {row["offset"]} == set(range(4)) - {each["offset"] for each in bronze.settled(records).collect()}
    assert (0, 2, ["a", "b"]) == (row["offset"], row["contents"], [Path(each).parts[-3] for each in row["sources"]])
    assert refused["_corrupt"].startswith(f"two clusters under the id c: {tmp_path}/a/")
    assert " differ at offset 0 of epoch 1, " in refused["_corrupt"]
    with pytest.raises(PySparkException, match=f"two clusters under the id c: {tmp_path}/a/"):
        spark.read.format("kraft").option("mode", "FAILFAST").load(str(tmp_path)).where("offset > 2").collect()
