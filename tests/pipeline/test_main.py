"""The jobs as they are run: what they say, and their exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import batches, flipped, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)


def run(spark: SparkSession, *arguments: str) -> int:
    """One job in the session that there is."""
    from services.pipeline import __main__

    return __main__.run(spark, __main__.parser().parse_args(arguments))


def test_a_path_that_is_not_there_is_said_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.__main__ import FAILED, main

    assert FAILED == main(["ingest", "--from", str(tmp_path / "nowhere"), "--to", str(tmp_path / "lake")])
    assert f"ingest: {tmp_path / 'nowhere'}: there is no such file or directory\n" == capsys.readouterr().err


@pytest.mark.parametrize("job", ["silver", "gold", "verify"])
def test_a_job_without_what_it_needs_says_what_to_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    from services.pipeline.__main__ import FAILED

    assert FAILED == run(spark, job, "--to", str(tmp_path))
    assert "before" in capsys.readouterr().err


def test_damage_is_said_and_is_an_exit_code(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from services.pipeline.__main__ import FAILED, FOUND

    content = batches(history(4))
    path = segment(node(tmp_path / "logs", "one"), [*content[:2], flipped(content[2]), *content[3:]])
    asked = ("ingest", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"))

    assert FAILED == run(spark, *asked, "--mode", "FAILFAST")
    assert f"{path}: batch at offset 3 has checksum" in capsys.readouterr().err
    assert FOUND == run(spark, *asked)
    told = capsys.readouterr().err
    assert "records: 5 new" in told
    assert f"{path}: batch at offset 3 has checksum" in told


def test_a_real_node_from_files_to_answers(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from services.pipeline.__main__ import DONE

    lake, files = str(tmp_path / "lake"), str(FIXTURES / "combined-static")
    codes = [run(spark, "ingest", "--from", files, "--to", lake)]
    codes += [run(spark, job, "--to", lake) for job in ("silver", "verify", "gold")]
    told = capsys.readouterr().err

    assert [DONE] * 4 == codes, told
    assert "2 checkpoints compared, 0 differences" in told
    assert "audit_timeline: " in told
