"""The source `kraft` as a stream in Spark: offsets, read limits, AvailableNow, restarts; and bronze as by a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quorate.nouns import OffsetAndEpoch
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import batches, checkpoint, flipped, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.timeout(1_800)

THREE = FIXTURES / "three-dynamic"


class Job:
    """The streaming job into bronze, run until nothing is new; and what it gave in each batch."""

    def __init__(self, spark: SparkSession, top: Path, home: Path) -> None:
        self.spark = spark
        self.top = top
        self.home = home
        self.batches: list[tuple[int, Any]] = []

    def run(self, **options: object) -> dict[str, Any]:
        """Where the stream stands at its end."""
        from services.pipeline.bronze.stream import ingest_stream

        query = ingest_stream(
            self.spark,
            str(self.home / "tables"),
            str(self.top),
            str(self.home / "checkpoint"),
            options={name: str(value) for name, value in options.items()},
            available_now=True,
            on_batch=lambda number, counts: self.batches.append((number, counts)),
        )
        query.awaitTermination()
        progress = query.lastProgress
        return {} if progress is None else json.loads(progress["sources"][0]["endOffset"] or "{}")

    def table(self, name: str) -> list[Row]:
        return table(self.spark, self.home, name)


def table(spark: SparkSession, home: Path, name: str) -> list[Row]:
    """All rows of a table of bronze but for their files, in an order."""
    from services.pipeline.tables import ParquetTables

    found = ParquetTables(spark, str(home / "tables")).read(f"bronze/{name}")
    return [] if found is None else sorted(found.drop("source").collect(), key=str)


def by_batch(spark: SparkSession, top: Path, home: Path, **options: object) -> None:
    """Bronze of all files in one go."""
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    given = {name: str(value) for name, value in options.items()}
    rows = spark.read.format("kraft").options(**given).load(str(top))
    bronze.ingest(rows, ParquetTables(spark, str(home / "tables")))


def test_bronze_of_a_real_cluster_is_that_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, THREE, tmp_path / "stream")
    job.run(maxOffsetsPerTrigger=600, settleMs=0)
    by_batch(spark, THREE, tmp_path / "batch")

    assert len(job.batches) >= 3
    for name in ("records", "snapshots", "quarantine"):
        expected = table(spark, tmp_path / "batch", name)
        assert expected == job.table(name)
        assert name == "quarantine" or expected


def test_a_run_goes_on_where_the_last_one_ended(spark: SparkSession, tmp_path: Path) -> None:
    content = batches(history(6))
    logs = tmp_path / "logs"
    path = segment(node(logs / "one", "one"), content[:3])
    job = Job(spark, logs, tmp_path)
    first = job.run()
    with path.open("ab") as file:
        file.write(b"".join(content[3:]))
    segment(node(logs / "two", "two"), batches(history(1), epoch=7))
    second = job.run()
    job.run()

    assert {"one": (4, 1)} == {cluster: (each["offset"], each["epoch"]) for cluster, each in first.items()}
    assert {"one": (8, 1), "two": (3, 7)} == {name: (each["offset"], each["epoch"]) for name, each in second.items()}
    assert [(0, 4), (1, 4 + 3)] == [(number, counts.records) for number, counts in job.batches]


def test_what_a_killed_job_had_written_and_not_put_in_place_never_comes_up(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop's committer puts in place all finished tasks of its directory, which is the same for all jobs of Spark."""
    content = batches(history(4))
    logs = tmp_path / "logs"
    path = segment(node(logs, "one"), content[:3])
    job = Job(spark, logs, tmp_path)
    job.run()
    records = tmp_path / "tables" / "bronze" / "records"
    (written,) = records.rglob("*.parquet")
    left = records / "_temporary" / "0" / "task_202611210000000000000000000000000_0001_m_000000"
    copy = left / written.relative_to(records).parent / f"of-a-killed-job-{written.name}"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(written.read_bytes())
    with path.open("ab") as file:
        file.write(b"".join(content[3:]))
    job.run()

    assert list(range(6)) == sorted(row["offset"] for row in job.table("records"))


def test_damage_is_quarantined_once_and_the_rest_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    content = batches(history(4))
    logs = tmp_path / "logs"
    segment(node(logs / "middle", "damaged-middle"), [*content[:2], flipped(content[2]), *content[3:]])
    segment(node(logs / "tail", "damaged-tail"), [*content[:-1], content[-1][:-7]])
    sound = node(logs / "sound", "sound")
    segment(sound, content)
    half = checkpoint(sound, history()[0], OffsetAndEpoch(offset=2, epoch=1))
    half.rename(f"{half}.part")
    stranger = node(logs / "stranger", "one")
    segment(stranger, content)
    (stranger / "meta.properties").write_text("node.id=1\nversion=1\ncluster.id=another\n")
    job = Job(spark, logs, tmp_path / "stream")
    job.run()
    waiting = {row["cluster_id"] for row in job.table("quarantine")}
    job.run(settleMs=0)
    job.run(settleMs=0)
    by_batch(spark, logs, tmp_path / "batch", settleMs=0)
    told = {row["cluster_id"]: row["_corrupt"] for row in job.table("quarantine")}

    assert {"damaged-middle", "stranger"} == waiting
    assert {"damaged-middle", "damaged-tail", "sound", "stranger"} == set(told)
    assert "at offset 5: batch of" in told["damaged-tail"]
    assert "not whole" in told["sound"]
    assert "two clusters in one place" in told["stranger"]
    assert [5 + 5 + 6, 0] == [counts.records for _, counts in job.batches]
    for name in ("records", "quarantine"):
        assert table(spark, tmp_path / "batch", name) == job.table(name)


def test_of_two_clusters_under_one_id_nothing_more_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """The one that was there first is kept as far as it was read; the other clusters go on."""
    logs = tmp_path / "logs"
    sound = segment(node(logs / "sound", "sound"), batches(history(0)))
    first = segment(node(logs / "b", "c"), batches(history(2)))
    job = Job(spark, logs, tmp_path)
    job.run()
    twin = segment(node(logs / "a", "c"), batches(history(2, name="payments")))
    for path in (sound, first):
        path.write_bytes(b"".join(batches(history(4))))
    job.run()
    job.run()

    offsets = [(row["cluster_id"], row["offset"]) for row in job.table("records")]
    assert [("c", at) for at in range(4)] + [("sound", at) for at in range(6)] == sorted(offsets)
    (told,) = job.table("quarantine")
    assert f"two clusters under the id c: {first} and {twin} differ at offset 0 of epoch 1" in told["_corrupt"]
    twin.unlink()
    job.run()
    assert [0, 1, 2, 3, 4, 5] == [row["offset"] for row in job.table("records") if row["cluster_id"] == "c"]


def test_an_epoch_that_goes_back_ends_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    logs = tmp_path / "logs"
    path = segment(node(logs, "one"), batches(history(4), epoch=3))
    job = Job(spark, logs, tmp_path)
    job.run()
    path.write_bytes(b"".join(batches(history(6), epoch=2)))

    with pytest.raises(StreamingQueryException, match=r"cluster one: epoch went back at offset 5: .*epoch 2.*epoch 3"):
        job.run()


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        ({"startOffset": 2, "endOffset": 5}, [2, 3, 4]),
        ({"recordTypes": "TOPIC_RECORD"}, [0]),
        ({"maxOffsetsPerTrigger": 1, "include": "log"}, list(range(6))),
    ],
)
def test_options_are_those_of_a_batch(
    spark: SparkSession, tmp_path: Path, options: dict[str, object], offsets: list[int]
) -> None:
    partition = node(tmp_path / "logs", "one")
    segment(partition, batches(history(4)))
    Job(spark, tmp_path / "logs", tmp_path / "stream").run(**options)

    assert offsets == sorted(row["offset"] for row in table(spark, tmp_path / "stream", "records"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'"),
        ({"settleMs": "soon"}, "settleMs is 'soon'"),
        ({"endpoints": "localhost"}, "endpoints has 'localhost'"),
        ({"endpoints": "localhost:1"}, "needs one of: a path"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: dict[str, str], words: str) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from services.pipeline.source.stream import KraftStreamReader

    with pytest.raises(ValueError, match=words):
        KraftStreamReader({"path": str(tmp_path), **options}, ["offset"])
