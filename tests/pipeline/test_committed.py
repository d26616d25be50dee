"""The column `commit`, and what bronze knows to be committed: which records count, and which were never committed."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from quorate.pipeline.commitment import Commitment, EpochRange
from quorate.pipeline.log_files import find
from quorate.pipeline.replicas import commitments
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import batches, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.timeout(1_800)

DIVERGED: Final = FIXTURES.parent / "diverged" / "deposed-leader"


def voter(directory: Path, node_id: int, epoch: int) -> Path:
    """A directory of one of three static voters, which is in this epoch."""
    partition = node(directory / str(node_id), "c")
    (directory / str(node_id) / "meta.properties").write_text(f"node.id={node_id}\nversion=1\ncluster.id=c\n")
    voters = [{"voterId": each} for each in (1, 2, 3)]
    state = {"leaderId": 1, "leaderEpoch": epoch, "votedId": -1, "currentVoters": voters, "data_version": 0}
    (partition / "quorum-state").write_text(json.dumps(state))
    return partition


def test_a_later_epoch_that_lost_is_not_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """The leader of epoch 6 wrote where epoch 5 already had records, and the one of epoch 7 went on from those."""
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    old = batches(history(4), epoch=5)
    won = [*old, *batches(history(1)[1:], base_offset=6, epoch=7)]
    for each in (1, 2):
        segment(voter(tmp_path / "logs", each, 7), won)
    segment(voter(tmp_path / "logs", 3, 6), [*old[:2], *batches(history(2)[1:], base_offset=3, epoch=6)])
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    bronze.ingest(logs_of(spark, tmp_path / "logs"), tables)
    records = tables.read(bronze.RECORDS)
    assert records is not None
    found = bronze.divided(records, bronze.known(tables))

    assert [(offset, 5) for offset in range(6)] + [(6, 7)] == epochs_of(found.settled)
    assert [(3, 6), (4, 6)] == epochs_of(found.deposed)


def test_what_is_known_later_holds_for_what_was_read_before(spark: SparkSession, tmp_path: Path) -> None:
    """One voter's log alone says nothing; with the others' its records are committed, and bronze has no new row."""
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    content = batches(history(4), epoch=5)
    for each in (1, 2):
        segment(voter(tmp_path / "logs", each, 5), content)
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    counts = [bronze.ingest(logs_of(spark, tmp_path / "logs" / "1"), tables).records]
    before = bronze.known(tables)
    counts += [bronze.ingest(logs_of(spark, tmp_path / "logs"), tables).records for _ in range(2)]
    table = tables.read(bronze.KNOWN)
    assert table is not None

    assert [6, 0, 0] == counts
    assert {} == before
    assert {"c": Commitment((EpochRange(5, 0, 6),))} == bronze.known(tables)
    assert 1 == table.count()


def cloned(directory: Path) -> None:
    """Production in epoch 1, and a copy of its disks that goes on in epoch 2 behind offset 3, each with its voters."""
    content = batches(history(4))
    for each in (1, 2, 3):
        segment(voter(directory / "production", each, 1), content)
        segment(voter(directory / "copy", each, 2), [*content[:3], *batches(history(1)[1:], base_offset=4, epoch=2)])


def test_a_copy_of_the_disks_beside_its_original_is_not_read(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from quorate.pipeline.twins import TwoClusters
    from services.pipeline.source.kraft import KraftReader
    from services.pipeline.source.stream import KraftStreamReader

    cloned(tmp_path)
    columns = ["offset", "commit", "_corrupt"]
    reader = KraftReader({"path": str(tmp_path)}, columns)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    stream = KraftStreamReader({"path": str(tmp_path)}, columns)
    both = "offset 4 of epoch 2 is committed, and so is offset 5 of epoch 1"
    why = f"two clusters under the id c: {both}, 0 bytes at byte 0"

    assert [(None, why)] == [(row["offset"], row["_corrupt"]) for row in rows]
    ends = stream.latestOffset({}, ReadAllAvailable())
    told = [row["_corrupt"] for part in stream.partitions({}, ends) for b in stream.read(part) for row in b.to_pylist()]
    assert [why] == told
    of_one = KraftStreamReader({"path": str(tmp_path / "production")}, columns).latestOffset({}, ReadAllAvailable())
    of_both = KraftStreamReader({"path": str(tmp_path / "copy")}, columns).latestOffset(of_one, ReadAllAvailable())
    with pytest.raises(TwoClusters, match="and records of both were returned"):
        stream.latestOffset(of_both, ReadAllAvailable())


def test_a_copy_that_is_read_on_another_day_takes_nothing_from_its_original(
    spark: SparkSession, tmp_path: Path
) -> None:
    from services.pipeline import bronze
    from services.pipeline.tables import ParquetTables

    cloned(tmp_path / "logs")
    tables = ParquetTables(spark, str(tmp_path / "tables"))
    for name in ("production", "copy", "copy"):
        bronze.ingest_files(spark, {"path": str(tmp_path / "logs" / name)}, tables)
    records, claims = tables.read(bronze.RECORDS), bronze.standing(tables)
    assert records is not None
    assert claims is not None
    found = bronze.divided(records, bronze.known(tables))

    assert [(offset, 1) for offset in range(6)] == epochs_of(found.settled)
    assert [(4, 2)] == epochs_of(found.deposed)
    assert [
        "two clusters under the id c: offsets from 4 on of epoch 2 are committed, and of epoch 1 those from 0 on were "
        "committed before"
    ] == [row["_corrupt"] for row in claims.collect()]


def test_what_a_deposed_leader_wrote_alone_is_in_no_table_of_what_happened_and_told_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A Kafka leader that was killed with records of its own: 40 for a topic, and one of an idle moment."""
    from services.pipeline import bronze, gold
    from services.pipeline.silver import image
    from services.pipeline.tables import ParquetTables, Remembered

    tables = Remembered(ParquetTables(spark, str(tmp_path / "lake")))
    bronze.ingest(logs_of(spark, DIVERGED), tables)
    records, snapshots = tables.read(bronze.RECORDS), tables.read(bronze.SNAPSHOTS)
    assert records is not None
    assert snapshots is not None
    image.build(records, bronze.whole_snapshots(snapshots), tables)
    gold.build(tables)
    found = {
        path.parent.name: spark.read.parquet(str(path)).collect() for path in tmp_path.glob("lake/*/*/cluster_id=*")
    }
    deposed = sorted((row["offset"], row["type"]) for row in found["deposed"])
    start, end = deposed[0][0], deposed[-1][0] + 1
    ((subject, sentence),) = (
        (row["subject"], row["sentence"]) for row in found["fleet_doctor"] if row["code"] == "DEPOSED_RECORDS"
    )
    told = f"{end - start} records of epoch 1 were never committed: offsets {start} to {end - 1} of "

    assert Counter(TOPIC_RECORD=1, PARTITION_RECORD=39, NO_OP_RECORD=1) == Counter(kind for _, kind in deposed)
    assert list(range(start, end)) == [offset for offset, _ in deposed]
    assert {"committed"} == {row["commit"] for row in found["events"]}
    assert {"events", "topic_history", "audit_timeline"} <= {name for name, rows in found.items() if says(rows, "kept")}
    assert {"deposed", "records"} == {name for name, rows in found.items() if says(rows, "deposed")}
    assert ("epoch 1", told) == (subject, sentence[: len(told)])


def says(rows: Sequence[Row], topic: str) -> bool:
    """Whether any row names the topic, in whichever column."""
    named = re.compile(f'("|topic |^){topic}\\b')
    return any(named.search(json.dumps(row.asDict(recursive=True), default=str)) for row in rows)


def epochs_of(records: DataFrame) -> list[tuple[int, int]]:
    """Offset and epoch of each record."""
    return sorted((row["offset"], row["epoch"]) for row in records.collect())


def commit_of(directory: Path, mode: str = "PERMISSIVE") -> list[dict[str, Any]]:
    """What the reader says of each record: Spark is not asked."""
    from services.pipeline.source.kraft import KraftReader

    columns = ["source", "kind", "offset", "epoch", "commit", "_corrupt"]
    reader = KraftReader({"path": str(directory), "mode": mode}, columns)
    batches = (batch for partition in reader.partitions() for batch in reader.read(partition))
    return [row for batch in batches for row in batch.to_pylist()]


def test_each_record_says_whether_it_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    """Also where damage makes the reader go record by record; damage itself is neither."""
    shutil.copytree(DIVERGED, tmp_path / "sound")
    shutil.copytree(DIVERGED, tmp_path / "damaged")
    (known,) = commitments(find([str(DIVERGED)])).values()
    for log in (tmp_path / "damaged").rglob("*.log"):
        content = log.read_bytes()
        log.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    rows = commit_of(tmp_path / "sound") + commit_of(tmp_path / "damaged")
    states = Counter((row["kind"], row["commit"]) for row in rows)
    damaged = [row for row in rows if row["_corrupt"] is not None]

    assert {"committed"} == {row["commit"] for row in rows if row["kind"] == "checkpoint"}
    assert [None] * 3 == [row["commit"] for row in damaged]
    for row in rows:
        if row["kind"] == "log" and row["_corrupt"] is None:
            assert known.of(row["offset"], row["epoch"]) == row["commit"], row
    # The last batch of the deposed leader has 40 records; in the damaged copy they are one row.
    assert (41 + 1, 3) == (states["log", "uncommitted"], states["log", None])


def logs_of(spark: SparkSession, place: Path) -> DataFrame:
    """The rows of the source."""
    return spark.read.format("kraft").load(str(place))
