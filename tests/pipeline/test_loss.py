"""Offsets that a snapshot removed before they were read: `failOnDataLoss`, on the directories of our own log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quorate.nouns import OffsetAndEpoch
from quorate.storage.disk_log import DiskLog
from tests.pipeline.logs import batches, checkpoint, history, node, segment

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from services.pipeline.source.kraft import KraftReader
from services.pipeline.source.loss import RANGE, START, DataLoss
from services.pipeline.source.options import parse
from services.pipeline.source.stream import KraftStreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONTENT = batches(history(10))
"""Batches at the offsets 0, 2, 3, … 11."""
Row = tuple[int | None, str | None]


class Voter:
    """A voter's log with a segment for each batch, which a snapshot cleans."""

    def __init__(self, home: Path, cluster: str = "one") -> None:
        self.partition = node(home, cluster)
        self._log = DiskLog(home, segment_bytes=1)

    def append(self, start: int, end: int) -> None:
        """Appends these batches."""
        for batch in CONTENT[start:end]:
            self._log.append(batch)
        self._log.flush()

    def snapshot(self, offset: int) -> None:
        """Writes a snapshot and removes the segments below it."""
        checkpoint(self.partition, history()[0], OffsetAndEpoch(epoch=1, offset=offset))
        for retired in self._log.start_at(OffsetAndEpoch(epoch=1, offset=offset)):
            retired.remove()


class Stream:
    """A stream of the log records, driven as Spark drives it; a reader of each own, as after a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.at: dict[str, Any] = {}

    def plan(self, **options: str) -> tuple[KraftStreamReader, dict[str, Any], dict[str, Any]]:
        """The reader, and the stream offsets of the next micro-batch."""
        given = {"path": str(self._path), "include": "log", **options}
        reader = KraftStreamReader(given, ["offset", "_corrupt"])
        return reader, self.at, json.loads(json.dumps(reader.latestOffset(self.at, ReadAllAvailable())))

    def rows(self, **options: str) -> list[Row]:
        """What the next micro-batch has."""
        reader, start, end = self.plan(**options)
        found = read(reader, reader.partitions(start, end))
        self.at = end
        return found


def read(reader: Any, partitions: Any) -> list[Row]:
    return [
        (row["offset"], row["_corrupt"])
        for each in partitions
        for rows in reader.read(each)
        for row in rows.to_pylist()
    ]


def sound(rows: list[Row]) -> list[int | None]:
    return [offset for offset, corrupt in rows if corrupt is None]


def told(rows: list[Row]) -> list[str]:
    return [corrupt for _, corrupt in rows if corrupt is not None]


def test_a_stream_fails_by_name_and_goes_on_if_it_is_told_to(tmp_path: Path) -> None:
    voter, stream = Voter(tmp_path), Stream(tmp_path)
    voter.append(0, 3)
    assert [0, 1, 2, 3] == sound(stream.rows())
    voter.append(3, 8)
    voter.snapshot(7)

    with pytest.raises(DataLoss) as caught:
        stream.rows()
    assert RANGE == caught.value.getCondition()
    assert "22000" == caught.value.getSqlState()
    text = f"cluster one: offsets 4 to 6 were removed from {voter.partition} before they were read"
    assert f"[{RANGE}] {text}; with failOnDataLoss false the read goes on" in caught.value.getMessage()

    rows = stream.rows(failOnDataLoss="false")
    assert [7, 8] == sound(rows)
    (gap,) = told(rows)
    assert gap.startswith("offsets 4 to 6 are missing")
    voter.append(8, 9)
    assert [9] == sound(stream.rows())


def test_offsets_that_another_replica_has_are_not_lost(tmp_path: Path) -> None:
    """A follower that was down for long continues behind a snapshot; the leader's records were read meanwhile."""
    leader, follower, stream = Voter(tmp_path / "a"), Voter(tmp_path / "b"), Stream(tmp_path)
    leader.append(0, 8)
    follower.append(0, 2)
    stream.rows()
    follower.append(2, 8)
    follower.snapshot(7)

    assert [7, 8] == sound(stream.rows())
    leader.append(8, 10)
    leader.snapshot(10)
    assert [10] == sound(stream.rows())
    follower.append(8, 10)
    assert [9, 10] == sound(stream.rows())


def test_a_log_that_went_after_planning_is_lost(tmp_path: Path) -> None:
    voter, stream = Voter(tmp_path), Stream(tmp_path)
    voter.append(0, 4)
    stream.rows()
    voter.append(4, 8)
    reader, start, end = stream.plan()
    planned = reader.partitions(start, end)
    for each in voter.partition.glob("*.log"):
        each.unlink()

    with pytest.raises(DataLoss, match=r"cluster one: .*\.log was removed before it was read"):
        read(reader, planned)
    with pytest.raises(DataLoss, match="cluster one: offsets 5 to 8 were removed from"):
        reader.partitions(start, end)
    lenient, _, _ = stream.plan(failOnDataLoss="false")
    assert ([], 4) == (sound(read(lenient, planned)), len(told(read(lenient, planned))))
    (row,) = told(read(lenient, lenient.partitions(start, end)))
    assert "offsets 5 to 8 were removed" in row


def test_a_start_below_the_log_fails_by_name(tmp_path: Path) -> None:
    voter = Voter(tmp_path)
    voter.append(0, 8)
    voter.snapshot(5)
    given = {"path": str(tmp_path), "include": "log", "startingOffsets": '{"one": 3}'}
    words = f"offsets 3 to 4 are asked for by startingOffsets and were removed: {voter.partition}"

    for reader in (KraftReader(given, ["offset", "_corrupt"]), KraftStreamReader(given, ["offset", "_corrupt"])):
        with pytest.raises(DataLoss) as caught:
            planned(reader)
        assert START == caught.value.getCondition()
        assert words in str(caught.value)
    for lenient in (KraftReader, KraftStreamReader):
        reader = lenient({**given, "failOnDataLoss": "false"}, ["offset", "_corrupt"])
        rows = read(reader, planned(reader))
        assert [5, 6, 7, 8] == sorted(sound(rows), key=int)  # type: ignore[arg-type]  # a sound row has an offset
        assert words in told(rows)[0]
    for start in ("earliest", '{"one": 5}', '{"one": -2}'):
        whole = KraftReader({**given, "startingOffsets": start}, ["offset", "_corrupt"])
        assert [5, 6, 7, 8] == sound(read(whole, planned(whole)))


def planned(reader: KraftReader | KraftStreamReader) -> Any:
    """The tasks of a batch, or those of a stream's first micro-batch."""
    if isinstance(reader, KraftReader):
        return reader.partitions()
    start = reader.initialOffset()
    return reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    segment(node(tmp_path, "one"), CONTENT)
    for name in ("startingOffsets", "endingOffsets"):
        with pytest.raises(ValueError, match=f"{name} has 3 for cluster two; the clusters there are one"):
            KraftReader({"path": str(tmp_path), name: '{"two": 3}'}, ["offset"]).partitions()


def test_a_running_quorum_that_cleaned_its_log_too_early_is_told_of() -> None:
    from services.pipeline.source.live import LiveLog

    def plan(before: dict[str, Any] | None, **options: str) -> list[Any]:
        live = LiveLog(parse({"endpoints": "localhost:9", **options}), ["offset", "_corrupt"])
        end = {"one": {"offset": 20, "epoch": 1, "snapshot": [10, 1]}}
        return live.ranges({} if before is None else {"one": before}, end)

    read_to_4 = {"offset": 4, "epoch": 1, "snapshot": None}
    asked = {"startingOffsets": '{"one": 4}'}
    with pytest.raises(DataLoss, match="offsets 4 to 9 were removed from kraft://localhost:9 before") as caught:
        plan(read_to_4)
    assert RANGE == caught.value.getCondition()
    with pytest.raises(DataLoss, match=r"offsets 4 to 9 are asked for by startingOffsets .* begins at 10") as caught:
        plan(None, **asked)
    assert START == caught.value.getCondition()
    for before, options in ((read_to_4, {}), (None, asked)):
        lost, _, rest = plan(before, failOnDataLoss="false", **options)
        assert (4, 10) == (lost.start, lost.end)
        assert "offsets 4 to 9" in lost.problem
        assert (10, 20, "") == (rest.start, rest.end, rest.problem)
    assert ["", ""] == [each.problem for each in plan(None)]


@pytest.mark.timeout(1_800)
def test_in_spark_the_condition_is_in_the_error_and_the_row_is_there_instead(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark gives every error of a Python source a condition of its own; the source's stands in the text."""
    from pyspark.errors import PySparkException

    voter, stays = Voter(tmp_path / "logs" / "one"), Voter(tmp_path / "logs" / "two", "two")
    voter.append(0, 3)
    stays.append(0, 3)
    found: list[list[Row]] = []

    def run(**options: str) -> None:
        reading = spark.readStream.format("kraft").option("include", "log").options(**options)
        writing = reading.load(str(tmp_path / "logs")).writeStream.option("checkpointLocation", str(tmp_path / "at"))
        query = writing.foreachBatch(lambda rows, _: found.append(pairs(rows))).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    voter.append(3, 8)
    voter.snapshot(7)
    stays.append(3, 4)
    start = spark.read.format("kraft").option("include", "log").option("startingOffsets", '{"one": 3}')

    with pytest.raises(PySparkException, match=RANGE.replace(".", r"\.")) as streamed:
        run()
    with pytest.raises(PySparkException, match=START.replace(".", r"\.")) as batched:
        start.load(str(tmp_path / "logs")).count()
    for caught in (streamed, batched):
        assert "cluster one: offsets" in str(caught.value)
        assert not (caught.value.getCondition() or "").startswith("KAFKA_DATA_LOSS")
    run(failOnDataLoss="false")
    lenient = pairs(start.option("failOnDataLoss", "false").load(str(tmp_path / "logs")))

    assert [[0, 0, 1, 1, 2, 2, 3, 3], [4, 7, 8]] == [sorted(map(int, sound(rows))) for rows in found]  # type: ignore[arg-type]
    assert ["offsets 4 to 6 are missing"] == [words.partition(",")[0] for words in told(found[-1])]
    assert [0, 1, 2, 3, 4, 7, 8] == sorted(map(int, sound(lenient)))  # type: ignore[arg-type]  # a sound row has one
    assert 1 == len(told(lenient))


def pairs(rows: DataFrame) -> list[Row]:
    return [(row["offset"], row["_corrupt"]) for row in rows.select("offset", "_corrupt").collect()]
