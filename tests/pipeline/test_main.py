"""The jobs as they are run: what they say, and their exit codes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from services.pipeline.__main__ import main
from services.pipeline.exits import DONE, FAILED, FOUND
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import batches, flipped, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)
ROOT = Path(__file__).parents[2]


def run(spark: SparkSession, *arguments: str) -> int:
    """One job in the session that there is."""
    from services.pipeline import jobs
    from services.pipeline.__main__ import parser

    return jobs.run(spark, parser().parse_args(arguments))


def test_a_path_that_is_not_there_is_said_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert FAILED == main(["ingest", "--from", str(tmp_path / "nowhere"), "--to", str(tmp_path / "lake")])
    assert f"ingest: {tmp_path / 'nowhere'}: there is no such file or directory\n" == capsys.readouterr().err


@pytest.mark.parametrize("job", ["silver", "gold", "verify"])
def test_a_job_without_what_it_needs_says_what_to_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    assert FAILED == run(spark, job, "--to", str(tmp_path))
    assert "before" in capsys.readouterr().err


def test_damage_is_said_and_is_an_exit_code(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = batches(history(4))
    path = segment(node(tmp_path / "logs", "one"), [*content[:2], flipped(content[2]), *content[3:]])
    asked = ("ingest", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"))

    assert FAILED == run(spark, *asked, "--mode", "FAILFAST")
    assert f"{path}: batch at offset 3 has checksum" in capsys.readouterr().err
    assert FOUND == run(spark, *asked)
    told = capsys.readouterr().err
    assert "records: 5 new" in told
    assert "files: 1, 0.0 MB" in told
    assert f"{path}: batch at offset 3 has checksum" in told


def test_two_jobs_that_write_the_same_tables_at_once_are_one_and_a_refusal(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing locks both write: a record that is there twice is reported, and counts once."""
    from services.pipeline.locks import locked

    segment(node(tmp_path / "logs", "one"), batches(history(4)))
    lake = ("--to", str(tmp_path / "lake"))
    ingest = ("ingest", "--from", str(tmp_path / "logs"), *lake)
    assert DONE == run(spark, *ingest)
    (path,) = (tmp_path / "lake" / "bronze" / "records").rglob("*.parquet")
    path.with_name("again.parquet").write_bytes(path.read_bytes())
    capsys.readouterr()
    with locked(str(tmp_path / "lake"), "stream"):
        assert [FAILED, DONE] == [run(spark, *ingest), run(spark, "silver", *lake)]
    said = told(capsys)
    assert f"ingest: ingest writes {tmp_path}/lake/bronze, which stream, process " in said
    assert "events: 6 rows" in said
    with locked(str(tmp_path / "lake"), "silver"):
        assert FAILED == run(spark, "gold", *lake)
    assert f"gold: gold needs {tmp_path}/lake/silver, which silver, process " in told(capsys)
    assert FOUND == run(spark, *ingest)
    twice = "one: 6 records are in bronze/records again, the first at offset 0: two jobs wrote at once"
    assert twice in told(capsys)


def test_a_log_that_was_read_in_the_middle_of_an_append_is_whole_with_the_next_run(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = batches(history(4))
    partition = node(tmp_path / "logs", "one")
    path = segment(partition, [*content[:-1], content[-1][:-30]])
    asked = ("ingest", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"))

    assert [DONE, DONE] == [run(spark, *asked), run(spark, *asked)]
    assert f"{path}: the log ends in a batch that is not whole, as a copy of a" in capsys.readouterr().err
    segment(partition, content)
    assert DONE == run(spark, *asked)
    told = capsys.readouterr().err
    assert "quarantine: 1 withdrawn" in told
    assert "not whole" not in told.replace("as they are whole now", "")
    # A last batch of which all bytes are there, and are wrong, is damage.
    segment(partition, [*content[:-1], flipped(content[-1])])
    assert FOUND == run(spark, *asked)
    assert f"{path}: the log is torn at offset 5: batch at offset 5 has checksum" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ingest", "--to", "lake"), "there is nothing to read: give --from, --spans, or both"),
        (("stream", "--to", "lake"), "what is read is one of --from, --endpoints and --bootstrap-controller"),
        (
            ("stream", "--to", "lake", "--endpoints", "a:1", "--bootstrap-controller", "b:1"),
            "what is read is one of --from, --endpoints and --bootstrap-controller: give one of them",
        ),
        (("stream", "--to", "lake", "--bootstrap-controller", "foo"), "--bootstrap-controller: 'foo' is not HOST:PORT"),
        (
            ("stream", "--to", "lake", "--from", "logs", "--command-config", "client.properties"),
            "--command-config without --endpoints or --bootstrap-controller: nothing is connected to",
        ),
        (
            ("stream", "--to", "lake", "--bootstrap-controller", "a:1", "--command-config", "nowhere"),
            "nowhere",
        ),
        (("run", "--from", "nowhere", "--to", "lake", "--report", "r.html"), "nowhere: there is no such file"),
        (("run", "--from", "nowhere", "--to", "lake", "--report", "no/r.html"), "no/r.html: there is no directory"),
        (("silver", "--to", __file__), f"--to {__file__}: there is a file; tables are a directory"),
        (("silver", "--to", "lake", "--master", "foo"), "--master foo: it is one of local[*], spark://…, "),
        (("stream", "--to", "lake", "--endpoints", "foo"), "endpoints has 'foo'; it lists host:port,..."),
        (("stream", "--to", "lake", "--endpoints", "a:1,b:99999"), "endpoints has 'b:99999'; it lists host:port,..."),
    ],
)
def test_what_cannot_be_meant_is_said_without_spark(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert FAILED == main(arguments)
    assert words in capsys.readouterr().err


def test_a_min_isr_that_no_config_can_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gold", "--to", "lake", "--min-isr", "99999999999"])
    assert FAILED == ended.value.code
    assert "'99999999999' is no whole number from 1 to 2147483647" in capsys.readouterr().err


def test_a_stream_that_fails_ends_with_a_line_that_names_cluster_and_offset(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = node(tmp_path / "logs", "one")
    segment(partition, batches(history(4), epoch=5))
    asked = ("stream", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"), "--once")
    assert DONE == run(spark, *asked)
    segment(partition, batches(history(5), epoch=2))
    capsys.readouterr()

    assert FAILED == run(spark, *asked)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("stream: quorate.pipeline.tail.EpochWentBack: "), last
    assert "cluster one: epoch went back at offset 5" in last


def test_a_jvm_that_is_killed_is_a_job_that_could_not_run_and_one_line(spark: SparkSession, tmp_path: Path) -> None:
    """As the kernel does it for want of memory. The session of this test is not that of the job."""
    segment(node(tmp_path / "logs", "one"), batches(history(4)))
    asked = ("run", "--from", str(tmp_path / "logs"), "--to", str(tmp_path / "lake"), "--report", str(tmp_path / "r"))
    with subprocess.Popen(
        [sys.executable, "-m", "services.pipeline", *asked], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as job:
        assert job.stderr is not None
        before = _until("a session of Spark", job.stderr)
        os.kill(_java_of(job.pid), signal.SIGKILL)
        *_, last = told = job.stderr.read().splitlines()

    assert FAILED == job.returncode, (before, told)
    assert last.startswith("run: the JVM of Spark's driver is gone: it was killed"), told
    assert "Traceback" not in "".join(told), told


def test_a_spark_that_cannot_start_is_a_job_that_could_not_run_and_one_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The session of this test is not that of the job, whose JVM refuses its settings."""
    wrong = ("--conf", "spark.driver.memory=much")
    job = [sys.executable, "-m", "services.pipeline", "silver", "--to", str(tmp_path / "lake"), *wrong]
    ran = subprocess.run(job, cwd=ROOT, capture_output=True, text=True, check=False)

    assert FAILED == ran.returncode, ran.stderr
    assert "silver: no session of Spark: [JAVA_GATEWAY_EXITED] Java gateway" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("takes root to mount a file system")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_full_disk_is_a_job_that_could_not_run_and_one_line(
    spark: SparkSession, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which of the places is full is said, in any process: a Python worker, the JVM, or the page's writer."""
    logs, rule = str(FIXTURES / "three-dynamic"), "bytes left; make room and run it again\n"

    assert FAILED == run(spark, "ingest", "--from", logs, "--to", str(small_disk / "lake"))
    assert re.fullmatch(rf"files: .*\ningest: No space left on device; {small_disk}\S* has [\d,]+ {rule}", told(capsys))

    (small_disk / "ballast").write_bytes(bytes(shutil.disk_usage(small_disk).free))
    assert FAILED == run(spark, "ingest", "--from", logs, "--to", str(small_disk / "other"))
    assert re.fullmatch(rf"ingest: No space left on device; {small_disk}\S* has 0 {rule}", told(capsys))


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """What a job has said."""
    return capsys.readouterr().err


def _until(words: str, lines: IO[str]) -> list[str]:
    """Lines up to the one with these words."""
    found = []
    for line in lines:
        found.append(line)
        if words in line:
            return found
    raise AssertionError(found)


def _java_of(parent: int) -> int:
    """The Java process below this one."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    names = {int(each): Path(f"/proc/{each}/comm").read_text().strip() for each in children}
    (found,) = (
        (each for each, name in names.items() if name == "java") if "java" in names.values() else map(_java_of, names)
    )
    return found


def test_a_stream_that_is_asked_for_once_ends_and_goes_on_later(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, content = str(tmp_path / "lake"), batches(history(4))
    path = segment(node(tmp_path / "logs", "one"), content[:3])
    asked = ("stream", "--from", str(tmp_path / "logs"), "--to", lake, "--once")
    codes = [run(spark, *asked)]
    first = capsys.readouterr().err
    with path.open("ab") as file:
        file.write(b"".join(content[3:]))
    codes.append(run(spark, *asked))
    second = capsys.readouterr().err

    assert [DONE, DONE] == codes, (first, second)
    assert "batch 0: 4 records" in first
    assert "batch 1: 2 records" in second
    assert 6 == spark.read.parquet(f"{lake}/bronze/records").count()


def test_days_that_are_over_are_compacted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log is of 2026-11-21, and was ingested in two parts."""
    content, lake = batches(history(4)), ("--to", str(tmp_path / "lake"))
    partition = node(tmp_path / "logs", "one")
    segment(partition, content[:3])
    codes = [run(spark, "ingest", "--from", str(tmp_path / "logs"), *lake)]
    segment(partition, content[3:], base_offset=4)
    codes += [run(spark, "ingest", "--from", str(tmp_path / "logs"), *lake)]
    capsys.readouterr()
    codes += [run(spark, "compact", *lake, "--before", "2026-11-21")]
    too_early = capsys.readouterr().err
    codes += [run(spark, "compact", *lake, "--before", "2026-11-22")]
    told = capsys.readouterr().err

    assert [DONE] * 4 == codes
    assert "bronze/records: nothing to do" in too_early
    assert "bronze/records: 2 files are 1 now" in told
    assert "bronze/spans: nothing to do" in told
    assert 6 == spark.read.parquet(f"{tmp_path}/lake/bronze/records").count()
