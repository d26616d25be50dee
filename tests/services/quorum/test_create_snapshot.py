"""CreateSnapshot as a controller sees it, over gRPC: what is kept and what is refused, which leaves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import grpc
import pytest

from kraft.service.quorum_pb2 import CreateSnapshotRequest
from kraft.service.quorum_pb2_grpc import RaftClientStub, add_RaftClientServicer_to_server
from quorate.errors import ErrorCode
from quorate.nouns import OffsetAndEpoch
from quorate.records import FeatureLevelRecord, SnapshotHeaderRecord, encode_record
from quorate.runtime.calls.server import Server, ServerLimits
from quorate.runtime.clients.client import open_channel
from quorate.runtime.requests.statuses import error_from_call
from quorate.storage.files import NoSpace
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_file
from quorate.storage.snapshots import SnapshotReader
from quorate.wire.batch import read_header
from quorate.wire.codec import decode
from services.quorum.controller_presence import ControllerPresence
from services.quorum.driver import QuorumDriver
from services.quorum.servicer import RaftClientService
from tests.services.nodes import open_disk, sole_leader, write
from tests.storage.logs import failpoint

VALUES = [encode_record(FeatureLevelRecord(name=f"feature-{number}", feature_level=1), 0) for number in range(50)]

GIANT = encode_record(FeatureLevelRecord(unknown_tags=((10_000, bytes(8 << 20)),)), 0)


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[QuorumDriver]:
    """A quorum node whose log has committed batches that end at 1, 2 and 5, all of epoch 1."""
    async with sole_leader(tmp_path) as driver:
        await write(driver)
        await write(driver, count=3)
        yield driver


@pytest.fixture
async def stub(leader: QuorumDriver) -> AsyncIterator[RaftClientStub]:
    server = Server(limits=ServerLimits(receive_bytes_max=16 << 20))
    servicer = RaftClientService(leader, ControllerPresence(leader, absence_timeout_ms=0))
    server.add("kraft.service.RaftClient", add_RaftClientServicer_to_server, servicer)
    port = server.listen("127.0.0.1:0")
    await server.start()
    async with open_channel(f"127.0.0.1:{port}") as channel:
        yield RaftClientStub(channel)
    await server.stop(grace_s=0)


def pieces(offset: int, epoch: int = 1, timestamp_ms: int | None = None) -> list[CreateSnapshotRequest]:
    first = CreateSnapshotRequest(end_offset=offset, epoch=epoch, values=VALUES[:20])
    if timestamp_ms is not None:
        first.last_timestamp_ms = timestamp_ms
    return [first, CreateSnapshotRequest(values=VALUES[20:]), CreateSnapshotRequest()]


async def refusal(stub: RaftClientStub, requests: Iterable[CreateSnapshotRequest]) -> ErrorCode:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.CreateSnapshot(iter(requests), timeout=120)
    return error_from_call(refused.value).code


def files(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in (directory / PARTITION_DIRECTORY).iterdir()}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        for _ in iter(holds, True):
            await asyncio.sleep(0.01)


async def test_keeps_what_comes_and_tells_the_core(leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path) -> None:
    answer = await stub.CreateSnapshot(iter(pieces(5)), timeout=120)

    snapshot = OffsetAndEpoch(epoch=1, offset=5)
    assert {snapshot: answer.size_bytes} == leader.core.log.snapshots
    assert answer.size_bytes == len(leader.disk.snapshot_bytes(snapshot))
    reader = SnapshotReader(checkpoint_file(tmp_path / PARTITION_DIRECTORY, snapshot))
    assert VALUES == list(reader.values())
    reader.close()


async def test_its_time_is_that_of_the_record_before(
    leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path
) -> None:
    """So the snapshots of all nodes are equal, on every node (I-26)."""
    expected = read_header(leader.disk.read(1, 1)).max_timestamp

    await stub.CreateSnapshot(iter(pieces(2)), timeout=120)

    snapshot = OffsetAndEpoch(epoch=1, offset=2)
    assert expected == leader.disk.last_timestamp_ms(snapshot)
    reader = SnapshotReader(checkpoint_file(tmp_path / PARTITION_DIRECTORY, snapshot))
    header, *_ = reader.control_records()
    assert expected == decode(SnapshotHeaderRecord, header[1], 0).last_contained_log_timestamp
    reader.close()


async def test_it_is_there_after_a_restart(leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path) -> None:
    answer = await stub.CreateSnapshot(iter(pieces(5)), timeout=120)
    leader.stop()

    again = open_disk(tmp_path)

    assert {OffsetAndEpoch(epoch=1, offset=5): answer.size_bytes} == again.view().snapshots
    again.close()


REFUSALS = {
    "beyond the high watermark": (ErrorCode.OFFSET_OUT_OF_RANGE, pieces(6)),
    "where the log begins": (ErrorCode.OFFSET_OUT_OF_RANGE, pieces(0)),
    "before any log": (ErrorCode.OFFSET_OUT_OF_RANGE, pieces(-1)),
    "of an earlier epoch": (ErrorCode.FENCED_LEADER_EPOCH, pieces(5, epoch=0)),
    "of a later epoch": (ErrorCode.UNKNOWN_LEADER_EPOCH, pieces(5, epoch=2)),
    "within a batch": (ErrorCode.INVALID_REQUEST, pieces(4)),
    "of another time": (ErrorCode.INVALID_REQUEST, pieces(5, timestamp_ms=7)),
    "of nothing": (ErrorCode.INVALID_REQUEST, [CreateSnapshotRequest(end_offset=5, epoch=1), CreateSnapshotRequest()]),
    "with an empty value": (ErrorCode.INVALID_RECORD, [CreateSnapshotRequest(end_offset=5, epoch=1, values=[b""])]),
    "of garbage": (ErrorCode.INVALID_RECORD, [CreateSnapshotRequest(end_offset=5, epoch=1, values=[b"\xff" * 9])]),
    "with a record and garbage": (
        ErrorCode.INVALID_RECORD,
        [pieces(5)[0], CreateSnapshotRequest(values=[VALUES[0], VALUES[1] + b"\0"]), CreateSnapshotRequest()],
    ),
    "with a record that no batch holds": (
        ErrorCode.RECORD_LIST_TOO_LARGE,
        [CreateSnapshotRequest(end_offset=5, epoch=1, values=[GIANT])],
    ),
    "without a piece": (ErrorCode.INVALID_REQUEST, []),
    "without its end": (ErrorCode.INVALID_REQUEST, pieces(5)[:-1]),
}


@pytest.mark.parametrize("which", REFUSALS)
async def test_refuses_a_snapshot(leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path, which: str) -> None:
    code, requests = REFUSALS[which]
    before = files(tmp_path)

    assert code == await refusal(stub, requests)

    assert (before, {}) == (files(tmp_path), leader.core.log.snapshots)


async def test_refuses_one_that_is_there(leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path) -> None:
    await stub.CreateSnapshot(iter(pieces(5)), timeout=120)
    before = files(tmp_path)

    assert ErrorCode.DUPLICATE_RESOURCE == await refusal(stub, pieces(5))

    assert before == files(tmp_path)


async def test_refuses_one_before_the_start_of_the_log(
    leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path
) -> None:
    await stub.CreateSnapshot(iter(pieces(5)), timeout=120)
    leader.disk.start_at(OffsetAndEpoch(epoch=1, offset=5))
    leader.core.log_started(OffsetAndEpoch(epoch=1, offset=5))

    assert ErrorCode.OFFSET_OUT_OF_RANGE == await refusal(stub, pieces(2))


async def test_a_stream_that_breaks_leaves_nothing_and_may_come_again(
    leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path
) -> None:
    before = files(tmp_path)
    call = stub.CreateSnapshot(timeout=120)
    await call.write(pieces(5)[0])
    await until(lambda: before != files(tmp_path))
    assert ErrorCode.DUPLICATE_RESOURCE == await refusal(stub, pieces(5))
    call.cancel()
    await until(lambda: before == files(tmp_path))

    assert {} == leader.core.log.snapshots
    await stub.CreateSnapshot(iter(pieces(5)), timeout=120)
    assert [OffsetAndEpoch(epoch=1, offset=5)] == list(leader.core.log.snapshots)


async def test_a_full_disk_keeps_nothing_of_it(leader: QuorumDriver, stub: RaftClientStub, tmp_path: Path) -> None:
    before = files(tmp_path)

    def full() -> None:
        raise NoSpace(28, "No space left on device")

    with failpoint("snapshot.before_freeze", full):
        assert ErrorCode.KAFKA_STORAGE_ERROR == await refusal(stub, pieces(5))

    assert before == files(tmp_path)
    await stub.CreateSnapshot(iter(pieces(5)), timeout=120)
