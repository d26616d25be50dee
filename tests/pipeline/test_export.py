"""Logs as plain Parquet that the workers write: the rows of the source, all of them at once or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from services.pipeline.__main__ import main
from services.pipeline.exits import DONE, FAILED, FOUND
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import batches, flipped, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)


def run(spark: SparkSession, *arguments: str) -> int:
    """The job in the session that there is."""
    from services.pipeline import jobs
    from services.pipeline.__main__ import parser

    return jobs.run(spark, parser().parse_args(("export", *arguments)))


def test_the_files_have_the_rows_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    logs, to = str(FIXTURES / "three-dynamic"), str(tmp_path / "rows")

    assert DONE == run(spark, "--from", logs, "--to", to)

    expected, found = spark.read.format("kraft").load(logs), spark.read.parquet(to)

    assert expected.dtypes == found.dtypes
    assert sorted(map(repr, expected.collect())) == sorted(map(repr, found.collect()))
    assert ["rows"] == [path.name for path in tmp_path.iterdir()]


def test_damage_is_a_row_and_an_exit_code_or_an_end_that_leaves_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = batches(history(4))
    cut = content[-1][:-7]  # is no damage: a copy of a running node's log may end so
    path = segment(node(tmp_path / "logs", "one"), [*content[:2], flipped(content[2]), *content[3:-1], cut])
    asked = ("--from", str(tmp_path / "logs"), "--to", str(tmp_path / "rows"))

    assert FAILED == run(spark, *asked, "--mode", "FAILFAST")
    assert f"{path}: batch at offset 3 has checksum" in capsys.readouterr().err
    assert ["logs"] == [each.name for each in tmp_path.iterdir()]

    assert FOUND == run(spark, *asked)
    assert "damaged places: 1" in capsys.readouterr().err

    offsets = [(row["offset"], row["_corrupt"] is None) for row in spark.read.parquet(asked[-1]).collect()]

    assert [(0, True), (1, True), (2, True), (3, False), (4, True), (5, False)] == sorted(offsets)


def test_an_object_store_where_files_cannot_appear_at_once_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert FAILED == main(["export", "--from", str(FIXTURES / "three-dynamic"), "--to", "s3a://bucket/rows"])
    assert "--to s3a://bucket/rows: an export needs a file system" in capsys.readouterr().err


def test_a_directory_that_is_there_is_refused_and_stays(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment(node(tmp_path / "logs", "one"), batches(history(1)))
    kept = tmp_path / "there" / "kept"
    kept.parent.mkdir()
    kept.write_text("kept")

    assert FAILED == run(spark, "--from", str(tmp_path / "logs"), "--to", str(kept.parent))
    assert "is there already" in capsys.readouterr().err
    assert ["kept"] == [path.name for path in kept.parent.iterdir()]
    assert ["logs", "there"] == sorted(path.name for path in tmp_path.iterdir())


def test_an_empty_log_has_columns_and_no_row(spark: SparkSession, tmp_path: Path) -> None:
    segment(node(tmp_path / "logs", "one"), [])

    assert DONE == run(spark, "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "rows"))

    found = spark.read.parquet(str(tmp_path / "rows"))

    assert spark.read.format("kraft").load(str(tmp_path / "logs")).dtypes == found.dtypes
    assert [] == found.collect()
