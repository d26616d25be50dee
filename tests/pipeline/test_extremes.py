"""Logs with each field of each record at the ends of its type, and times and offsets at theirs: no job fails.

And what costs a cluster its rows costs no other cluster anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.records import BeginTransactionRecord, EndTransactionRecord, NoOpRecord, PartitionRecord, TopicRecord
from quorate.wire.schema import FieldType
from services.pipeline.exits import DONE, FAILED, FOUND
from tests.pipeline.extremes import EXTREMES, ORDINARY
from tests.pipeline.hand_made import Story, broker, config, feature, furnished, topic, voters
from tests.pipeline.logs import batches, checkpoint, node, segment
from tests.pipeline.test_main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)
TOPIC: Final = ORDINARY[FieldType.UUID]
LAST_OFFSET: Final = (1 << 63) - 2
"""The offset behind it is still one."""
YEAR_1_MS: Final = -62_135_596_800_000
YEAR_9999_MS: Final = 253_402_300_799_000


def every_record() -> Story:
    """A sound cluster, and then all of these records, each in a batch of its own."""
    made = Story(voters(1, 2, 3), feature("metadata.version", 25), broker(1), broker(2))
    placed = [PartitionRecord(number, TOPIC, (1, 2), (1, 2), (), (), 1, 0, 0, 0) for number in (0, 1)]
    made.say(TopicRecord("orders", TOPIC), *placed, config("orders", "a", "b"))
    for record in (each for some in EXTREMES.values() for each in some):
        made.after(seconds=1).say(record)
        if isinstance(record, BeginTransactionRecord):
            made.say(EndTransactionRecord())
    return made


def last_offsets(place: Path, cluster_id: str) -> None:
    """A log that begins with a checkpoint and ends where no more offsets are."""
    base = OffsetAndEpoch(offset=LAST_OFFSET - 2, epoch=(1 << 31) - 1)
    directory = node(place, cluster_id)
    checkpoint(directory, [feature("metadata.version", 25), broker(1), *topic("t", [1])], base)
    content = batches([[NoOpRecord()]] * 3, base_offset=base.offset, epoch=base.epoch)
    segment(directory, content, base.offset)


def all_times() -> Story:
    """Records in the first and the last year that a timestamp has, and back."""
    story = Story(feature("metadata.version", 25), broker(1), *topic("t", [1]))
    for at_ms in (YEAR_1_MS, -1, 0, YEAR_9999_MS, YEAR_1_MS, YEAR_9999_MS):
        story.after(seconds=(at_ms - story.end_ms) / 1000).say(NoOpRecord(), config("t", "a", str(at_ms)))
    return story


def test_no_value_stops_a_job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, story in {"every-record": every_record(), "all-times": all_times()}.items():
        story.write(tmp_path / "logs" / name, name)
    for name in ("last-offsets", "last-offsets-too"):  # two, for sums over clusters
        last_offsets(tmp_path / "logs" / name, name)
    lake, page = str(tmp_path / "lake"), tmp_path / "report.html"
    code = run(spark, "run", "--from", str(tmp_path / "logs"), "--to", lake, "--report", str(page))
    told = capsys.readouterr().err

    assert DONE == code, told
    audit = spark.read.parquet(f"{lake}/gold/audit_timeline").where("subject rlike '^(quota|delegation)'")
    shown = {row["sentence"].rpartition(" → ")[2] for row in audit.collect()}
    doubles = {"0", "NaN", "Infinity", "-Infinity", "9.223372036854776E18", "1.0E15", "0.1", "1.7976931348623157E308"}
    assert {*doubles, "9223372036854775807 ms since 1970", "1970-01-01 00:00:00"} <= shown


def test_a_cluster_whose_rows_cannot_be_read_costs_no_other_one_anything(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        furnished().write(tmp_path / "logs" / name, name)
    lake, page = ("--to", str(tmp_path / "lake")), tmp_path / "report.html"
    assert DONE == run(spark, "ingest", "--from", str(tmp_path / "logs"), *lake)
    assert DONE == run(spark, "silver", *lake)
    with damaged(tmp_path / "lake" / "silver" / "config_history" / "cluster_id=two"):
        capsys.readouterr()
        codes = [run(spark, "gold", *lake), run(spark, "report", *lake, "--report", str(page))]
        told = capsys.readouterr().err

    assert [FOUND, FOUND] == codes, told
    assert "gold: cluster two is left out: " in told
    assert "report: cluster two is left out: its gold is not of the present silver; run gold" in told
    audit = spark.read.parquet(f"{tmp_path}/lake/gold/audit_timeline")
    assert ["one"] == sorted(row[0] for row in audit.select("cluster_id").distinct().collect())
    assert "Left out, as their gold is not of the present silver: two." in page.read_text()

    with damaged(tmp_path / "lake" / "bronze" / "records" / "cluster_id=one"):
        spark.read.parquet(f"{tmp_path}/lake/silver/progress").limit(0).write.mode("overwrite").parquet(
            f"{tmp_path}/lake/silver/progress"
        )
        assert FOUND == run(spark, "silver", *lake), capsys.readouterr().err
        assert "silver: cluster one is left out: " in capsys.readouterr().err
    events = spark.read.parquet(f"{tmp_path}/lake/silver/events")
    assert ["two"] == sorted(row[0] for row in events.select("cluster_id").distinct().collect())


def test_what_is_no_clusters_fault_is_a_job_that_could_not_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    furnished().write(tmp_path / "logs" / "one", "one")
    lake = ("--to", str(tmp_path / "lake"))
    assert DONE == run(spark, "ingest", "--from", str(tmp_path / "logs"), *lake)
    with damaged(tmp_path / "lake" / "bronze" / "records" / "cluster_id=one"):
        assert FAILED == run(spark, "silver", *lake)
    assert "left out" not in capsys.readouterr().err


@contextmanager
def damaged(folder: Path) -> Iterator[None]:
    """For a while the pages of the one Parquet file below are no compressed bytes; its footer, with the schema, is."""
    (path,) = folder.rglob("*.parquet")
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    checksum = path.with_name(f".{path.name}.crc")
    if checksum.exists():
        checksum.unlink()
    path.write_bytes(whole[:4] + bytes(len(whole) - footer - 4) + whole[-footer:])
    try:
        yield
    finally:
        path.write_bytes(whole)
