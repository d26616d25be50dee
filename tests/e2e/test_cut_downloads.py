"""A joiner that knows one bootstrap address, and whose first snapshot was cut: it goes on, from any leader."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from kraft.service.quorum_pb2 import AppendRequest, AppendResponse, CreateSnapshotRequest, TransferLeadershipRequest
from quorate.errors import ErrorCode
from quorate.nouns import Epoch, Offset, OffsetAndEpoch, ReplicaKey
from quorate.raft import messages as raft
from quorate.records import ConfigRecord, encode_record
from quorate.storage.failpoints import ENVIRONMENT as FAILPOINTS
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_ids
from services.quorum import translate
from tests.e2e.cluster import eventually
from tests.e2e.voters import Nodes, planned, three

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]

JOINER: Final = 4
PIECE_BYTES: Final = "controller.quorum.fetch.snapshot.max.bytes"
FORGETFUL: Final = {
    "metadata.max.retention.bytes": "1000",
    "metadata.log.cleaning.interval.ms": "100",
    "file.delete.delay.ms": "0",
}
VALUES: Final = [
    encode_record(ConfigRecord(resource_type=2, resource_name="a", name=f"name-{number}", value="v" * 1000), 0)
    for number in range(300)
]
"""What the snapshot holds: 300 KB, so that a download has many pieces."""


@pytest_asyncio.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = planned(tmp_path, count=JOINER)
    for node in nodes.plan.quorum[:-1]:
        node.settings.update(FORGETFUL)
    nodes[JOINER].settings[PIECE_BYTES] = "4000"
    nodes[JOINER].settings["controller.quorum.bootstrap.servers"] = nodes[1].address
    try:
        yield nodes
    finally:
        await nodes.stop()


async def write(nodes: Nodes, leader: int) -> OffsetAndEpoch:
    """One record more, which all voters have; where the log ends then."""
    view = await nodes.find(leader)
    answer = await append(nodes, leader, view.leader_epoch, view.high_watermark)
    if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # the log ends above the high watermark, at what it names
        answer = await append(nodes, leader, view.leader_epoch, answer.end_offset)

    assert not answer.error_code, answer

    await has(nodes, leader, answer.end_offset)
    return OffsetAndEpoch(offset=answer.end_offset, epoch=view.leader_epoch)


async def append(nodes: Nodes, leader: int, epoch: Epoch, base_offset: Offset) -> AppendResponse:
    """Appends a record at the offset."""
    stream = nodes.client(leader).Append()
    await stream.write(AppendRequest(epoch=epoch, base_offset=base_offset, values=VALUES[:1]))
    answer = await stream.read()
    await stream.done_writing()

    assert isinstance(answer, AppendResponse), answer
    return answer


async def has(nodes: Nodes, node_id: int, end: Offset) -> None:
    """The node comes to have all that is committed below `end`."""
    await eventually(lambda: nodes.find(node_id), lambda view: view.high_watermark >= end, within_s=60)


async def forget_the_log(nodes: Nodes, leader: int, *voters: int) -> Offset:
    """These voters have nothing but a snapshot; where it ends."""
    for _ in range(2):  # the cleaner keeps the last one of two
        end = await write(nodes, leader)
        for node_id in voters:
            await has(nodes, node_id, end.offset)
            pieces = [CreateSnapshotRequest(end_offset=end.offset, epoch=end.epoch, values=VALUES[:150])]
            pieces += [CreateSnapshotRequest(values=VALUES[150:]), CreateSnapshotRequest()]
            await nodes.client(node_id).CreateSnapshot(iter(pieces), timeout=10)
    for node_id in voters:
        oldest = partition(nodes, node_id)
        await eventually(lambda oldest=oldest: checkpoints(oldest), lambda ids: ids == [end])  # type: ignore[misc]
    newcomer = raft.FetchRequest(
        epoch=end.epoch, replica=ReplicaKey(9), fetch_offset=0, last_fetched_epoch=0, max_bytes=1000, max_wait_ms=0
    )
    answer = await nodes.stub(leader).Fetch(translate.to_fetch(newcomer), timeout=10)

    assert end == translate.from_fetch(answer, None).snapshot_id
    return end.offset


def partition(nodes: Nodes, node_id: int) -> Path:
    return nodes.plan.log_dir(node_id) / PARTITION_DIRECTORY


async def checkpoints(directory: Path) -> list[OffsetAndEpoch]:
    return [each for each in checkpoint_ids(directory) if each.offset]


async def cut(nodes: Nodes, died_at: str) -> None:
    """The joiner begins its download, and dies."""
    await nodes.format(JOINER)
    await nodes.running.spawn(nodes[JOINER], environ={FAILPOINTS: died_at})

    assert -signal.SIGKILL == await nodes.running.ended(nodes[JOINER])


@pytest.mark.parametrize(
    "died_at", ["snapshot.chunk_received:kill@40", "snapshot.before_rename:kill", "snapshot.after_rename:kill"]
)
async def test_it_goes_on_from_the_leader(nodes: Nodes, died_at: str) -> None:
    """It knows epoch and leader, and no voter: only by the bootstrap server can it learn where the leader listens."""
    await nodes.start(1)
    await nodes.leader(1)
    await forget_the_log(nodes, 1, 1)
    await cut(nodes, died_at)
    end = await write(nodes, 1)

    await nodes.start(JOINER)
    await has(nodes, JOINER, end.offset)

    assert 1 == (await nodes.find(JOINER)).leader_id
    assert (await nodes.find(1)).high_watermark == (await nodes.find(JOINER)).high_watermark


async def test_it_goes_on_from_the_next_leader_after_the_end_of_the_only_one_that_it_was_told_of(nodes: Nodes) -> None:
    """The bootstrap server says where the next leader listens, and then ends, too, in the midst of the download."""
    await three(nodes)
    await forget_the_log(nodes, 1, 1, 2)
    await cut(nodes, "snapshot.chunk_received:kill@20")
    moved = await nodes.stub(1).TransferLeadership(TransferLeadershipRequest(voter_id=2), timeout=20)

    assert not moved.error_code, moved

    await nodes.leader(1, 2, 3)
    nodes[JOINER].settings[PIECE_BYTES] = "500"
    await nodes.start(JOINER)
    await eventually(lambda: nodes.find(JOINER), lambda view: view.leader_id == 2)
    await nodes.running.kill(nodes[1])

    assert 0 == (await nodes.find(JOINER)).high_watermark  # the snapshot is not there yet

    end = await write(nodes, 2)
    await has(nodes, JOINER, end.offset)
