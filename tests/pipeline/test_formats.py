"""Another format holds what Parquet holds: the same jobs over the same logs, killed, repeated, compacted.

Each needs a session of its own, so its part of the story is run by a process (`format_story`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deploy.spark import HOW_TO_GET, environment, is_installed
from quorate.nouns import OffsetAndEpoch
from services.pipeline.exits import DONE, FAILED
from tests.pipeline.logs import batches, checkpoint, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(not is_installed(), reason=HOW_TO_GET),
]

ROOT = Path(__file__).parents[2]
OTHERS = ("delta",)
MARK = b"PAR1"
"""With which a file of Parquet ends that is whole."""
WITHIN_S = 1_500


def make_logs(home: Path) -> None:
    """Two clusters; then one of them from another replica, which has a file that overlaps, and is longer."""
    content = batches(history(6))
    segment(node(home / "logs" / "one", "one"), content[:5])
    two = node(home / "logs" / "two", "two")
    segment(two, batches(history(3)))
    checkpoint(two, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    segment(node(home / "more" / "one-b", "one"), content[2:], base_offset=3)


def interpreter(format_: str) -> Path:
    """The Python with the Spark that this format is built for; without it the test is skipped."""
    if not is_installed():
        pytest.skip(HOW_TO_GET)
    from services.pipeline.tables.formats import EXTRAS, FORMATS, jars_of

    extra = FORMATS[format_].extra
    assert extra is not None, format_
    python = EXTRAS / format_ / "env" / "bin" / "python"
    if not python.exists() or not jars_of(format_):
        pytest.skip(f"Spark {extra.spark} and {extra.package} are not in {EXTRAS / format_}: `make spark-formats`")
    return python


def process(format_: str, home: Path, part: str) -> subprocess.Popen[bytes]:
    """A part of the story in a process group of its own."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with (home / f"{part}.log").open("wb") as log:
        return subprocess.Popen(
            [interpreter(format_), "-m", "tests.pipeline.format_story", format_, home, part],
            cwd=ROOT,
            env={**os.environ, **environment(), "PYSPARK_PYTHON": str(interpreter(format_)), "PYTHONPATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def killed_in_an_append(format_: str, home: Path) -> None:
    """Ingest, and then an append that is killed when one of its tasks is done and the other one is not."""
    ran = process(format_, home, "first")
    try:
        deadline = time.monotonic() + WITHIN_S
        while not is_half_written(home):
            assert ran.poll() is None, (home / "first.log").read_text()[-3000:]
            assert time.monotonic() < deadline, (home / "first.log").read_text()[-3000:]
            time.sleep(0.1)
    finally:
        os.killpg(ran.pid, signal.SIGKILL)
        ran.wait()


def is_half_written(home: Path) -> bool:
    """Has a task put a whole file there that no commit has published?"""
    told = home / "first.json"
    files = list((home / "lake" / "bronze" / "records").rglob("*.parquet"))
    published = json.loads(told.read_text())["files"] if told.exists() else len(files)
    return len(files) > published and all(path.read_bytes().endswith(MARK) for path in files)


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The story of Parquet, in the session that there is."""
    from tests.pipeline.format_story import run, story

    home = tmp_path_factory.mktemp("parquet")
    make_logs(home)
    first = run(spark, "parquet", home, "ingest", "--from", str(home / "logs"))
    return {"first": first, **story(spark, "parquet", home)}


@pytest.fixture(scope="module", params=OTHERS)
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The story of another format, whose first process was killed."""
    name: str = request.param
    interpreter(name)
    home = tmp_path_factory.mktemp(name)
    make_logs(home)
    killed_in_an_append(name, home)
    ran = process(name, home, "rest")
    assert 0 == ran.wait(WITHIN_S), (home / "rest.log").read_text()[-3000:]
    first, found = (json.loads((home / f"{part}.json").read_text()) for part in ("first", "found"))
    return {"format": name, "first": first, **found}


def sources_as_names(tables: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Rows without the directory that the test had for itself."""
    return {name: [re.sub(r'"[^" ]*/(logs|more)/', r'"\1/', row) for row in rows] for name, rows in tables.items()}


@pytest.mark.parametrize("step", ["first", "again", "silver", "overlap", "gold", "verify"])
def test_each_job_says_what_it_says_of_parquet(other: Mapping[str, Any], plain: Mapping[str, Any], step: str) -> None:
    without_paths = [re.sub(r"\S*/(logs|more)/", r"\1/", line) for line in plain[step]["said"]]

    assert without_paths == [re.sub(r"\S*/(logs|more)/", r"\1/", line) for line in other[step]["said"]]
    assert plain[step]["code"] == other[step]["code"] == DONE


def test_a_killed_append_has_published_nothing(other: Mapping[str, Any], plain: Mapping[str, Any]) -> None:
    assert ["bronze/records", "bronze/snapshots"] == sorted(other["after the kill"])
    assert sources_as_names(plain["after the kill"]) == sources_as_names(other["after the kill"])


@pytest.mark.parametrize(("when", "count"), [("tables", 20), ("compacted", 2)])
def test_all_tables_hold_the_same_rows(
    other: Mapping[str, Any], plain: Mapping[str, Any], when: str, count: int
) -> None:
    expected, found = sources_as_names(plain[when]), sources_as_names(other[when])

    assert count == len(expected)
    assert expected.keys() == found.keys()
    assert {} == {name: (expected[name], found[name]) for name in expected if expected[name] != found[name]}


@pytest.mark.usefixtures("other")
def test_the_story_is_one_that_tells_something(plain: Mapping[str, Any]) -> None:
    three, one, nothing = "files: 3, 0.0 MB", "files: 1, 0.0 MB", "quarantine: 0 new"

    assert [three, "records: 11 new", "checkpoint records: 4 new", nothing] == plain["first"]["said"]
    assert [three, "records: 0 new", "checkpoint records: 0 new", nothing] == plain["again"]["said"]
    assert [one, "records: 2 new", "checkpoint records: 0 new", nothing] == plain["overlap"]["said"]
    assert plain["tables"]["gold/audit_timeline"]


def test_compaction_leaves_fewer_files(other: Mapping[str, Any]) -> None:
    assert DONE == other["compact"]["code"], other["compact"]
    told = dict(line.split(": ") for line in other["compact"]["said"])
    files = [int(number) for number in re.findall(r"\d+", told["bronze/records"])]

    assert files[0] > files[1] > 0
    assert "nothing to do" == told["bronze/spans"]


def test_tables_of_another_format_are_not_touched(other: Mapping[str, Any]) -> None:
    assert FAILED == other["other format"]["code"]
    words = f"are {other['format']}; one directory has one format"
    assert other["other format"]["said"][0].endswith(words), other["other format"]


@pytest.mark.parametrize(
    ("format_", "words"),
    [
        (
            "delta",
            "and io.delta:delta-spark_4.2_2.13:4.4.0 runs with Spark 4.2 alone; `make spark-formats` brings both",
        ),
        ("iceberg", "is for Spark 4.1, and Spark 4.3.0 does not load it"),
    ],
    ids=["delta", "iceberg"],
)
def test_what_this_spark_cannot_do_is_said_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, format_: str, words: str
) -> None:
    from tests.pipeline.format_story import run

    make_logs(tmp_path)
    ran = run(spark, format_, tmp_path, "ingest", "--from", str(tmp_path / "logs"))

    assert FAILED == ran["code"]
    (said,) = ran["said"]
    assert said.startswith(f"ingest: --format {format_}: "), said
    assert words in said
    assert not (tmp_path / "lake").exists()
