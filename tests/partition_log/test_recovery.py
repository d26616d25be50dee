"""What a start makes of files that an unclean stop, a disk or a JVM has left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quorate.errors import Corrupt
from quorate.partition_log import PartitionLog
from quorate.storage.names import LEADER_EPOCHS
from tests.partition_log.batches import NOW_MS, opened, placed, produced

SIZE = len(produced())
SEGMENT_BYTES = 3 * SIZE


def written(directory: Path, *, count: int = 8, flushed: int = 0) -> Path:
    """A log of one record a batch, three a segment, whose process was killed; returns the partition's directory."""
    log = opened(directory, segment_bytes=SEGMENT_BYTES)
    for at in range(count):
        log.append_as_leader(produced(), epoch=at // 2, now_ms=NOW_MS)
        if at + 1 == flushed:
            log.flush()
    log.abandon()
    return directory / "t-0"


def last(directory: Path) -> Path:
    return max(directory.glob("*.log"))


@pytest.mark.parametrize("left", [0, 1, 11, 60, 61, SIZE - 1])
def test_a_batch_that_is_torn_at_any_byte_is_cut_off(tmp_path: Path, left: int) -> None:
    path = last(written(tmp_path))
    os.truncate(path, SIZE + left)
    log = opened(tmp_path, segment_bytes=SEGMENT_BYTES)

    assert (7, 0, left) == (log.leo, log.start, log.torn.size if log.torn else 0)
    assert log.torn is None or (path, SIZE, 7) == (log.torn.path, log.torn.position, log.torn.offset)
    assert SIZE == path.stat().st_size
    assert 7 == log.append_as_leader(produced(), epoch=9, now_ms=NOW_MS).base_offset
    log.abandon()


def test_what_follows_a_bad_batch_above_the_recovery_point_goes_with_it(tmp_path: Path) -> None:
    directory = written(tmp_path, flushed=3)
    with min(directory.glob("*3.log")).open("r+b") as file:
        file.seek(SIZE + 70)
        file.write(b"!")
    log = opened(tmp_path, segment_bytes=SEGMENT_BYTES, recovery_point=3)

    assert (4, 2 * SIZE) == (log.leo, log.torn.size if log.torn else 0)
    assert ["00000000000000000000.log", "00000000000000000003.log"] == sorted(
        path.name for path in directory.glob("*.log")
    )
    log.abandon()


def test_a_bad_batch_below_the_recovery_point_is_damage_and_changes_nothing(tmp_path: Path) -> None:
    directory = written(tmp_path, flushed=7)
    path = min(directory.glob("*6.log"))
    with path.open("r+b") as file:
        file.seek(70)
        file.write(b"!")
    before = path.read_bytes()
    with pytest.raises(Corrupt, match=r"00000000000000000006\.log: batch at offset 6 has checksum .* at byte 0"):
        opened(tmp_path, segment_bytes=SEGMENT_BYTES, recovery_point=7)

    assert before == path.read_bytes()


@pytest.mark.parametrize("recovery_point", [0, 8])
def test_an_epoch_that_leader_epoch_checkpoint_has_otherwise_is_damage(tmp_path: Path, recovery_point: int) -> None:
    """No unclean stop leaves a whole batch with another epoch, so it is no torn tail anywhere."""
    directory = written(tmp_path, flushed=8)
    path = last(directory)
    path.write_bytes(path.read_bytes()[:SIZE] + placed(produced(), offset=7, epoch=2))
    with pytest.raises(Corrupt, match=rf"offset 7 has epoch 2, leader-epoch-checkpoint has 3 at byte {SIZE}"):
        opened(tmp_path, segment_bytes=SEGMENT_BYTES, recovery_point=recovery_point)

    assert 2 * SIZE == path.stat().st_size


@pytest.mark.parametrize("start", [1, 4, 5, 7, 8])
@pytest.mark.parametrize("recovery_point", [0, 6, 8])
@pytest.mark.parametrize("is_noted", [False, True], ids=["log start lost", "log start noted"])
def test_a_kill_after_the_log_start_is_raised_loses_nothing(
    tmp_path: Path, start: int, recovery_point: int, is_noted: bool
) -> None:
    """leader-epoch-checkpoint is written at once, and the log directory's files a minute later, one after the other."""
    written(tmp_path, flushed=8)
    log = opened(tmp_path, segment_bytes=SEGMENT_BYTES, recovery_point=8)
    log.raise_start(start)
    log.abandon()
    how = {"recovery_point": recovery_point, "log_start": start if is_noted else 0}
    for _ in range(2):
        log = opened(tmp_path, segment_bytes=SEGMENT_BYTES, **how)

        assert (how["log_start"], 8, None) == (log.start, log.leo, log.torn)
        assert [at // 2 for at in range(log.start, 8)] == [log.epochs.epoch_at(at) for at in range(log.start, 8)]
        log.abandon()


def test_a_batch_before_the_epochs_that_are_listed_is_of_none_after_them(tmp_path: Path) -> None:
    directory = written(tmp_path, flushed=8)
    log = opened(tmp_path, segment_bytes=SEGMENT_BYTES, recovery_point=8)
    log.raise_start(5)
    log.abandon()
    path = min(directory.glob("*.log"))
    path.write_bytes(placed(produced(), offset=0, epoch=3) + path.read_bytes()[SIZE:])
    with pytest.raises(Corrupt, match="offset 0 has epoch 3, leader-epoch-checkpoint has 2 from offset 5 on at byte 0"):
        opened(tmp_path, segment_bytes=SEGMENT_BYTES)


@pytest.mark.parametrize("lost", ["*.index", "*.timeindex", "*.snapshot", LEADER_EPOCHS])
@pytest.mark.parametrize("how", ["removed", "emptied", "noise", "cut"])
def test_files_beside_the_batches_are_made_anew(tmp_path: Path, lost: str, how: str) -> None:
    log = opened(tmp_path, segment_bytes=SEGMENT_BYTES, settings={"index_interval_bytes": 1})
    for at in range(8):
        log.append_as_leader(produced(timestamp_ms=NOW_MS + at), epoch=at // 2, now_ms=NOW_MS)
    log.close()
    for path in (tmp_path / "t-0").glob(lost):
        if how == "removed":
            path.unlink()
        else:
            path.write_bytes({"emptied": b"", "noise": b"\xff" * 24, "cut": path.read_bytes()[:5]}[how])
    log = opened(tmp_path, segment_bytes=SEGMENT_BYTES, clean=True, settings={"index_interval_bytes": 1})

    assert ((0, 0), (1, 2), (2, 4), (3, 6)) == tuple(each for each in log.epochs.entries if each[0] >= 0)
    assert 8 == log.leo
    assert list(range(8)) == [offset_at(log, NOW_MS + at) for at in range(8)]
    log.abandon()


def offset_at(log: PartitionLog, timestamp_ms: int) -> int | None:
    found = log.find_time(timestamp_ms)
    return None if found is None else found[2].base_offset


def test_a_time_after_the_last_record_is_found_nowhere(tmp_path: Path) -> None:
    written(tmp_path)
    log = opened(tmp_path, segment_bytes=SEGMENT_BYTES)

    assert (0, None) == (offset_at(log, NOW_MS), offset_at(log, NOW_MS + 1))
    log.abandon()


def test_another_topics_directory_is_refused(tmp_path: Path) -> None:
    directory = written(tmp_path)
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(Corrupt, match="it is another topic's"):
        opened(tmp_path)


def test_a_compaction_that_was_not_finished_is_refused_and_one_that_had_not_begun_is_forgotten(tmp_path: Path) -> None:
    directory = written(tmp_path)
    (directory / "00000000000000000000.log.cleaned").touch()
    (directory / "00000000000000000000.log.deleted").touch()
    opened(tmp_path).abandon()
    assert [] == [*directory.glob("*.cleaned"), *directory.glob("*.deleted")]
    (directory / "00000000000000000000.log.swap").touch()
    with pytest.raises(Corrupt, match="start a Kafka broker on the directory once"):
        opened(tmp_path)


def test_what_is_flushed_beside_appends_is_not_cut_off_by_a_flipped_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full segments are on the disk with all their files; what is wrong in one was not left by a kill."""
    synced: list[str] = []
    sync = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        sync(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    log = opened(tmp_path, segment_bytes=300)
    for _ in range(10):
        log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    full = log.begin_flush()
    assert full is not None
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    full.flush()
    log.end_flush(full)
    *sealed, active = sorted(path.stem for path in (tmp_path / "t-0").glob("*.log"))

    files = {f"{stem}.{suffix}" for stem in sealed for suffix in ("log", "index", "timeindex")}
    assert {*files, "leader-epoch-checkpoint"} == set(synced)
    assert int(active) == log.recovery_point
    assert log.begin_flush() is None

    log.abandon()
    damaged = tmp_path / "t-0" / f"{sealed[0]}.log"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    again = opened(tmp_path, segment_bytes=300, recovery_point=int(active))

    assert (10, None) == (again.leo, again.torn)


@pytest.mark.parametrize("left", [None, "", "0\n1\n1 0\n"], ids=["gone", "empty", "of before"])
def test_epochs_whose_file_a_power_cut_took_are_in_the_batches(tmp_path: Path, left: str | None) -> None:
    """The first batch of an epoch is acknowledged before the file is on the disk."""
    log = opened(tmp_path)
    for epoch in (1, 1, 3, 4, 4):
        log.append_as_leader(produced(), epoch=epoch, now_ms=NOW_MS)
    log.abandon()
    file = tmp_path / "t-0" / "leader-epoch-checkpoint"
    file.unlink(missing_ok=True)
    if left is not None:
        file.write_text(left)

    again = opened(tmp_path)
    assert [(1, 0), (3, 2), (4, 3)] == [each for each in again.epochs.entries if each[0] > 0]
    assert 5 == again.leo
    again.abandon()


@pytest.mark.parametrize("others", [8, 6], ids=["later", "earlier"])
def test_epochs_that_are_listed_and_lost_are_not_those_of_the_records_that_follow(tmp_path: Path, others: int) -> None:
    """A power cut takes those of epoch 7; the next leader has them of another; then this broker is killed."""
    log = opened(tmp_path)
    for epoch in (5, 5, 7):
        log.append_as_leader(produced(), epoch=epoch, now_ms=NOW_MS)
    log.raise_start(1)  # which writes the file
    end = log.size_between(0, 2)
    log.abandon()
    os.truncate(tmp_path / "t-0" / "00000000000000000000.log", end)

    again = opened(tmp_path, log_start=1)
    for offset in (2, 3):
        again.append_as_follower(placed(produced(), offset=offset, epoch=others), now_ms=NOW_MS)
    again.abandon()
    last = opened(tmp_path, log_start=1)
    assert (4, others) == (last.leo, last.epochs.last_epoch)
    last.abandon()


def test_an_epoch_without_a_record_goes_and_nothing_is_read(tmp_path: Path) -> None:
    """So it is after each planned stop: a broker has led a partition that nobody wrote to, and gives it back."""
    log = opened(tmp_path)
    log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    log.assign_epoch(4, log.leo)
    (file,) = (tmp_path / "t-0").glob("*.log")
    os.truncate(file, 0)  # a reader finds that
    log.truncate(log.leo)

    assert (1, 1) == (log.epochs.last_epoch, log.leo)
    log.abandon()


def test_what_is_truncated_while_it_is_flushed_does_not_count_as_flushed(tmp_path: Path) -> None:
    """Other records may be at the same offsets by the end of the flush."""
    log = opened(tmp_path, segment_bytes=300)
    for _ in range(10):
        log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    full = log.begin_flush()
    assert full is not None
    log.truncate(1)
    full.flush()  # some of its files are gone
    for _ in range(9):
        log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    log.end_flush(full)

    assert 0 == log.recovery_point


@pytest.mark.parametrize("follows", [False, True])
def test_with_flush_messages_an_append_is_on_the_disk_before_anybody_hears_of_it(tmp_path: Path, follows: bool) -> None:
    """So many records at most are not; one answer of a leader may have several batches."""
    log = opened(tmp_path, segment_bytes=300, settings={"flush_messages": 3})

    def append(batches: int) -> None:
        if follows:
            ends = range(log.leo, log.leo + batches)
            log.append_as_follower(b"".join(placed(produced(), offset=at, epoch=1) for at in ends), now_ms=NOW_MS)
        else:
            for _ in range(batches):
                log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)

    found = []
    for count in (2, 1, 2, 4):
        append(count)
        found.append((log.leo, log.recovery_point))

    assert [(2, 0), (3, 3), (5, 3), (9, 9)] == found
    log.abandon()
    assert (9, None) == ((again := opened(tmp_path, segment_bytes=300, recovery_point=9)).leo, again.torn)
