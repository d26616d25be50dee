"""Few records have a session of their own: when they are few, and that its tables are those of any other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from services.pipeline.exits import DONE
from services.pipeline.size import FEW_BYTES, PACKED, are_few
from tests.pipeline.logs import batches, history, node, segment
from tests.pipeline.test_main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)


def sized(path: Path, size: int) -> Path:
    """A file of so many bytes, none of which takes place on a disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def steps(told: str) -> list[str]:
    """Those of a job, without how long each took."""
    return re.findall(r"^ *\d+\.\d s  (\w+: .*)$", told, re.MULTILINE)


@pytest.mark.parametrize(
    ("logs", "spans", "bronze", "few"),
    [
        (FEW_BYTES, None, 0, True),
        (FEW_BYTES + 1, None, 0, False),
        (FEW_BYTES - 10, 10, 0, True),
        (FEW_BYTES - 10, 11, 0, False),
        (None, None, FEW_BYTES // PACKED, True),
        (None, None, FEW_BYTES // PACKED + 1, False),
        (FEW_BYTES // 2, None, FEW_BYTES // PACKED // 2 + 1, False),
    ],
)
def test_logs_spans_and_what_bronze_has_count_together(
    tmp_path: Path, logs: int | None, spans: int | None, bronze: int, few: bool
) -> None:
    sized(tmp_path / "lake" / "bronze" / "records" / "cluster_id=one" / "part-0.parquet", bronze)
    sized(tmp_path / "lake" / "gold" / "audit_timeline" / "part-0.parquet", 2 * FEW_BYTES)
    source = None if logs is None else str(sized(node(tmp_path / "logs", "one") / f"{0:020}.log", logs))
    told = None if spans is None else str(sized(tmp_path / "traces.db", spans))

    assert few is are_few(str(tmp_path / "lake"), source, told)


@pytest.mark.parametrize(
    ("tables", "source", "spans"),
    [("s3a://lake", None, None), ("lake", "nowhere", None), ("lake", None, "postgresql://observer@db/observer")],
)
def test_what_is_not_on_this_machine_may_be_much(tables: str, source: str | None, spans: str | None) -> None:
    assert not are_few(tables, source, spans)


def test_the_tables_are_the_same_in_either_session_and_each_step_says_how_long_it_took(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the session for few they are made in two runs: what has been read must be read again once it has grown.

    The log has no checkpoint, which is nothing wrong, and said.
    """
    from services.pipeline.memory import IS_SMALL, is_small

    partition, content = node(tmp_path / "logs", "one"), batches(history(6))
    logs = ("--from", str(partition))

    def told(job: str, place: str, *more: str) -> str:
        assert DONE == run(spark, job, "--to", str(tmp_path / place), *more)
        return capsys.readouterr().err

    def all_told(place: str) -> str:
        return told("run", place, *logs, "--report", str(tmp_path / f"{place}.html"))

    assert is_small(spark)
    segment(partition, content[:4])
    first = steps(told("ingest", "few", *logs) + told("silver", "few"))
    segment(partition, content[4:], base_offset=5)
    said = all_told("few")
    second = steps(said)
    spark.conf.set(IS_SMALL, "false")
    try:
        at_once = steps(all_told("many"))
    finally:
        spark.conf.set(IS_SMALL, "true")

    assert {"records: 5 new", "partition_history: 4 rows"} < set(first)
    assert {"records: 3 new", "partition_history: 7 rows", "report: findings", "report: timelines"} < set(second)
    assert at_once[1:] == second[1:]
    page = (tmp_path / "few.html").read_text()
    assert (tmp_path / "many.html").read_text() == page
    assert "verify: there is no checkpoint to compare the replay with" in said
    assert "There was no checkpoint to compare the replay with." in page
    assert "orders-0" in page
    assert "run verify" not in page
