"""What the benches measure could be a real cluster: it replays, its checkpoint rebuilds it, its replicas are spread."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.records import decode_record
from quorate.storage.snapshots import SnapshotReader
from tests.bench import checkpoint
from tests.bench.synthetic import Shape, cluster, values

SHAPE = Shape(partitions=1050)


def replayed() -> ClusterState:
    state = ClusterState()
    for offset, value in enumerate(values(SHAPE)):
        state.apply(decode_record(value), offset)
    return state


def test_is_as_large_as_it_says() -> None:
    state = replayed()

    assert (1050, 11, 100) == (state.topics.partition_count, len(state.topics), len(state.brokers))
    assert str(SHAPE) == "1,050 partitions in 11 topics on 100 brokers"


def test_is_the_same_in_every_run() -> None:
    assert list(cluster(SHAPE)) == list(cluster(SHAPE))


def test_every_partition_has_its_replicas_in_three_racks() -> None:
    placed = [found.partition.replicas for found in replayed().topics.all()]

    assert {3} == {len({node_id % SHAPE.racks for node_id in replicas}) for replicas in placed}
    assert max(Counter(replicas[0] for replicas in placed).values()) <= 11, "leaders are spread over the brokers"


def test_a_checkpoint_of_it_rebuilds_it(tmp_path: Path) -> None:
    written = checkpoint.write(tmp_path, SHAPE.partitions)
    loaded = checkpoint.load(tmp_path, SHAPE.partitions)
    (path,) = tmp_path.glob("*.checkpoint")
    rebuilt = ClusterState()
    rebuilt.load(map(decode_record, SnapshotReader(path).values()), checkpoint.SNAPSHOT.offset)

    assert written["file_bytes"] == loaded["file_bytes"] == path.stat().st_size
    assert canonical(replayed()) == canonical(rebuilt)
