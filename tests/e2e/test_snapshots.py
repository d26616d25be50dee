"""Tiny limits under load: every node makes snapshots and cleans its log, and who comes too late is given one."""

from __future__ import annotations

import signal
from itertools import count, permutations
from pathlib import Path

import pytest

from quorate.cli.offline import load
from quorate.metadata.canonical import canonical
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, Offset, OffsetAndEpoch
from quorate.records import decode_record
from quorate.storage.names import DELETED, PARTITION_DIRECTORY, checkpoint_file, checkpoint_ids, segment_bases
from quorate.storage.snapshots import SnapshotReader
from tests.e2e.calls import eventually
from tests.e2e.cluster import VOTERS, Cluster, others
from tests.e2e.offline import scan, stored_log
from tests.e2e.writer import caught_up

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

TINY = {
    "metadata.max.retention.bytes": "12000",
    "metadata.log.cleaning.interval.ms": "200",
    "file.delete.delay.ms": "300",
    "controller.quorum.fetch.snapshot.max.bytes": "700",
}
QUORUM_SETTINGS = {1: TINY, 2: TINY, 3: TINY}
CONTROLLER_SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "3000"}

NAMES = (f"topic-{number}" for number in count())


def partition(cluster: Cluster, node_id: NodeId) -> Path:
    return cluster.plan.log_dir(node_id) / PARTITION_DIRECTORY


def first_base(cluster: Cluster, node_id: NodeId) -> Offset:
    return segment_bases(partition(cluster, node_id))[0]


async def write(cluster: Cluster) -> None:
    """Ten topics more."""
    names = [next(NAMES) for _ in range(10)]
    answer = await cluster.create(*names, at=await cluster.active())

    assert [0] * 10 == [topic.error_code for topic in answer.topics]


async def test_every_node_makes_snapshots_and_forgets_the_log_before_them(cluster: Cluster) -> None:
    async def begin() -> list[Offset]:
        await write(cluster)
        return [first_base(cluster, node_id) for node_id in VOTERS]

    await eventually(begin, all)

    async def bases() -> list[tuple[Offset, Offset]]:
        oldest = [checkpoint_ids(partition(cluster, node_id))[0] for node_id in VOTERS]
        return [(first_base(cluster, node_id), oldest[node_id - 1].offset) for node_id in VOTERS]

    # First the log is cut and then the checkpoints go; both lie on the disk for a moment.
    await eventually(bases, lambda found: all(base <= oldest for base, oldest in found))


async def test_who_was_away_too_long_is_given_a_snapshot(cluster: Cluster) -> None:
    leader = await cluster.active()
    late = min(others(leader))
    await cluster.kill(cluster.plan.observer)
    await cluster.kill(cluster.controller(late), signal.SIGTERM)
    await cluster.kill(cluster.quorum(late), signal.SIGTERM)
    leo = stored_log(cluster.plan.log_dir(late))[-1].end_offset

    async def begin() -> Offset:
        await write(cluster)
        return min(first_base(cluster, node_id) for node_id in others(late))

    await eventually(begin, lambda base: base > leo)
    await cluster.heal()
    await caught_up(cluster)

    assert first_base(cluster, late) > leo
    expected = await cluster.topics(at=await cluster.active())
    assert expected == await cluster.topics(at=late)
    assert expected.keys() == (await eventually(cluster.topics, lambda topics: topics.keys() == expected.keys())).keys()


async def test_in_the_end_all_say_the_same_at_every_offset(cluster: Cluster) -> None:
    """A snapshot of one node is what the snapshots and logs of the others say up to there (I-25, I-26)."""
    await cluster.end_voters()
    directories = [cluster.plan.log_dir(node_id) for node_id in VOTERS]

    scan(directories, cluster_id=cluster.plan.cluster_id)
    compared = 0
    for directory, other in permutations(directories, 2):
        for snapshot in checkpoint_ids(directory / PARTITION_DIRECTORY):
            if starts_before(other, snapshot):
                compared += 1
                theirs = load(other, as_of=snapshot.offset).state
                assert canonical(theirs) == canonical(in_checkpoint(directory, snapshot)), (directory, other, snapshot)
    assert compared


async def test_what_was_removed_is_gone(cluster: Cluster) -> None:
    await cluster.heal()

    async def left() -> list[Path]:
        return [path for node_id in VOTERS for path in partition(cluster, node_id).glob(f"*{DELETED}")]

    await eventually(left, lambda paths: not paths)


def in_checkpoint(directory: Path, snapshot: OffsetAndEpoch) -> ClusterState:
    reader = SnapshotReader(checkpoint_file(directory / PARTITION_DIRECTORY, snapshot))
    state = ClusterState()
    state.load(map(decode_record, reader.values()), snapshot.offset)
    reader.close()
    return state


def starts_before(directory: Path, snapshot: OffsetAndEpoch) -> bool:
    """Has this node the log that the snapshot is of, and a state before it?"""
    kept = checkpoint_ids(directory / PARTITION_DIRECTORY)
    return kept[0].offset <= snapshot.offset <= stored_log(directory)[-1].end_offset
