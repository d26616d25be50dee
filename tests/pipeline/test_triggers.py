"""When a stream of files starts a micro-batch: minOffsetsPerTrigger, maxTriggerDelay, and what is wrong with them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.logs import batches, history, node, segment

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from services.pipeline.source.options import parse
from services.pipeline.source.stream import KraftStreamReader
from services.pipeline.source.triggers import parse_delay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENT = batches(history(20))
"""Batches at the offsets 0, 2, 3, … 21."""


class Moment:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def wall_ns(self) -> int:
        return self.now_ms * 1_000_000


class Stream:
    """A stream of one cluster's log with limits, driven as Spark drives it."""

    def __init__(self, top: Path, **options: object) -> None:
        self.clock = Moment()
        given = {name: str(value) for name, value in options.items()}
        self._reader = KraftStreamReader({"path": str(top), **given}, ["offset"], self.clock)
        self.at: dict[str, Any] = self._reader.initialOffset()

    def reached(self, *, whole: bool = False) -> int:
        """The offset that the next micro-batch ends at."""
        limit = ReadAllAvailable() if whole else self._reader.getDefaultReadLimit()
        self.at = json.loads(json.dumps(self._reader.latestOffset(self.at, limit)))
        return int(self.at["one"]["offset"])

    def prepare(self) -> None:
        self._reader.prepareForTriggerAvailableNow()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A segment that has the offsets 0 and 1."""
    return segment(node(tmp_path / "logs", "one"), CONTENT[:1])


def grow(log: Path, end: int) -> None:
    """Lets the log end at this offset."""
    log.write_bytes(b"".join(CONTENT[: end - 1]))


def test_a_micro_batch_waits_for_enough_offsets_or_for_the_delay(log: Path, tmp_path: Path) -> None:
    stream = Stream(tmp_path / "logs", minOffsetsPerTrigger=5, maxTriggerDelay="10s")
    assert 2 == stream.reached()
    grow(log, 6)
    assert 2 == stream.reached()
    stream.clock.now_ms += 9_999
    assert 2 == stream.reached()
    stream.clock.now_ms += 1
    assert 6 == stream.reached()
    grow(log, 10)
    assert 6 == stream.reached()
    grow(log, 11)
    assert 11 == stream.reached()
    grow(log, 12)
    assert 11 == stream.reached()


def test_the_least_and_the_most_go_together(log: Path, tmp_path: Path) -> None:
    segment(node(tmp_path / "logs" / "idle", "one"), [])
    stream = Stream(tmp_path / "logs", minOffsetsPerTrigger=4, maxOffsetsPerTrigger=4, maxTriggerDelay="10s")
    stream.reached()
    grow(log, 5)
    assert 2 == stream.reached()
    grow(log, 12)
    assert 2 < stream.reached() <= 6


def test_a_trigger_that_ends_the_query_does_not_wait(log: Path, tmp_path: Path) -> None:
    once, available_now = (Stream(tmp_path / "logs", minOffsetsPerTrigger=50) for _ in range(2))
    once.reached()
    available_now.reached()
    grow(log, 6)
    available_now.prepare()
    grow(log, 8)

    assert 8 == once.reached(whole=True)
    assert 6 == available_now.reached()


def test_spark_is_told_the_limit_that_it_knows() -> None:
    def limit(**options: str) -> object:
        return KraftStreamReader({"path": "/", **options}, ["offset"]).getDefaultReadLimit()

    assert ReadAllAvailable() == limit()
    assert ReadMinRows(5) == limit(minOffsetsPerTrigger="5")
    assert ReadMaxRows(9) == limit(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="9")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger is '0'; it is a whole number of 1 or more"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger 9 is above .* 5"),
        ({"maxTriggerDelay": "5s"}, "maxTriggerDelay is '5s' without minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon'; it is a whole number"),
        ({"minOffsetsPerTrigger": "9", "maxTriggerDelay": "-5s"}, "maxTriggerDelay is '-5s'"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss is 'no'; true and false exist"),
        ({"failOnDataloss": "true", "startingOffset": "3"}, "has no option startingOffset: it has path, .*failOnData"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse({"path": "/logs", **options})


def test_a_delay_without_a_unit_is_in_ms() -> None:
    assert [250, 90, 3_000, 120_000, 120_000, 7_200_000, 86_400_000] == [
        parse_delay(each) for each in ("250", "90ms", "3 S", "2m", "2min", " 2h ", "1d")
    ]


@pytest.mark.timeout(1_800)
def test_in_spark_a_query_waits_and_then_goes_on(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    reading = spark.readStream.format("kraft").option("include", "log").option("minOffsetsPerTrigger", "5")
    seen: list[list[int]] = []
    writing = reading.load(str(tmp_path / "logs")).writeStream.option("checkpointLocation", str(tmp_path / "at"))
    query = writing.foreachBatch(
        lambda rows, _: seen.append(sorted(row["offset"] for row in rows.select("offset").collect()))
    ).start()
    try:
        until(lambda: [[0, 1]] == seen)
        grow(log, 6)
        until(lambda: not query.status["isDataAvailable"])
        grow(log, 7)
        until(lambda: len(seen) == 2)
    finally:
        query.stop()

    assert [[0, 1], [2, 3, 4, 5, 6]] == seen


def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds; the bound is against hanging only."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
