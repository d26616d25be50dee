"""A snapshot that comes in pieces is one state in the end, whatever the pieces; half of it is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.service.quorum_pb2 import ListenResponse
from quorate.controller.engine.engine import Engine
from quorate.errors import Corrupt
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.nouns import OffsetAndEpoch
from quorate.records import NoOpRecord, TopicRecord, decode_record
from quorate.storage.names import checkpoint_file
from services.controller.snapshot_loading import SnapshotLoading
from tests.bench.controller_nodes import write_checkpoint
from tests.bench.synthetic import Shape, cluster, values

SHAPE = Shape(partitions=50, brokers=6)
END = OffsetAndEpoch(epoch=1, offset=1)


def chunks(data: bytes, size: int) -> Iterator[ListenResponse.SnapshotChunk]:
    for at in range(0, len(data), size):
        yield ListenResponse.SnapshotChunk(
            end_offset=END.offset, epoch=END.epoch, data=data[at : at + size], last=at + size >= len(data)
        )


@pytest.fixture
def snapshot(tmp_path: Path) -> bytes:
    write_checkpoint(SHAPE, [tmp_path])
    return checkpoint_file(tmp_path, END).read_bytes()


@pytest.fixture
def whole() -> str:
    state = ClusterState()
    state.load(map(decode_record, values(SHAPE)), END.offset)
    return canonical(state)


@pytest.mark.parametrize("size", [1, 60, 61, 1_000, 1 << 20])
async def test_pieces_of_any_size_make_the_whole(snapshot: bytes, whole: str, size: int) -> None:
    engine = Engine(ClusterState())
    loading = SnapshotLoading(engine)
    for chunk in chunks(snapshot, size):
        await loading.take(chunk)

    assert (END.offset, whole) == (engine.next_offset, canonical(engine.state))


async def test_a_second_snapshot_takes_the_place_of_the_first(snapshot: bytes, whole: str) -> None:
    engine = Engine(ClusterState())
    loading = SnapshotLoading(engine)
    for _ in range(2):
        for chunk in chunks(snapshot, 1_000):
            await loading.take(chunk)

    assert whole == canonical(engine.state)


async def test_half_a_snapshot_leaves_nothing_and_the_log_is_heard_from_its_beginning(
    snapshot: bytes, whole: str
) -> None:
    engine = Engine(ClusterState())
    loading = SnapshotLoading(engine)
    first, *_ = chunks(snapshot, len(snapshot) - 1)
    await loading.take(first)
    loading.give_up()
    stood_at, left = engine.next_offset, engine.state == ClusterState()
    engine.replay([NoOpRecord()], base_offset=0, end_offset=1)
    loading.give_up()
    replayed = engine.next_offset
    for chunk in chunks(snapshot, 1_000):
        await loading.take(chunk)

    assert (0, True, 1) == (stood_at, left, replayed)
    assert whole == canonical(engine.state)


async def test_the_end_of_a_snapshot_is_the_end_of_a_batch(snapshot: bytes) -> None:
    (chunk,) = chunks(snapshot[:-1], 1 << 20)
    with pytest.raises(Corrupt, match="a snapshot ends with"):
        await SnapshotLoading(Engine(ClusterState())).take(chunk)


async def test_what_was_known_before_is_gone(snapshot: bytes, whole: str) -> None:
    engine = Engine(ClusterState())
    topic = next(record for record in cluster(SHAPE) if isinstance(record, TopicRecord))
    engine.replay([topic], base_offset=0, end_offset=1)
    loading = SnapshotLoading(engine)
    for chunk in chunks(snapshot, 1_000):
        await loading.take(chunk)

    assert whole == canonical(engine.state)
