"""A green CI run hides no test: what was skipped or left out everywhere is named, and fails it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.outcomes import ENVIRONMENT, ONCE

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import os
import pytest

needs_judge = pytest.mark.skipif("JUDGE" not in os.environ, reason="no judge here")

def test_plain(): pass

@needs_judge
def test_judged(): pass

@needs_judge
def test_judged_too(): pass

def test_broken(): assert False
"""


def run(*words: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_ran_in_no_session_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    outcomes = tmp_path / "outcomes"
    kept = {ENVIRONMENT: str(outcomes)}
    run("pytest", "-p", "no:cacheprovider", "-k", "not judged_too", cwd=tmp_path, **kept)
    before = run("tests.outcomes", "report", str(outcomes), cwd=tmp_path)
    run("pytest", "-p", "no:cacheprovider", "test_it.py::test_judged", cwd=tmp_path, JUDGE="1", **kept)
    between = run("tests.outcomes", "report", str(outcomes), cwd=tmp_path)
    run("pytest", "-p", "no:cacheprovider", cwd=tmp_path, JUDGE="1", **kept)
    after = run("tests.outcomes", "report", str(outcomes), cwd=tmp_path)

    broken = run("tests.outcomes", "failed", str(outcomes), cwd=tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS.replace("assert False", "pass"))
    run("pytest", "-p", "no:cacheprovider", "test_it.py::test_broken", cwd=tmp_path, **kept)
    mended = run("tests.outcomes", "failed", str(outcomes), cwd=tmp_path)

    assert ("test_it.py::test_broken\n", "") == (broken.stdout, mended.stdout)
    assert 1 == before.returncode
    assert "1 ran nowhere: no judge here" in before.stdout
    assert "2 tests ran nowhere" in before.stdout
    assert ["  test_it.py::test_judged_too"] == [line for line in between.stdout.splitlines() if line.startswith("  ")]
    assert (0, "0 tests ran nowhere") == (after.returncode, after.stdout.splitlines()[-1])


def test_what_has_passed_in_an_earlier_call_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_whole.py").write_text("def test_first(): pass\ndef test_second(): pass\n")
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    outcomes = tmp_path / "outcomes"
    kept = {ENVIRONMENT: str(outcomes)}
    run("pytest", "-p", "no:cacheprovider", "-k", "not judged_too", cwd=tmp_path, **kept)
    (tmp_path / "test_whole.py").write_text("assert False, 'nobody reads this file'")

    second = run("pytest", "-v", cwd=tmp_path, JUDGE="1", **{ONCE: str(outcomes)}, **kept)

    names = ("test_plain", "test_judged", "test_judged_too", "test_broken", "nobody")
    ran = [name for name in names if f"::{name} " in second.stdout]
    assert ["test_judged", "test_judged_too", "test_broken"] == ran


BUSY = """
import subprocess, sys

def test_it():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 1.2: pass"])
"""


def test_the_files_that_took_longest_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_quick.py").write_text("def test_it(): pass\n")
    (tmp_path / "test_slow.py").write_text(BUSY)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    outcomes = tmp_path / "outcomes"

    run("pytest", "-n", "2", cwd=tmp_path, **{ENVIRONMENT: str(outcomes)})
    lines = run("tests.outcomes", "dearest", str(outcomes), cwd=tmp_path).stdout.splitlines()

    assert ["test_slow.py", "test_quick.py"] == [line.split()[-1] for line in lines if line.endswith(".py")]
    assert float(lines[0].split()[0]) >= 1
    assert float(lines[0].split()[2]) >= 1
    timed = [file for file in outcomes.glob("*.json") if json.loads(file.read_text())["seconds"]]
    assert 1 == len(timed), "each test is timed once, though a worker has heard of it, too"
