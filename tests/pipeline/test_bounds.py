"""From where to where the source `kraft` reads: the options of Spark's source for Kafka, for batches and streams."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.pipeline.logs import NOON_MS, batches, history, node, segment

pytest.importorskip("pyspark", reason="Spark is not installed: `make spark-setup`")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from services.pipeline.source.columns import Bundle
from services.pipeline.source.kraft import KraftReader
from services.pipeline.source.stream import KraftStreamReader

MINUTE_MS = 60_000
Rows = set[tuple[str, int]]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two clusters with the offsets 0 to 5 each: two records at noon, and one each minute after."""
    for cluster in ("one", "two"):
        segment(node(tmp_path / cluster, cluster), batches(history(4)))
    return tmp_path


def batch(path: Path, **options: object) -> Rows:
    """The rows that a batch reads, by cluster and offset."""
    given = {name: str(value) for name, value in options.items()}
    reader = KraftReader({"path": str(path), **given}, ["cluster_id", "offset"])
    return {row for partition in reader.partitions() for found in reader.read(partition) for row in pairs(found)}


def pairs(found: object) -> list[tuple[str, int]]:
    """The rows of an Arrow batch."""
    columns: Mapping[str, list[object]] = found.to_pydict()  # type: ignore[attr-defined]  # PyArrow has no types
    return list(zip(columns["cluster_id"], columns["offset"], strict=True))  # type: ignore[arg-type]


class Stream:
    """A stream over files, driven as Spark drives it."""

    def __init__(self, path: Path, **options: str) -> None:
        self._reader = KraftStreamReader({"path": str(path), **options}, ["cluster_id", "offset"])
        self._at = self._reader.initialOffset()

    def rows(self) -> Rows:
        """What came since the last call; the stream offset passes through JSON, as in a checkpoint of Spark."""
        end = json.loads(json.dumps(self._reader.latestOffset(self._at, ReadAllAvailable())))
        partitions = self._reader.partitions(self._at, end)
        self._at = end
        bundles = [each for each in partitions if isinstance(each, Bundle)]
        return {row for bundle in bundles for found in self._reader.read(bundle) for row in pairs(found)}


def between(cluster: str, start: int, end: int) -> Rows:
    return {(cluster, offset) for offset in range(start, end)}


def test_a_batch_reads_each_cluster_within_its_own_bounds(logs: Path) -> None:
    one, two = between("one", 0, 6), between("two", 0, 6)

    assert one | two == batch(logs)
    assert one | two == batch(logs, startingOffsets="earliest", endingOffsets="latest")
    assert between("one", 3, 6) | two == batch(logs, startingOffsets='{"one": 3}')
    assert between("one", 3, 4) | between("two", 0, 2) == batch(
        logs, startingOffsets='{"one": 3, "two": -2}', endingOffsets='{"one": 4, "two": 2}'
    )
    assert one | between("two", 0, 5) == batch(logs, endingOffsets='{"one": -1, "two": 5}')


def test_a_batch_reads_what_was_written_between_two_moments(logs: Path) -> None:
    later, much_later = NOON_MS + MINUTE_MS, NOON_MS + 3 * MINUTE_MS

    assert between("one", 2, 6) | between("two", 2, 6) == batch(logs, startingTimestamp=later)
    assert between("one", 2, 4) | between("two", 2, 4) == batch(
        logs, startingTimestamp=later, endingTimestamp=much_later
    )


def test_a_stream_starts_at_the_present_end_of_the_clusters_that_it_is_told(logs: Path) -> None:
    of_all, of_one = Stream(logs, startingOffsets="latest"), Stream(logs, startingOffsets='{"one": -1, "two": 4}')
    assert set() == of_all.rows()
    assert between("two", 4, 6) == of_one.rows()

    for cluster in ("one", "two"):
        partition = next((logs / cluster).rglob("*.log"))
        partition.write_bytes(partition.read_bytes() + b"".join(batches(history(0), base_offset=6)))

    assert between("one", 6, 8) | between("two", 6, 8) == of_all.rows()
    assert between("one", 6, 8) | between("two", 6, 8) == of_one.rows()
    assert set() == of_all.rows()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "newest"}, "startingOffsets is 'newest'; it is earliest or latest, or JSON"),
        ({"startingOffsets": "[3]"}, r"startingOffsets is '\[3\]'"),
        ({"startingOffsets": '{"one": -3}'}, "startingOffsets has -3 for cluster one"),
        ({"startingOffsets": '{"one": "3"}'}, "startingOffsets has '3' for cluster one"),
        ({"endingOffsets": "earliest"}, "endingOffsets is 'earliest'; it is latest, or JSON"),
        ({"endingOffsets": '{"one": -2}'}, "endingOffsets has -2 for cluster one"),
        ({"startingOffsets": '{"one": 5}', "endingOffsets": '{"one": 3}'}, "3 for cluster one, below .* 5"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is 'noon'; it is a whole number of ms"),
        ({"startingOffsets": "earliest", "startOffset": "3"}, "startingOffsets and startOffset are set"),
        ({"endingTimestamp": "3", "endOffset": "3"}, "endingTimestamp and endOffset are set"),
    ],
)
def test_a_wrong_bound_is_named(logs: Path, options: dict[str, str], words: str) -> None:
    for reader in (KraftReader, KraftStreamReader):
        with pytest.raises(ValueError, match=words):
            reader({"path": str(logs), **options}, ["offset"])


def test_a_batch_has_no_start_at_the_end_and_a_stream_no_end(logs: Path) -> None:
    for latest in ("latest", '{"one": -1}'):
        with pytest.raises(ValueError, match="startingOffsets is latest; a batch would have no rows"):
            KraftReader({"path": str(logs), "startingOffsets": latest}, ["offset"])
    for ending in ({"endingOffsets": "latest"}, {"endingTimestamp": "3"}):
        with pytest.raises(ValueError, match=f"{next(iter(ending))} is set; a stream has no end"):
            KraftStreamReader({"path": str(logs), **ending}, ["offset"])
