"""A disk that fails, a disk that is full, and a process that ends between any two steps."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from quorate.errors import Corrupt
from quorate.nouns import OffsetAndEpoch
from quorate.storage.disk_log import DiskLog
from quorate.storage.durable_mark import DurableMark
from quorate.storage.failpoints import ENVIRONMENT, NAMES, at_count, set_failpoint, set_from_environment
from quorate.storage.files import NoSpace
from quorate.storage.names import DURABLE_MARK, segment_bases
from quorate.wire.batch import HEADER_BYTES
from tests.storage.logs import (
    Crash,
    batch,
    content,
    crash,
    failpoint,
    last_segment,
    name_checkpoint,
    partition,
    write_log,
)


def error(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A disk on which no file can grow beyond `size`: a write that reaches it is short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# A sync that fails.


def test_after_a_failed_sync_nothing_more_is_believed_of_the_disk(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    log = DiskLog(tmp_path)
    log.append(batch(10, epoch=2))

    with failpoint("log.before_fsync", error(errno.EIO)), pytest.raises(OSError, match="Input/output error"):
        log.flush()
    refusals: list[Callable[[], object]] = [
        log.flush,
        lambda: log.append(batch(11, epoch=2)),
        lambda: log.truncate_to(8),
        lambda: log.restart_at(OffsetAndEpoch(epoch=9, offset=9)),
        lambda: log.start_at(OffsetAndEpoch(epoch=1, offset=6)),
        log.close,
    ]
    for refusal in refusals:
        with pytest.raises(OSError, match="is not asked again") as refused:
            refusal()

        assert errno.EIO == refused.value.errno
    assert 10 == log.flushed
    again = DiskLog(tmp_path)
    assert b"".join(written) == content(again)[: len(b"".join(written))]
    again.close()


def test_a_sync_that_fails_while_a_segment_ends_is_no_less_final(tmp_path: Path) -> None:
    log = DiskLog(tmp_path, segment_bytes=150)
    log.append(batch(0))

    with failpoint("log.before_fsync", error(errno.EIO)), pytest.raises(OSError, match="Input/output error"):
        log.append(batch(1, size=100))

    assert (0, 1) == (log.flushed, log.leo)
    with pytest.raises(OSError, match="is not asked again"):
        log.flush()
    log.abandon()


def test_what_a_killed_process_left_in_memory_is_synced_before_it_is_claimed(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    log.append(batch(0))
    log.abandon()

    with failpoint("log.before_fsync", error(errno.EIO)), pytest.raises(OSError, match="Input/output error"):
        DiskLog(tmp_path)

    again = DiskLog(tmp_path)
    assert (1, 1) == (again.flushed, again.leo)
    again.close()


# A disk that is full.


@pytest.mark.parametrize("room", [0, 1, 60, 61, 80])
def test_a_short_write_leaves_nothing_and_the_log_goes_on_when_there_is_room(tmp_path: Path, room: int) -> None:
    log = DiskLog(tmp_path)
    log.append(batch(0, size=5000))
    before = last_segment(tmp_path).read_bytes()

    with file_size_limit(len(before) + room), pytest.raises(OSError, match="File too large"):
        log.append(batch(1))

    assert before == last_segment(tmp_path).read_bytes()
    assert 1 == log.leo
    log.append(batch(1))
    assert 2 == log.flush()
    assert before + batch(1) == content(log)
    log.close()


@pytest.mark.parametrize("place", ["append.before_write", "append.after_write", "file.before_tmp_fsync"])
def test_a_full_disk_refuses_a_batch_whole(tmp_path: Path, place: str) -> None:
    written = write_log(tmp_path)
    log = DiskLog(tmp_path)
    files = set(partition(tmp_path).iterdir())

    with failpoint(place, error(errno.ENOSPC)), pytest.raises(OSError, match="No space left"):
        log.append(batch(10, epoch=3))

    assert (10, 2) == (log.leo, log.epochs.last_epoch)
    assert b"".join(written) == content(log) == last_segment(tmp_path).read_bytes()
    assert set(partition(tmp_path).iterdir()) <= files
    log.append(batch(10, epoch=2))
    assert 11 == log.flush()
    log.close()


def test_a_full_disk_for_the_indexes_costs_no_batch(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    for offset in range(60):
        log.append(batch(offset, size=1000))

    with file_size_limit(40):
        log.close()

    assert not last_segment(tmp_path).with_suffix(".index").exists()
    again = DiskLog(tmp_path)
    assert 60 == again.leo
    again.close()
    entries = 60 // 4 - 1  # one for every four batches, which are more than 4096 bytes, but for the first
    assert 8 * entries == last_segment(tmp_path).with_suffix(".index").stat().st_size


# A process that ends.


class Life:
    """A life of a log, and between which offsets it may end now, if it is opened again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = DiskLog(directory, segment_bytes=250)
        self.low = self.high = 0

    def live(self) -> None:
        for epoch in (1, 1, 2, 2):
            self.append(epoch)
        self.flush()
        self.low = 1
        self.log.truncate_to(1)
        self.high = 1
        self.append(3)
        self.append(3)
        self.flush()
        snapshot = OffsetAndEpoch(epoch=4, offset=2)
        name_checkpoint(self.directory, snapshot)
        self.low = 2
        self.log.restart_at(snapshot)
        self.high = 2
        self.append(4)
        self.flush()

    def append(self, epoch: int) -> None:
        self.high += 1
        self.log.append(batch(self.log.leo, epoch=epoch, size=100))
        self.low = max(self.low, self.log.flushed)

    def flush(self) -> None:
        self.low = self.log.flush()


PLACES = sorted(name for name in NAMES if not name.startswith(("controller", "snapshot", "state")))


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("place", PLACES)
def test_a_crash_at_any_step_leaves_what_was_flushed_and_no_damage(tmp_path: Path, place: str, count: int) -> None:
    life = Life(tmp_path)
    with failpoint(place, at_count(count, crash)), suppress(Crash):
        life.live()
    life.log.abandon()

    again = DiskLog(tmp_path, segment_bytes=250)

    assert life.low <= again.leo <= life.high
    assert again.leo == again.flushed
    for offset in range(again.start, again.leo):
        assert again.read(offset, 1)[:8] == offset.to_bytes(8, "big")
    again.append(batch(again.leo, epoch=9))
    again.close()


@pytest.mark.parametrize("place", ["truncate.before", "truncate.after"])
def test_the_mark_is_lowered_before_the_log_gets_shorter(tmp_path: Path, place: str) -> None:
    write_log(tmp_path)
    log = DiskLog(tmp_path)

    with failpoint(place, crash), pytest.raises(Crash):
        log.truncate_to(4)

    assert 4 == DurableMark(partition(tmp_path)).read()
    log.abandon()


@pytest.mark.parametrize("place", ["file.before_tmp_fsync", "file.before_rename", "file.after_rename"])
def test_a_crash_while_a_log_gives_way_to_a_checkpoint_is_gone_on_from(tmp_path: Path, place: str) -> None:
    """The mark stands at 10, and the checkpoint ends at 6: what is left must not look like a log that was cut."""
    write_log(tmp_path, segment_bytes=150)
    snapshot = OffsetAndEpoch(epoch=9, offset=6)
    name_checkpoint(tmp_path, snapshot)

    with failpoint(place, crash), pytest.raises(Crash):
        DiskLog(tmp_path, segment_bytes=150)  # behind the checkpoint: it gives way

    again = DiskLog(tmp_path, segment_bytes=150)
    assert (6, 6, snapshot) == (again.start, again.leo, again.epochs.floor)
    again.close()


def test_a_segment_that_is_removed_is_not_followed_by_one_that_is_not(tmp_path: Path) -> None:
    """A power cut may undo the last removal only; so at each step what is there is without a gap."""
    write_log(tmp_path, segment_bytes=150)
    log = DiskLog(tmp_path, segment_bytes=150)
    name_checkpoint(tmp_path, OffsetAndEpoch(epoch=1, offset=6))

    log.start_at(OffsetAndEpoch(epoch=1, offset=6))
    assert [6, 8] == segment_bases(partition(tmp_path))
    log.truncate_to(6)

    assert [6] == segment_bases(partition(tmp_path))
    log.close()


def test_bytes_that_change_under_a_running_log_are_not_served(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    log = DiskLog(tmp_path)
    broken = bytearray(b"".join(written))
    broken[len(written[0]) + 16] = 7
    last_segment(tmp_path).write_bytes(broken)

    with pytest.raises(Corrupt, match="magic 7") as damage:
        log.read(2, 1)

    assert (last_segment(tmp_path), len(written[0])) == (damage.value.path, damage.value.position)
    log.abandon()


@pytest.mark.parametrize("byte", range(HEADER_BYTES))
def test_a_header_that_changes_under_a_running_log_is_damage_and_no_bug(tmp_path: Path, byte: int) -> None:
    """A search for an offset goes over the headers before it: whatever they say now, nothing but Corrupt is raised."""
    written = write_log(tmp_path)
    log = DiskLog(tmp_path)
    broken = bytearray(b"".join(written))
    for bit in range(8):
        broken[byte] ^= 1 << bit
        last_segment(tmp_path).write_bytes(broken)
        with suppress(Corrupt):
            assert log.read(2, 1)
        broken[byte] ^= 1 << bit
    log.abandon()


@pytest.mark.parametrize("byte", range(HEADER_BYTES))
def test_a_header_that_changes_under_a_truncation_is_damage_and_no_bug(tmp_path: Path, byte: int) -> None:
    """The batches that stay are read again for the index: whatever they say now, nothing but Corrupt is raised."""
    for bit in range(8):
        home = tmp_path / str(bit)
        home.mkdir()
        written = write_log(home)
        log = DiskLog(home)
        broken = bytearray(b"".join(written))
        broken[len(written[0]) + byte] ^= 1 << bit
        last_segment(home).write_bytes(broken)
        try:
            log.truncate_to(4)
            log.close()
        except Corrupt:
            assert bytes(broken) == last_segment(home).read_bytes()  # nothing of it is cut
        log.abandon()


# Failpoints from outside.


def test_a_process_kills_itself_where_it_is_told_to(tmp_path: Path) -> None:
    story = (
        "import os, sys; from pathlib import Path\n"
        "from quorate.storage.failpoints import set_from_environment\n"
        "from quorate.storage.disk_log import DiskLog\n"
        "from tests.storage.logs import batch\n"
        "log = DiskLog(Path(sys.argv[1]))\n"
        "set_from_environment(os.environ)\n"
        "for offset in range(9): log.append(batch(offset)); print(log.flush(), flush=True)\n"
    )
    environ = {**os.environ, ENVIRONMENT: "log.after_fsync:kill@4"}

    done = subprocess.run(
        [sys.executable, "-c", story, str(tmp_path)], env=environ, capture_output=True, text=True, check=False
    )

    assert (-9, "1\n2\n3\n") == (done.returncode, done.stdout), done.stderr
    again = DiskLog(tmp_path)
    assert 4 == again.leo
    again.close()


@pytest.mark.parametrize(
    "wrong", ["nowhere:kill", "log.after_fsync:dance", "log.after_fsync:kill@x", "log.after_fsync"]
)
def test_a_failpoint_that_does_not_exist_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=ENVIRONMENT):
        set_from_environment({ENVIRONMENT: wrong})


def test_an_error_can_be_asked_for_from_outside(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    log.append(batch(0))
    set_from_environment({ENVIRONMENT: "log.before_fsync:eio"})
    try:
        with pytest.raises(OSError, match="Input/output error"):
            log.flush()
    finally:
        set_failpoint("log.before_fsync", None)
        log.abandon()


def test_a_mark_of_another_life_is_not_lowered_in_vain(tmp_path: Path) -> None:
    directory = partition(tmp_path)
    directory.mkdir(parents=True)
    mark = DurableMark(directory)
    mark.write(5)

    mark.lower(9)
    assert 5 == mark.read()
    mark.lower(2)

    assert 2 == mark.read()
    assert (directory / DURABLE_MARK).stat().st_size == 30
    mark.close()


def test_an_epoch_that_found_no_room_is_not_listed_for_good(tmp_path: Path) -> None:
    """The epoch is listed before its first batch; that batch was not written, and one of the old epoch was instead."""
    write_log(tmp_path)
    log = DiskLog(tmp_path)
    with failpoint("append.before_write", error(errno.ENOSPC)), pytest.raises(NoSpace):
        log.append(batch(10, epoch=3))
    log.append(batch(10, epoch=2))
    log.close()

    again = DiskLog(tmp_path)

    assert (11, 2) == (again.leo, again.epochs.last_epoch)
    again.close()


def test_room_is_asked_for_beforehand_and_found_when_there_is_some(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    with failpoint("log.reserve", error(errno.ENOSPC)), pytest.raises(NoSpace, match="No space left"):
        log.reserve(1)
    with pytest.raises(NoSpace, match=r"No space left on device: \d+ bytes are needed, \d+ are free"):
        log.reserve(1 << 60)

    log.reserve(1)
    log.append(batch(0))
    log.close()


def test_a_full_disk_can_still_be_cleaned(tmp_path: Path) -> None:
    write_log(tmp_path, segment_bytes=300)
    log = DiskLog(tmp_path, segment_bytes=300)
    snapshot = OffsetAndEpoch(epoch=2, offset=8)
    name_checkpoint(tmp_path, snapshot)

    with failpoint("file.before_tmp_fsync", error(errno.ENOSPC)):
        retired = log.start_at(snapshot)
    for segment in retired:
        segment.remove()

    assert [8] == segment_bases(partition(tmp_path))
    log.append(batch(10, epoch=2))
    log.close()
    again = DiskLog(tmp_path, segment_bytes=300)
    assert (8, 11) == (again.start, again.leo)
    again.close()


@pytest.mark.parametrize("count", [1, 2])
def test_what_the_disk_does_not_give_back_at_the_start_is_damage(tmp_path: Path, count: int) -> None:
    """It is read before it is mapped: an error under a mapping would be a signal, and name nothing."""
    write_log(tmp_path)
    log = DiskLog(tmp_path)
    for offset in range(10, 16):
        log.append(batch(offset, epoch=2, size=300_000))
    log.close()

    with (
        failpoint("file.before_read", at_count(count, error(errno.EIO))),
        pytest.raises(Corrupt, match="it cannot be read from the disk") as damage,
    ):
        DiskLog(tmp_path)

    assert last_segment(tmp_path) == damage.value.path
    assert damage.value.position is not None
    assert damage.value.position <= (count - 1) << 20
