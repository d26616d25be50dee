"""Replicas move between two log directories: while they are written, truncated, given up; and over a restart."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kraft.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from kraft.api.describe_log_dirs import DescribeLogDirsRequest
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.nouns import UNASSIGNED_DIRECTORY, parse_uuid
from quorate.partition_log import LogSettings, PartitionLog
from quorate.partition_log.names import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from quorate.partition_log.offset_checkpoints import TopicPartition, read_offsets, write_offsets
from quorate.partition_log.produced import Limits, stamped
from quorate.records import PartitionChangeRecord
from quorate.replication import RestartAt, Truncate
from services.broker import future_replica, upkeep
from services.broker.callers import Caller
from services.broker.cluster import Cluster
from services.broker.descriptions import describe_log_dirs
from services.broker.future_replica import FutureReplica
from services.broker.moves import Moves
from services.broker.store import READY
from services.broker.table import Hosted
from services.broker.upkeep import Upkeep
from tests.partition_log.batches import NOW_MS, produced
from tests.services.broker.calling import caller, user_with
from tests.services.broker.test_directories import IDS, formatted
from tests.services.broker.test_partitions import (
    BROKERS,
    LEVELS,
    ME,
    ORDERS,
    OTHER,
    TOPIC,
    Scene,
    partition,
    running,
)

ORDERS_0 = TopicPartition("orders", 0)
BATCH = produced(count=3)


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two directories of broker 101; what the log gives it is in the first."""
    return [formatted(tmp_path / text, parse_uuid(text), node_id=ME) for text in IDS]


def taken(steps: Iterator[None]) -> Any:
    """What is returned in the end of what is done in steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Moving:
    """A broker's moves, which copy only while a test says so."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        state, table = scene.replica, scene.replicas.table
        cluster = Cluster(ME, "ours", "PLAINTEXT", lambda: state.state, table)
        self.moves = Moves(
            scene.replicas,
            scene.store,
            cluster,
            placed=lambda hosted: scene.placed.append(hosted.name),
            is_to_go=scene.partitions.is_to_go,
        )

    @property
    def parts(self) -> tuple[Any, Any]:
        return self.scene.directories.all, self.scene.replicas.table

    @property
    def orders(self) -> Hosted:
        hosted = self.scene.replicas.table.named(ORDERS_0)
        assert hosted is not None
        return hosted

    def ask(self, path: Path, *, index: int = 0, topic: str = "orders", by: Caller | None = None) -> ErrorCode:
        asked = AlterReplicaLogDirsRequest.AlterReplicaLogDir
        topics = (asked.AlterReplicaLogDirTopic(topic, (index,)),)
        request = AlterReplicaLogDirsRequest((asked(str(path), topics),))
        answer = taken(self.moves.answer(request, self.scene.directories.all, by or caller()))
        return ErrorCode(answer.results[0].partitions[0].error_code)

    async def settled(self) -> None:
        """Copies until nothing moves any more."""
        running = asyncio.ensure_future(self.moves.run())
        async with asyncio.timeout(60):
            await self.moves.idle.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            self.orders.log.append_as_leader(BATCH, epoch=0, now_ms=NOW_MS)


@asynccontextmanager
async def moving(disks: list[Path], *, leader: int = ME) -> AsyncIterator[Moving]:
    async with running(disks) as scene:
        scene.log.append(LEVELS, *BROKERS, ORDERS, partition(0, leader=leader))
        await scene.applied(lambda: scene.names == ["orders-0"])
        yield Moving(scene)


def content(log: PartitionLog) -> bytes:
    found, at = b"", log.start
    while (piece := log.read(at, log.leo, 1)) is not None:
        found += piece.read()
        at += 3
    return found


def named(disk: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in disk.glob(pattern))


async def test_a_replica_moves_while_it_is_written(disks: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_replica, "PIECE_BYTES", 3 * len(BATCH) + 1)
    async with moving(disks) as scene:
        scene.write(10)
        before, code = scene.orders.log, scene.ask(disks[1])
        described = taken(describe_log_dirs(DescribeLogDirsRequest(topics=None), *scene.parts, caller()))
        future = scene.orders.future
        assert future is not None
        future.copy(before, now_ms=NOW_MS)
        scene.write()
        wanted = content(before)
        await scene.settled()
        scene.write()

        assert ErrorCode.NONE == code
        assert [(False, 0), (True, before.leo - 3)] == [
            (each.is_future_key, each.offset_lag)
            for directory in described.results
            for topic in directory.topics
            for each in topic.partitions
        ]
        assert disks[1] / "orders-0" == scene.orders.log.directory
        assert wanted + content(scene.orders.log)[len(wanted) :] == content(scene.orders.log)
        assert len(wanted) + len(BATCH) == scene.orders.log.size
        assert [ORDERS_0] == scene.scene.placed
        assert [] == named(disks[0], "orders-0")
        assert named(disks[0], "orders-0.*-delete") == [path.name for path in scene.scene.partitions.deleted]


async def test_who_leads_goes_on_in_its_epoch(disks: list[Path]) -> None:
    """Its epoch has no record yet, and is in no file."""
    async with moving(disks) as scene:
        scene.scene.log.append(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=ME))
        await scene.scene.applied(lambda: scene.orders.partition.leader_epoch == 1)
        scene.ask(disks[1])
        await scene.settled()

        assert 1 == scene.orders.log.epochs.last_epoch
        assert scene.orders.leading is not None
        assert scene.orders.leading.local.log is scene.orders.log


async def test_what_is_truncated_meanwhile_is_truncated_in_the_copy(disks: list[Path]) -> None:
    """R56: of the batches that the copy has already some are replaced by those of another leader."""
    async with moving(disks, leader=OTHER) as scene:
        for start in (0, 3, 6):
            scene.orders.log.append_as_follower(stored(start, epoch=0), now_ms=NOW_MS)
        scene.ask(disks[1])
        future = scene.orders.future
        assert future is not None
        assert future.copy(scene.orders.log, now_ms=NOW_MS)
        scene.scene.replicas.carry_out(scene.orders, [Truncate(3)])
        scene.scene.log.append(PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=OTHER, isr=(OTHER,)))
        await scene.scene.applied(lambda: scene.orders.partition.leader_epoch == 1)
        for start in (3, 6, 9):
            scene.orders.log.append_as_follower(stored(start, epoch=1), now_ms=NOW_MS)
        wanted = content(scene.orders.log)
        await scene.settled()

        assert disks[1] / "orders-0" == scene.orders.log.directory
        assert wanted == content(scene.orders.log)


def stored(base: int, *, epoch: int) -> bytes:
    """A batch as it lies in a log."""
    return bytes(stamped(BATCH, base_offset=base, epoch=epoch, limits=Limits(), now_ms=NOW_MS))


@pytest.mark.parametrize("cut", [RestartAt(leo=30, start=30), Truncate(0)], ids=["begun anew", "all truncated"])
def test_a_copy_of_what_is_gone_begins_anew(tmp_path: Path, cut: Truncate | RestartAt) -> None:
    current, copy = (PartitionLog(tmp_path / name, TOPIC, LogSettings()) for name in ("orders-0", "copy"))
    future = FutureReplica(directory=None, log=copy)  # type: ignore[arg-type]  # it does not look at it
    for _ in range(3):
        current.append_as_leader(BATCH, epoch=0, now_ms=NOW_MS)
    while not future.copy(current, now_ms=NOW_MS):
        pass
    if isinstance(cut, RestartAt):
        current.restart_at(leo=cut.leo, start=cut.start)
    else:
        current.truncate(cut.to)
    future.follow(cut)
    for _ in range(4):
        current.append_as_leader(BATCH, epoch=1, now_ms=NOW_MS)
    while not future.copy(current, now_ms=NOW_MS):
        pass

    assert (current.start, current.leo) == (copy.start, copy.leo)
    assert content(current) == content(copy)


def test_what_is_deleted_before_it_is_copied_is_left_out(tmp_path: Path) -> None:
    """The log start may lie within a batch, which is copied whole."""
    current, copy = (PartitionLog(tmp_path / name, TOPIC, LogSettings()) for name in ("orders-0", "copy"))
    future = FutureReplica(directory=None, log=copy)  # type: ignore[arg-type]  # it does not look at it
    for _ in range(4):
        current.append_as_leader(BATCH, epoch=0, now_ms=NOW_MS)
    current.raise_start(7)
    assert future.copy(current, now_ms=NOW_MS)
    copy.take_over(current)

    assert (7, 12) == (copy.start, copy.leo)
    assert 2 * len(BATCH) == copy.size
    assert current.read(7, 12, 1 << 20).read() == copy.read(7, 12, 1 << 20).read()  # type: ignore[union-attr]


async def test_what_cannot_be_moved_is_refused(disks: list[Path], tmp_path: Path) -> None:
    async with moving(disks) as scene:
        nobody = user_with((AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster"))
        codes = [
            scene.ask(tmp_path),
            scene.ask(disks[1], index=7),
            scene.ask(disks[1], topic="nowhere"),
            scene.ask(disks[1], by=nobody),
            scene.ask(disks[0]),
        ]

        assert scene.orders.future is None

    assert [
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
    ] == codes


async def test_a_replica_that_comes_later_is_made_where_it_was_asked_for(disks: list[Path]) -> None:
    """As kafka-reassign-partitions does it: it asks first, and moves the partition to this broker then."""
    async with moving(disks) as scene:
        scene.ask(disks[0], index=1)
        scene.ask(disks[1], index=2)
        scene.scene.log.append(*(partition(each, directory=UNASSIGNED_DIRECTORY) for each in (1, 2)))
        await scene.scene.applied(lambda: len(scene.scene.names) == 3)

    assert ["orders-0", "orders-1"] == named(disks[0], "orders-*")
    assert ["orders-2"] == named(disks[1], "orders-*")


async def test_a_move_that_is_called_off_leaves_nothing(disks: list[Path]) -> None:
    async with moving(disks) as scene:
        scene.write()
        scene.ask(disks[1])
        scene.ask(disks[0])
        await scene.settled()

        assert disks[0] / "orders-0" == scene.orders.log.directory
        assert [path.name for path in scene.scene.partitions.deleted] == named(disks[1], "orders-*")
        assert [] == scene.scene.placed


async def test_a_partition_that_is_given_up_on_its_way_leaves_nothing(disks: list[Path]) -> None:
    async with moving(disks) as scene:
        scene.ask(disks[1])
        gone = PartitionChangeRecord(partition_id=0, topic_id=TOPIC, replicas=(OTHER,), isr=(OTHER,), leader=OTHER)
        scene.scene.log.append(gone)
        await scene.scene.applied(lambda: not scene.scene.names)
        await scene.settled()

        assert 1 == len(named(disks[1], "orders-0.*-delete"))
        assert [] == named(disks[1], "orders-0.*-future")


async def test_a_move_goes_on_after_a_restart(disks: list[Path]) -> None:
    async with moving(disks) as scene:
        scene.write(2)
        scene.ask(disks[1])
        assert scene.orders.future is not None
        scene.orders.future.copy(scene.orders.log, now_ms=NOW_MS)
    async with moving(disks) as again:
        again.moves.resume()
        await again.settled()

        assert disks[1] / "orders-0" == again.orders.log.directory
        assert 6 == again.orders.log.leo
        assert [] == named(disks[1], "orders-0.*-future")


async def test_a_copy_that_was_about_to_take_the_place_takes_it_at_a_start(disks: list[Path]) -> None:
    """The process was killed between the two renames."""
    async with moving(disks) as scene:
        half_deleted(scene)
        scene.ask(disks[1])
        assert scene.orders.future is not None
        assert scene.orders.future.copy(scene.orders.log, now_ms=NOW_MS)
        scene.scene.store.get_ready(scene.orders, scene.orders.future)
        scene.orders.log.directory.rename(disks[0] / f"orders-0.{'0' * 32}-delete")
    async with moving(disks) as again:
        assert disks[1] / "orders-0" == again.orders.log.directory
        assert (31, 60, 60, 60) == known(again)
        assert [ORDERS_0] == again.scene.placed
        assert [] == named(disks[1] / "orders-0", READY)


async def test_a_copy_that_has_a_part_takes_no_place(disks: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the replica is gone, with its disk, and the stop was in order: it would be in the ISR with half a log."""
    monkeypatch.setattr(future_replica, "PIECE_BYTES", 1)
    async with moving(disks) as scene:
        scene.write(2)
        scene.ask(disks[1])
        assert scene.orders.future is not None
        assert not scene.orders.future.copy(scene.orders.log, now_ms=NOW_MS)
        scene.scene.directories.leave_marks(5)
        shutil.rmtree(scene.orders.log.directory)
    async with moving(disks) as again:
        assert (disks[0] / "orders-0", 0) == (again.orders.log.directory, again.orders.log.leo)


async def test_a_copy_that_was_ready_takes_no_place_once_the_replica_has_gone_on(disks: list[Path]) -> None:
    async with moving(disks) as scene:
        scene.write(2)
        scene.ask(disks[1])
        assert scene.orders.future is not None
        assert scene.orders.future.copy(scene.orders.log, now_ms=NOW_MS)
        scene.scene.store.get_ready(scene.orders, scene.orders.future)
    async with moving(disks) as again:
        again.write(2)
        shutil.rmtree(again.orders.log.directory)
    async with moving(disks) as last:
        assert 0 == last.orders.log.leo


async def test_a_kill_after_a_move_leaves_what_was_known_of_the_replica(disks: list[Path]) -> None:
    """The clock has not written the checkpoints since."""
    async with moving(disks) as scene:
        half_deleted(scene)
        scene.ask(disks[1])
        await scene.settled()
    async with moving(disks) as again:
        assert disks[1] / "orders-0" == again.orders.log.directory
        assert (31, 60, 60, 60) == known(again)


def half_deleted(scene: Moving) -> None:
    """60 records are committed, and those below 31 deleted, which lies within a batch."""
    scene.write(20)
    scene.orders.partition.local.high_watermark = 60
    scene.orders.log.commit(60)
    scene.orders.log.raise_start(31)


def known(scene: Moving) -> tuple[int, int, int, int]:
    """Log start, high watermark, recovery point and end."""
    log = scene.orders.log
    return log.start, scene.orders.partition.local.high_watermark, log.recovery_point, log.leo


async def test_a_replica_takes_no_place_while_checkpoints_are_written(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would be without it: what they say was settled before. Records that are written until then come along."""
    names = (HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS)
    async with moving(disks) as scene:
        store = scene.scene.store
        assert {(name, True) for name in names} == await written_by_the_clock(scene, monkeypatch)
        scene.ask(disks[1])
        async with store.checkpoints:
            settled = asyncio.ensure_future(scene.settled())
            for _ in range(100):
                await asyncio.sleep(0)
            before = scene.orders.log
            scene.write()
        await settled

        assert disks[0] / "orders-0" == before.directory
        assert disks[1] / "orders-0" == scene.orders.log.directory
        assert 3 == scene.orders.log.leo


async def written_by_the_clock(scene: Moving, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, bool]]:
    """The checkpoints that are written by the clock, and whether a replica might take a place meanwhile."""
    store, loop = scene.scene.store, asyncio.get_running_loop()
    found, all_are = set(), asyncio.Event()

    def note(path: Path, _: object) -> None:
        found.add((path.name, store.checkpoints.locked()))
        if len(found) >= 3:
            loop.call_soon_threadsafe(all_are.set)

    monkeypatch.setattr(upkeep, "write_offsets", note)
    for interval in ("HIGH_WATERMARKS_S", "RECOVERY_POINTS_S"):
        monkeypatch.setattr(upkeep, interval, 0.0)
    running = asyncio.ensure_future(Upkeep(scene.scene.replicas, store, scene.scene.partitions).run())
    async with asyncio.timeout(60):
        await all_are.wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return found


async def test_a_recovery_point_that_falls_is_written_at_once(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not within a minute: records that come instead may be torn by a power cut, and must not pass for flushed ones."""
    loop, written = asyncio.get_running_loop(), asyncio.Event()

    def write(path: Path, offsets: Any) -> None:
        write_offsets(path, offsets)
        if path.name == RECOVERY_POINTS:
            loop.call_soon_threadsafe(written.set)

    monkeypatch.setattr(upkeep, "write_offsets", write)
    async with moving(disks) as scene:
        scene.write(2)
        assert 6 == scene.orders.log.flush()
        running = asyncio.ensure_future(Upkeep(scene.scene.replicas, scene.scene.store, scene.scene.partitions).run())
        scene.scene.replicas.carry_out(scene.orders, [Truncate(3)])
        async with asyncio.timeout(upkeep.RECOVERY_POINTS_S / 2):
            await written.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

        assert 3 == read_offsets(disks[0] / RECOVERY_POINTS)[scene.orders.name]


def no_space(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "/the/copy")


@pytest.mark.parametrize("what", ["append_as_follower", "flush", "close"])
async def test_a_copy_that_its_disk_does_not_take_ends_its_move_alone(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    monkeypatch.setattr(future_replica, "PIECE_BYTES", len(BATCH) + 1)
    async with moving(disks) as scene:
        scene.write(3)
        scene.ask(disks[1])
        assert scene.orders.future is not None
        monkeypatch.setattr(scene.orders.future.log, what, no_space)
        await scene.settled()
        scene.write()

        assert disks[0] / "orders-0" == scene.orders.log.directory
        assert (12, None, []) == (scene.orders.log.leo, scene.orders.future, named(disks[1], "orders-0*"))
        assert ["/the/copy" in each for each in failures(caplog)] == [True]
    async with moving(disks) as again:
        again.moves.resume()

        assert again.orders.future is None


async def test_a_rotten_batch_ends_the_move_and_is_named(disks: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    async with moving(disks) as scene:
        scene.write(3)
        path = disks[0] / "orders-0" / f"{0:020}.log"
        with path.open("r+b") as file:
            file.seek(len(BATCH) + 70)
            file.write(b"!")
        scene.ask(disks[1])
        await scene.settled()

        assert disks[0] / "orders-0" == scene.orders.log.directory
        assert [] == named(disks[1], "orders-0*")
        (told,) = failures(caplog)
        assert f"{path}: batch at offset 3 has checksum" in told
        assert f"at byte {len(BATCH)}" in told


@pytest.mark.parametrize("what", ["services.broker.store.sync_directory", "quorate.storage.recovery.replace_whole"])
async def test_a_copy_that_cannot_be_begun_is_answered_and_leaves_nothing(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    async with moving(disks) as scene:
        scene.ask(disks[1])  # a start finds it
        assert scene.orders.future is not None
        scene.orders.future.log.abandon()
    async with moving(disks) as again:
        monkeypatch.setattr(what, no_space)
        again.moves.resume()

        assert [None, ErrorCode.KAFKA_STORAGE_ERROR] == [again.orders.future, again.ask(disks[1])]
        assert again.orders.future is None
        assert [] == named(disks[1], "orders-0.*-future")
        assert [] == [each for each in opened_files() if str(each).startswith(str(disks[1]))]
        assert 2 == len(failures(caplog))


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the log on moves that have failed."""
    return [str(vars(each)) for each in caplog.records if each.levelname == "ERROR"]


def test_what_is_steadily_written_holds_no_copy_up_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More comes while it is flushed than may be flushed in the loop at first."""
    monkeypatch.setattr(future_replica, "PIECE_BYTES", len(BATCH))
    current, copy = (PartitionLog(tmp_path / name, TOPIC, LogSettings()) for name in ("orders-0", "copy"))
    future = FutureReplica(directory=None, log=copy)  # type: ignore[arg-type]  # it does not look at it
    sizes = []
    while len(sizes) < 10:
        for _ in range(7):
            current.append_as_leader(BATCH, epoch=0, now_ms=NOW_MS)
        while not future.copy(current, now_ms=NOW_MS):
            pass
        if future.is_flushed:
            break
        sizes.append(copy.size_between(copy.recovery_point, copy.leo))
        future.flush()

    assert [7 * len(BATCH)] * 3 == sizes


async def test_moved_logs_share_the_files_that_are_open(disks: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sealed segments one at most is open here, after any moves."""
    monkeypatch.setattr("quorate.partition_log.open_files.SEGMENTS_MAX", 1)
    async with moving(disks) as scene:
        scene.scene.log.append(partition(1))
        await scene.scene.applied(lambda: len(scene.scene.names) == 2)
        for hosted in scene.scene.replicas.table:
            hosted.log.settings = LogSettings(limits=Limits(segment_bytes=len(BATCH)))
            for _ in range(3):
                hosted.log.append_as_leader(BATCH, epoch=0, now_ms=NOW_MS)
        for index in (0, 1):
            scene.ask(disks[1], index=index)
        await scene.settled()
        for hosted in scene.scene.replicas.table:
            assert 3 * len(BATCH) == len(content(hosted.log))

        # The two that are appended to, and one sealed.
        assert 3 == len([each for each in opened_files() if str(each).startswith(f"{disks[1]}/orders-")])


def opened_files() -> list[Path]:
    """The segments that this process has open, those included whose files are removed."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(each.readlink())
    return [each for each in found if ".log" in each.name]  # " (deleted)" follows the name of one that is gone
