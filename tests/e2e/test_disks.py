"""What happens to the disk of a node that is down: a tail torn off, a bit flipped, all of it gone. The others go on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from deploy.local.plan import Process
from kraft.service.quorum_pb2 import CreateSnapshotRequest
from kraft.service.quorum_pb2_grpc import RaftClientStub
from quorate.cli.offline import load
from quorate.nouns import NodeId, OffsetAndEpoch
from quorate.records import encode_record
from quorate.runtime.event_loop.loop import ExitCode
from quorate.storage.names import (
    DAMAGED,
    DURABLE_MARK,
    LOG,
    META_PROPERTIES,
    PARTITION_DIRECTORY,
    PROMISE,
    QUORUM_STATE,
    checkpoint_file,
    segment_bases,
    segment_file,
)
from tests.e2e.calls import WITHIN_S
from tests.e2e.cluster import Cluster, others
from tests.e2e.offline import stored_log
from tests.e2e.starting import content, start
from tests.e2e.writer import Writer, caught_up, check, writing

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

SEED = 853
CUTS = sorted(random.Random(SEED).sample(range(1, 1025), 3))


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def healed(cluster: Cluster) -> None:
    await cluster.heal()
    await caught_up(cluster)


async def some_follower(cluster: Cluster) -> NodeId:
    return min(others(await cluster.active()))


def last_segment(cluster: Cluster, node_id: NodeId) -> Path:
    partition = cluster.plan.log_dir(node_id) / PARTITION_DIRECTORY
    return segment_file(partition, segment_bases(partition)[-1], LOG)


def flip(path: Path, position: int) -> None:
    """One bit."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.chmod(0o600)  # a checkpoint is read-only
    path.write_bytes(data)


@contextmanager
def flipped(path: Path, position: int) -> Iterator[None]:
    """For the length of the block."""
    flip(path, position)
    try:
        yield
    finally:
        flip(path, position)


async def refused(cluster: Cluster, process: Process, *named: str, marked: bool = False) -> None:
    """The node does not start, says what is wrong where, and changes nothing; the mark of a sound log may go on."""
    log_dir = Path(process.settings["metadata.log.dir"])
    ignored = {f"{PARTITION_DIRECTORY}/{DURABLE_MARK}"} if marked else set()
    before = {name: data for name, data in content(log_dir).items() if name not in ignored}
    ended = await start("quorum", process.settings, cluster.plan.directory)

    assert ExitCode.CORRUPT == ended.code
    assert 1 == len(ended.fatal), ended.fatal
    assert [] == [part for part in named if part not in ended.fatal[0]], ended.fatal
    assert before == {name: data for name, data in content(log_dir).items() if name not in ignored}


@pytest.mark.parametrize("cut", CUTS)
async def test_a_torn_tail_is_cut_and_fetched_again(cluster: Cluster, writer: Writer, cut: int) -> None:
    node_id = await some_follower(cluster)
    async with writing(writer, f"torn-{cut}"):
        await cluster.kill(cluster.quorum(node_id))
        path = last_segment(cluster, node_id)
        whole = path.read_bytes()
        path.write_bytes(whole[:-cut])
        await cluster.restart(cluster.quorum(node_id))
        await caught_up(cluster)

    assert whole == path.read_bytes()[: len(whole)]
    await check(cluster, writer)


async def test_a_bit_flipped_in_a_log_is_put_aside_and_fetched_again(cluster: Cluster, writer: Writer) -> None:
    """The node has no vote before it has back what it had promised to keep; the others go on."""
    node_id = await some_follower(cluster)
    victim = cluster.quorum(node_id)
    async with writing(writer, "flipped"):
        await cluster.kill(victim)
        path = last_segment(cluster, node_id)
        flip(path, path.stat().st_size // 2)
        broken = path.read_bytes()
        await cluster.restart(victim)
        await caught_up(cluster)
        await writer.goes_on()

    assert broken == path.with_name(path.name + DAMAGED).read_bytes()
    assert not path.with_name(PROMISE).exists()
    await check(cluster, writer)


async def test_a_bit_flipped_in_the_last_batch_is_a_torn_tail_after_a_crash(cluster: Cluster, writer: Writer) -> None:
    """It lies beyond what is known to be on the disk; after an end in good order nothing does."""
    node_id = await some_follower(cluster)
    async with writing(writer, "tail"):
        await cluster.kill(cluster.quorum(node_id))
        path = last_segment(cluster, node_id)
        flip(path, path.stat().st_size - 1)
        await cluster.restart(cluster.quorum(node_id))
        await caught_up(cluster)
    await check(cluster, writer)


async def test_a_bit_flipped_in_quorum_state_stops_its_node_alone(cluster: Cluster, writer: Writer) -> None:
    """A vote that may be another one must not be given again."""
    node_id = await some_follower(cluster)
    victim = cluster.quorum(node_id)
    path = cluster.plan.log_dir(node_id) / PARTITION_DIRECTORY / QUORUM_STATE
    async with writing(writer, "vote"):
        await cluster.kill(victim)
        for position in random.Random(SEED).sample(range(path.stat().st_size), 2):
            with flipped(path, position):
                await refused(cluster, victim, str(path), "format it anew", marked=True)
        await writer.goes_on()
        await cluster.restart(victim)
        await caught_up(cluster)
    await check(cluster, writer)


async def test_a_bit_flipped_in_a_snapshot_is_made_up_for_by_the_log(cluster: Cluster, writer: Writer) -> None:
    node_id = await some_follower(cluster)
    victim = cluster.quorum(node_id)
    async with writing(writer, "snapshot"):
        path = await snapshot(cluster, node_id)
        await cluster.kill(victim)
        flip(path, random.Random(SEED).randrange(path.stat().st_size))
        await cluster.restart(victim)
        await caught_up(cluster)

    assert not path.exists()
    await check(cluster, writer)


async def snapshot(cluster: Cluster, node_id: NodeId) -> Path:
    """A checkpoint of what a node has, made as its controller would have it made."""
    high_watermark = (await cluster.find(node_id)).high_watermark
    stored = [each for each in stored_log(cluster.plan.log_dir(node_id)) if each.end_offset <= high_watermark]
    last = stored[-1]
    state = load(cluster.plan.log_dir(node_id), as_of=last.end_offset).state
    values = [encode_record(record, version) for record, version in state.all_records(state.features.record_level)]
    pieces = [CreateSnapshotRequest(end_offset=last.end_offset, epoch=last.epoch, values=values)]
    pieces.append(CreateSnapshotRequest())
    made = await RaftClientStub(cluster.channel(cluster.quorum(node_id))).CreateSnapshot(iter(pieces), timeout=WITHIN_S)
    partition = cluster.plan.log_dir(node_id) / PARTITION_DIRECTORY
    path = checkpoint_file(partition, OffsetAndEpoch(epoch=last.epoch, offset=last.end_offset))

    assert made.size_bytes == path.stat().st_size
    return path


async def test_a_static_voter_whose_disk_was_wiped_comes_back_by_its_id(cluster: Cluster, writer: Writer) -> None:
    """As with Kafka, nothing tells it from the one that was. It has forgotten its votes and what it held.

    So this is safe only as here, while both others live, have all that is committed, and no vote is under way: a wiped
    node and one that lags could elect a leader that lacks what the third has acknowledged with the wiped one.
    """
    node_id = await some_follower(cluster)
    victim = cluster.quorum(node_id)
    meta = cluster.plan.log_dir(node_id) / META_PROPERTIES
    was = meta.read_text()
    async with writing(writer, "wiped"):
        await cluster.kill(victim)
        await cluster.format_anew(victim)
        await cluster.restart(victim)
        await caught_up(cluster)

    assert was != meta.read_text()
    await check(cluster, writer)
