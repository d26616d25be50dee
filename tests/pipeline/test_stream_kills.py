"""End the streaming job at ten random points, and start it again, over logs that grow: no loss, no duplicate.

Three of the ten are SIGKILL to the whole process, JVM and all. Seven break the query off in a JVM that goes on, in the
middle of whatever it does: to start a JVM takes longer than all that a query does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from deploy.spark import environment
from quorate.nouns import OffsetAndEpoch
from quorate.pipeline.log_files import find, parts
from quorate.pipeline.rows import RowFilter, read
from tests.pipeline.logs import batches, checkpoint, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)

SEED = 20261121
KILLS = ("process", "query", "query", "process", "query", "query", "process", "query", "query", "query")
WITHIN_S = 1_500
CHANGES_MAX = 24
"""A batch makes some 20 files in the tables and in Spark's checkpoint."""
BATCHES = 2_000
"""Of each log; more than is ever written, however fast the job reads."""
WRITES = 5
LOOKS = 20
"""The logs grow when something was seen of the job, and else now and then, so that it always has something to do."""


class Writer:
    """Two clusters' logs that grow: batches that come in two writes, segments that roll, checkpoints, a replica."""

    def __init__(self, top: Path, random: Random) -> None:
        self.random = random
        self.partitions = [node(top / name, name.partition("-")[0]) for name in ("one-a", "one-b", "two")]
        self.contents = [batches(history(BATCHES), epoch=epoch) for epoch in (1, 1, 4)]
        self.paths = [segment(partition, []) for partition in self.partitions]
        self.written = [0, 0, 0]
        self.halves = [b"", b"", b""]

    def write(self) -> None:
        """Something more in one of the logs."""
        index = self.random.randrange(3)
        if self.halves[index]:
            self._append(index, self.halves[index])
            self.halves[index] = b""
        elif self.written[index] < len(self.contents[index]):
            batch = self.contents[index][self.written[index]]
            offset = self.written[index] + (self.written[index] > 0)  # two records in the first batch
            self.written[index] += 1
            if self.random.random() < 0.05:
                self.paths[index] = segment(self.partitions[index], [], base_offset=offset)
            if self.random.random() < 0.04:
                checkpoint(self.partitions[index], history()[0], OffsetAndEpoch(offset=offset, epoch=1))
            cut = self.random.choice((len(batch), self.random.randrange(1, len(batch))))
            self._append(index, batch[:cut])
            self.halves[index] = batch[cut:]

    def finish(self) -> None:
        """No batch is left half written."""
        for index, half in enumerate(self.halves):
            self._append(index, half)
        self.halves = [b"", b"", b""]

    def _append(self, index: int, data: bytes) -> None:
        with self.paths[index].open("ab") as file:
            file.write(data)


def decoded(logs: Path, kind: str) -> Counter[tuple[Any, ...]]:
    """What the files hold, by the reader without Spark: each record of a log once, whichever replica has it."""
    found: set[tuple[Any, ...]] = set()
    for place in find([str(logs)]):
        for part in parts(place):
            for columns in read(part, RowFilter(failfast=True)):
                named = columns.by_name()
                name = part.fingerprint if kind == "checkpoint" else None
                rows = zip(named["offset"], named["epoch"], named["type"], named["payload"], strict=True)
                found |= {(place.cluster_id, name, *row) for row in rows if place.kind == kind}
    return Counter(found)


def in_bronze(spark: SparkSession, home: Path, table: str) -> Counter[tuple[Any, ...]]:
    """What a table of bronze holds, each row as often as it does."""
    from services.pipeline.tables import ParquetTables

    rows = ParquetTables(spark, str(home / "tables")).read(table)
    if rows is None:
        return Counter()
    name = "fingerprint" if "fingerprint" in rows.columns else "null"
    return Counter(map(tuple, rows.selectExpr("cluster_id", name, "offset", "epoch", "type", "payload").collect()))


class Watch:
    """Counts what changes below a directory: each file that comes is a step of the job."""

    def __init__(self, home: Path, writer: Writer) -> None:
        self.home = home
        self.writer = writer
        self.seen = self._files()

    def until(self, changes: int, is_up: Callable[[], bool]) -> bool:
        """Wait for so many new files, while the logs grow; False if the job has ended by itself before."""
        ends = time.monotonic() + WITHIN_S
        count = looks = 0
        while count < changes:
            if not is_up():
                return False
            assert time.monotonic() < ends, (count, changes)
            new = self._files() - self.seen
            if new or looks % LOOKS == 0:
                for _ in range(WRITES):
                    self.writer.write()
            count += len(new)
            looks += 1
            self.seen |= new
            time.sleep(0.01)
        return True

    def _files(self) -> set[str]:
        return {f"{top}/{name}" for top, _, names in os.walk(self.home) for name in names}


@contextmanager
def job(logs: Path, home: Path, said: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for the command to begin; killed at the end, with all that it has started."""
    with said.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.stream_job", str(logs), str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={**os.environ, **environment(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Story:
    """What is killed: one job, in this process's JVM or in one of its own, with one checkpoint."""

    def __init__(self, spark: SparkSession, top: Path, writer: Writer) -> None:
        self.spark = spark
        self.logs = top / "logs"
        self.home = top / "home"
        self.said = top / "stderr.txt"
        self.writer = writer
        self.home.mkdir()

    def query(self, options: Mapping[str, str], **trigger: Any) -> Any:
        from services.pipeline.bronze.stream import ingest_stream

        tables, kept = str(self.home / "tables"), str(self.home / "checkpoint")
        return ingest_stream(self.spark, tables, str(self.logs), kept, options=options, **trigger)

    def kill_query(self, changes: int) -> bool:
        """Was it running when it was broken off?"""
        from tests.pipeline.stream_job import OPTIONS

        watch = Watch(self.home, self.writer)
        query = self.query(OPTIONS, available_now=False, every_s=0)
        is_up = watch.until(changes, lambda: query.isActive)
        query.stop()
        return is_up

    def kill_process(self, changes: int) -> bool:
        """Was it running when it was killed?"""
        with job(self.logs, self.home, self.said) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline(), self.said.read_text()
            watch = Watch(self.home, self.writer)
            print("go", file=process.stdin, flush=True)
            return watch.until(changes, lambda: process.poll() is None)

    def is_unfinished(self) -> bool:
        """Was a batch begun that is not done?"""
        begun, done = (
            {int(path.name) for path in (self.home / "checkpoint" / part).glob("[0-9]*") if path.name.isdecimal()}
            for part in ("offsets", "commits")
        )
        return bool(begun - done)


def test_killed_ten_times_bronze_is_the_log(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(SEED)
    story = Story(spark, tmp_path, Writer(tmp_path / "logs", random))
    unfinished = 0
    for kill in KILLS:
        changes = random.randrange(1, CHANGES_MAX)
        # On a machine that does too much else, Spark gives up its Python workers: that is no kill of ours.
        while not (story.kill_process if kill == "process" else story.kill_query)(changes):
            pass
        unfinished += story.is_unfinished()
    story.writer.finish()
    # The logs have grown faster than the job read that was killed: what is left comes in as few batches as it can.
    story.query({}, available_now=True).awaitTermination()

    assert unfinished >= len(KILLS) // 3  # or else nothing was broken off in the middle
    assert decoded(story.logs, "log") == in_bronze(spark, story.home, "bronze/records")
    assert decoded(story.logs, "checkpoint") == in_bronze(spark, story.home, "bronze/snapshots")
    assert Counter() == in_bronze(spark, story.home, "bronze/quarantine")
