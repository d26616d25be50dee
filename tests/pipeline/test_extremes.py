"""Logs with each field of each record at the ends of its type, and times and offsets at theirs: no job fails.

And what costs a cluster its rows costs no other cluster anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.log_files import find
from quorate.records import BeginTransactionRecord, EndTransactionRecord, NoOpRecord, PartitionRecord, TopicRecord
from quorate.wire.schema import FieldType
from services.pipeline.exits import DONE, FAILED, FOUND
from tests.pipeline.conftest import FIXTURES
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
REAL: Final = FIXTURES / "combined-static"
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


class Ran(NamedTuple):
    """What the command came to: its exit code and what it said, its tables and its page."""

    code: int
    said: str
    lake: Path
    page: Path


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """From files to the report: clusters with all that a log may hold, and a real one beside them."""
    top = tmp_path_factory.mktemp("extremes")
    logs, lake, page = top / "logs", top / "lake", top / "report.html"
    for name, story in {"every-record": every_record(), "all-times": all_times()}.items():
        story.write(logs / name, name)
    for name in ("last-offsets", "last-offsets-too"):  # two, for sums over clusters
        last_offsets(logs / name, name)
    shutil.copytree(REAL, logs / REAL.name)
    with redirect_stderr(StringIO()) as told:
        code = run(spark, "run", "--from", str(logs), "--to", str(lake), "--report", str(page))
    return Ran(code, told.getvalue(), lake, page)


def test_no_value_stops_a_job(spark: SparkSession, ran: Ran) -> None:
    assert DONE == ran.code, ran.said
    audit = spark.read.parquet(f"{ran.lake}/gold/audit_timeline").where("subject rlike '^(quota|delegation)'")
    shown = {row["sentence"].rpartition(" → ")[2] for row in audit.collect()}
    doubles = {"0", "NaN", "Infinity", "-Infinity", "9.223372036854776E18", "1.0E15", "0.1", "1.7976931348623157E308"}
    assert {*doubles, "9223372036854775807 ms since 1970", "1970-01-01 00:00:00"} <= shown


def test_a_real_cluster_from_files_to_the_report(
    spark: SparkSession, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, page = ("--to", str(ran.lake)), ran.page

    assert "2 checkpoints compared, 0 differences" in ran.said
    assert "audit_timeline: " in ran.said
    assert f"{page}: {page.stat().st_size:,} bytes" in ran.said
    assert [page] == list(page.parent.glob("*.html"))
    assert "The replayed log equals all 2 checkpoints (snapshots) compared." in page.read_text()
    assert DONE == run(spark, "silver", *lake)
    assert "silver: nothing new\n" in capsys.readouterr().err

    of_real = ("what-if", *lake, "--cluster-id", find([str(REAL)])[0].cluster_id)
    assert DONE == run(spark, *of_real, "--broker", "1", "--at-offset", "30")
    answer = capsys.readouterr().out.splitlines()
    assert answer[0].endswith("as of offset 30, without broker 1")
    assert "  offline: 0 → 4" in answer
    assert "  broker 1 (lost): leads 4 → 0, in ISRs 4 → 0" in answer
    assert "partitions that go offline" in answer
    assert FAILED == run(spark, *of_real, "--broker", "7")
    assert "what-if: broker 7 is none of cluster" in capsys.readouterr().err


def test_a_cluster_whose_rows_cannot_be_read_costs_no_other_one_anything(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report leaves out what gold has left out: `test_report` has the page."""
    from services.pipeline.gold import of_silver
    from services.pipeline.tables import ParquetTables

    for name in ("one", "two"):
        furnished().write(tmp_path / "logs" / name, name)
    lake = ("--to", str(tmp_path / "lake"))
    assert DONE == run(spark, "ingest", "--from", str(tmp_path / "logs"), *lake)
    assert DONE == run(spark, "silver", *lake)
    with damaged(tmp_path / "lake" / "silver" / "config_history" / "cluster_id=two"):
        capsys.readouterr()
        code = run(spark, "gold", *lake)
        told = capsys.readouterr().err

    assert FOUND == code, told
    assert "gold: cluster two is left out: " in told
    assert (["one"], ["two"]) == of_silver(ParquetTables(spark, str(tmp_path / "lake")))
    audit = spark.read.parquet(f"{tmp_path}/lake/gold/audit_timeline")
    assert ["one"] == sorted(row[0] for row in audit.select("cluster_id").distinct().collect())

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
