"""`quorate pipeline` becomes the pipeline's own program: its words, its exit codes; or says how to get it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LIBS = Path(__file__).parents[2] / "libs"


def door(*arguments: str, cwd: Path, path: Path | None = None, blocked: str = "") -> subprocess.CompletedProcess[str]:
    """The command as a process of its own in `cwd`; without the packages `blocked` names, as if not installed."""
    program = (
        "import sys, importlib.util as util\n"
        "from quorate.cli import main\n"
        "find = util.find_spec\n"
        f"util.find_spec = lambda name, package=None: None if name == {blocked!r} else find(name, package)\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", program, "pipeline", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(path) if path else ""},
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_is_the_programs_own_wherever_one_stands(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    ran = door("--help", cwd=tmp_path)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.startswith("usage: quorate pipeline [-h] JOB")
    assert "run       ingest or stream, silver, gold, verify, report, in one session" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the following arguments are required: JOB"),
        (("nothing",), "invalid choice: 'nothing'"),
        (("run", "--from", "x", "--to", "y"), "the following arguments are required: --report"),
        (("ingest", "--from", "nowhere", "--to", "y"), "ingest: nowhere: there is no such file or directory"),
        (("compact", "--to", "y", "--before", "today"), "argument --before: 'today' is no day as 2026-11-21"),
        (("gold", "--to", "y", "--min-isr", "0"), "argument --min-isr: '0' is no whole number from 1 to"),
    ],
)
def test_its_exit_code_is_the_doors(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    ran = door(*arguments, cwd=tmp_path)

    assert (2, "") == (ran.returncode, ran.stdout)
    assert words in ran.stderr


def test_without_spark_it_says_how_to_get_it(tmp_path: Path) -> None:
    ran = door("gold", "--to", "x", cwd=tmp_path, blocked="pyspark")

    assert 2 == ran.returncode
    assert [
        "quorate: the pipeline needs Spark, which is not installed here: `make spark-setup` brings it and a Java"
    ] == (ran.stderr.splitlines())


def test_the_library_alone_says_where_the_pipeline_is(tmp_path: Path) -> None:
    """As installed without the checkout: a copy of the packages somewhere else."""
    for package in ("quorate", "kraft"):
        shutil.copytree(LIBS / package, tmp_path / "alone" / package, ignore=shutil.ignore_patterns("__pycache__"))
    ran = door("gold", "--to", "x", cwd=tmp_path, path=tmp_path / "alone")

    assert 2 == ran.returncode
    assert 1 == len(ran.stderr.splitlines()), ran.stderr
    assert "quorate: the pipeline is not installed here: services.pipeline can not be imported" in ran.stderr
