"""What a node does about a disk that has lost something, fails or is full."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kraft import Uuid
from kraft.service.quorum_pb2 import CreateSnapshotRequest
from quorate.errors import Corrupt, ErrorCode
from quorate.nouns import OffsetAndEpoch, ReplicaKey
from quorate.raft.log import LeaderChange, VotersChange
from quorate.raft.ready import SnapshotChunk
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.records import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from quorate.storage.disk_log import DiskLog
from quorate.storage.names import (
    DAMAGED,
    LOG,
    PARTITION_DIRECTORY,
    PROMISE,
    QUORUM_STATE,
    checkpoint_file,
    checkpoint_ids,
    segment_file,
)
from quorate.storage.snapshots import SnapshotWriter
from quorate.wire.batch import ControlType
from quorate.wire.codec import decode, encode
from services.quorum.batches import control_batch_of, voters_record
from services.quorum.checkpoints import CheckpointVoters, StateSnapshot
from services.quorum.disk import Disk
from services.quorum.driver import QuorumDriver
from services.quorum.room import LITTLE_ROOM, Room
from services.quorum.snapshot_upload import take_snapshot
from tests.services.clocks import MovedClock
from tests.services.nodes import RECORD, open_disk, sole_leader, write
from tests.storage.logs import batch, failpoint, partition, write_log

AHEAD = OffsetAndEpoch(epoch=3, offset=100)
END = OffsetAndEpoch(epoch=2, offset=10)


def flip(path: Path, at: int) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)


def flush(disk: Disk) -> int:
    begun = disk.begin_flush()
    assert begun is not None
    begun.wait()
    return disk.end_flush(begun)


def failing(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def test_the_directory_of_a_new_log_is_durable_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut takes the directory, and with it the vote that is flushed in it."""
    synced, fsync = list[str](), os.fsync

    def noting(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    open_disk(tmp_path / "new" / "metadata").close()

    assert {str(tmp_path), str(tmp_path / "new"), str(tmp_path / "new" / "metadata")} <= set(synced)


# Damage at the start.


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Five batches of two records; the second one is damaged."""
    written = write_log(tmp_path)
    flip(segment_file(partition(tmp_path), 0, LOG), len(written[0]) + 70)
    return tmp_path


@pytest.mark.parametrize(("voters", "recovers"), [(1, True), (3, False)])
def test_who_has_nobody_to_ask_does_not_start_and_says_where_the_damage_is(
    damaged: Path, voters: int, recovers: bool
) -> None:
    before = sorted(path.name for path in partition(damaged).iterdir())

    with pytest.raises(Corrupt, match=r"00000000000000000000\.log: offset 2: .* at byte") as found:
        open_disk(damaged, voters=voters, recovers=recovers)

    assert segment_file(partition(damaged), 0, LOG) == found.value.path
    assert before == sorted(path.name for path in partition(damaged).iterdir())


def test_with_a_broken_vote_not_even_the_damage_in_the_log_is_put_aside(damaged: Path) -> None:
    (partition(damaged) / QUORUM_STATE).write_text("{")
    before = {path.name: path.read_bytes() for path in partition(damaged).iterdir()}

    with pytest.raises(Corrupt, match=r"quorum-state: .*the vote in it cannot be guessed"):
        open_disk(damaged, voters=3, recovers=True)

    assert before == {path.name: path.read_bytes() for path in partition(damaged).iterdir()}


def test_who_has_others_opens_up_to_the_damage_and_says_what_it_had_promised(damaged: Path) -> None:
    disk = open_disk(damaged, voters=3, recovers=True)

    assert (2, END) == (disk.log.leo, disk.damaged_to)
    assert [f"{0:020d}{LOG}{DAMAGED}"] == [path.name for each in disk.salvaged for path in each.aside]
    disk.close()


def test_it_is_not_forgotten_before_the_log_is_back(damaged: Path) -> None:
    open_disk(damaged, voters=3, recovers=True).close()
    disk = open_disk(damaged, voters=3, recovers=True)
    assert END == disk.damaged_to
    for offset in range(2, 10):
        assert END == disk.damaged_to
        disk.append(batch(offset, epoch=1 if offset < 6 else 2))
        flush(disk)

    assert disk.damaged_to is None
    assert not (partition(damaged) / PROMISE).exists()
    disk.close()
    again = open_disk(damaged, voters=3)
    assert (None, 10) == (again.damaged_to, again.log.leo)
    again.close()


def test_a_later_epoch_is_as_good(damaged: Path) -> None:
    """Its leader has all that was committed before: what is missing was not, or is below."""
    disk = open_disk(damaged, voters=3, recovers=True)

    disk.append(batch(2, epoch=3))
    flush(disk)

    assert disk.damaged_to is None
    disk.close()


def test_the_voters_are_those_of_the_checkpoint_with_which_the_log_begins_anew(tmp_path: Path) -> None:
    """The rest of a log may end before a checkpoint, and know of earlier voters only. I-26."""
    former, present = voters_in_the_log(1, 2, 3), voters_in_the_log(1, 2, 4)
    log = DiskLog(tmp_path)
    log.append(control_batch_of(elected_with(former), timestamp_ms=0))
    begin = log.leo
    for at in range(3):
        log.append(batch(begin + 2 * at, count=2))
    log.close()
    data = segment_file(partition(tmp_path), 0, LOG)
    flip(data, data.stat().st_size - 1)
    made = OffsetAndEpoch(epoch=1, offset=log.leo)
    checkpoint = StateSnapshot(partition(tmp_path), made, 0, CheckpointVoters(present, 1))
    checkpoint.write([RECORD])
    checkpoint.finish().close()

    disk = open_disk(tmp_path, voters=3, recovers=True)

    assert (made.offset, present) == (disk.log.start, disk.view().voters.latest)
    disk.close()


def voters_in_the_log(*node_ids: int) -> VoterSet:
    return VoterSet(
        tuple(
            Voter(
                key=ReplicaKey(id, Uuid(bytes([id]) * 16)),
                endpoints=(ListenerEndpoint("CONTROLLER", f"node-{id}", 9093),),
            )
            for id in node_ids
        )
    )


def elected_with(voters: VoterSet) -> LeaderChange:
    """The first leader's first records."""
    change = VotersChange(base_offset=1, epoch=1, voters=voters, kraft_version=1)
    return LeaderChange(
        base_offset=0, epoch=1, leader_id=1, voters=voters.keys, granting=voters.keys[:2], change=change
    )


# Bad checkpoints.


@pytest.fixture
async def two_snapshots(tmp_path: Path) -> Path:
    """A log from 0 on with snapshots at 2 and 3."""
    async with sole_leader(tmp_path) as driver:
        for _ in range(2):
            await snapshot(driver, await write(driver))
        await write(driver)
    return tmp_path


async def snapshot(driver: QuorumDriver, offset: int) -> OffsetAndEpoch:
    made = OffsetAndEpoch(epoch=driver.core.role.epoch, offset=offset)

    async def pieces() -> AsyncIterator[CreateSnapshotRequest]:
        yield CreateSnapshotRequest(end_offset=made.offset, epoch=made.epoch, values=[RECORD])
        yield CreateSnapshotRequest()

    await take_snapshot(driver, pieces())
    return made


async def test_a_bad_checkpoint_gives_way_to_the_one_before_and_the_log(two_snapshots: Path) -> None:
    flip(checkpoint_file(two_snapshots / PARTITION_DIRECTORY, OffsetAndEpoch(epoch=1, offset=3)), 70)

    disk = open_disk(two_snapshots)

    assert [2] == [each.offset for each in disk.view().snapshots]
    assert (0, 4) == (disk.log.start, disk.log.leo)
    assert 1 == len(disk.damaged)
    disk.close()


VOTERS = encode(voters_record(voters_in_the_log(1, 2, 3)), 0)
VOTER_TWICE = encode(VotersRecord(voters=tuple(decode(VotersRecord, VOTERS, 0).voters[at] for at in (0, 0))), 0)


def unusable(directory: Path, level: int, voters: bytes) -> bytes:
    """A checkpoint whose form is right, and its level or voters are not."""
    directory.mkdir()
    writer = SnapshotWriter(directory, AHEAD, timestamp_ms=1)
    writer.control(
        [
            (ControlType.SNAPSHOT_HEADER, encode(SnapshotHeaderRecord(last_contained_log_timestamp=1), 0)),
            (ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=level), 0)),
            (ControlType.KRAFT_VOTERS, voters),
        ]
    )
    writer.finish(encode(SnapshotFooterRecord(), 0))
    return checkpoint_file(directory, AHEAD).read_bytes()


@pytest.mark.parametrize(("level", "voters"), [(1, VOTER_TWICE), (2, VOTERS)], ids=["a voter twice", "level 2"])
def test_a_download_with_voters_that_cannot_be_is_never_in_place(tmp_path: Path, level: int, voters: bytes) -> None:
    """Were it there at the next start, the log would give way to it, which it is ahead of."""
    data = unusable(tmp_path / "leader", level, voters)
    write_log(tmp_path)
    disk = open_disk(tmp_path, voters=3)
    disk.store_chunk(SnapshotChunk(snapshot_id=AHEAD, position=0, data=data, is_last=True))

    with pytest.raises(Corrupt):
        disk.complete_download(AHEAD)

    assert [] == checkpoint_ids(partition(tmp_path))
    disk.close()


@pytest.mark.parametrize(("level", "voters"), [(1, VOTER_TWICE), (2, VOTERS)], ids=["a voter twice", "level 2"])
def test_a_log_does_not_give_way_to_a_checkpoint_that_cannot_be_used(tmp_path: Path, level: int, voters: bytes) -> None:
    data = unusable(tmp_path / "leader", level, voters)
    write_log(tmp_path)
    checkpoint_file(partition(tmp_path), AHEAD).write_bytes(data)

    disk = open_disk(tmp_path, voters=3)

    assert (0, END.offset) == (disk.log.start, disk.log.leo)
    assert 1 == len(disk.damaged)
    disk.close()


async def test_without_another_checkpoint_all_is_asked_for_again(tmp_path: Path) -> None:
    async with sole_leader(tmp_path) as driver:
        await write(driver)
        made = await snapshot(driver, await write(driver))
        driver.disk.start_at(made)
        driver.core.log_started(made)
        driver.disk.log.end_segment()
        made = await snapshot(driver, await write(driver))
        driver.disk.start_at(made).remove()
        driver.core.log_started(made)
    flip(checkpoint_file(tmp_path / PARTITION_DIRECTORY, made), 70)
    with pytest.raises(Corrupt, match="there is no checkpoint of what lies before"):
        open_disk(tmp_path)

    disk = open_disk(tmp_path, voters=3, recovers=True)

    assert (0, 0) == (disk.log.start, disk.log.leo)
    assert disk.damaged_to == OffsetAndEpoch(epoch=1, offset=4)
    disk.close()


# A disk that fails at work.


async def test_what_the_disk_does_not_give_back_is_not_answered_over(tmp_path: Path) -> None:
    def fail() -> None:
        raise failing(errno.EIO)

    async with sole_leader(tmp_path) as driver:
        end = await write(driver)
        made = await snapshot(driver, end)

        with failpoint("file.before_read", fail):
            with pytest.raises(Corrupt, match=r"\.log: it cannot be read from the disk") as of_log:
                driver.disk.read(1, 100)
            with pytest.raises(Corrupt, match=r"\.checkpoint: it cannot be read from the disk"):
                driver.disk.snapshot_bytes(made)

        assert of_log.value.position is not None


async def test_a_failed_fsync_ends_the_node_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    def fail() -> None:
        raise failing(errno.EIO)

    ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    async with sole_leader(tmp_path, failed=ended.set_result) as driver:
        committed = driver.core.log.high_watermark
        with failpoint("log.before_fsync", fail):
            driver.append(driver.core.role.epoch, driver.core.log.leo, [[RECORD]])
            failure = await asyncio.wait_for(ended, 120)

        assert isinstance(failure, OSError)
        assert committed == driver.core.log.high_watermark


async def test_a_full_disk_refuses_appends_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    def full() -> None:
        raise failing(errno.ENOSPC)

    async with sole_leader(tmp_path) as driver:
        end = await write(driver)
        before = driver.disk.read(0, 1 << 20)
        with failpoint("log.reserve", full):
            result = driver.append(driver.core.role.epoch, end, [[RECORD]])

            assert (ErrorCode.KAFKA_STORAGE_ERROR, end) == (result.error, result.end_offset)
            assert before == driver.disk.read(0, 1 << 20)

        assert end + 1 == await write(driver)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("takes root to mount a file system")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


async def test_little_room_is_told_before_appends_are_refused_and_once_a_minute(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = MovedClock()

    def look(at_ms: int) -> bool:
        clock.now_ms = at_ms
        return room.is_enough()

    async with sole_leader(small_disk) as driver:
        room = Room(driver.disk, clock, least_bytes=3 << 20)
        ballast = small_disk / "ballast"
        found = [look(0)]
        ballast.write_bytes(bytes(2 << 20))
        found += [look(at_ms) for at_ms in (999, 1_000, 2_000, 60_000, 61_000)]
        refused = driver.append(driver.core.role.epoch, driver.core.log.leo, [[RECORD]]).error
        ballast.unlink()
        found.append(look(62_000))

    assert [True, True, False, False, False, False, True] == found
    assert ErrorCode.NONE == refused
    told = [each.getMessage() for each in caplog.records if "on the disk of the log" in each.getMessage()]
    assert [LITTLE_ROOM, LITTLE_ROOM, "there is room on the disk of the log again"] == told


async def test_a_file_system_that_fills_up_and_is_emptied_again(small_disk: Path) -> None:
    async with sole_leader(small_disk) as driver:
        end = await write(driver)
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(3 << 20))
        results = [driver.append(driver.core.role.epoch, driver.core.log.leo, [[bytes(200_000)]]) for _ in range(3)]

        assert [ErrorCode.KAFKA_STORAGE_ERROR] * 3 == [result.error for result in results]
        assert end == driver.core.log.leo
        assert driver.disk.read(end - 1, 1 << 20)

        ballast.unlink()
        assert end + 1 == await write(driver, size=200_000)
