"""The log on disk against a list in memory, through every order of appends, flushes, cuts, crashes and restarts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quorate.errors import Corrupt
from quorate.nouns import OffsetAndEpoch
from quorate.storage.disk_log import MARK_INTERVAL_BYTES, DiskLog
from quorate.storage.durable_mark import DurableMark
from quorate.storage.names import LEADER_EPOCHS, PARTITION_DIRECTORY, checkpoint_ids, segment_bases
from quorate.wire.batch import read_header
from tests.storage.logs import batch, content, last_segment, name_checkpoint, partition, write_log

SEGMENT_BYTES = 900


class DiskLogMachine(RuleBasedStateMachine):
    """`batches` are all that lie in the segments, each with its offset; `start` hides some of them."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="quorate-log-"))
        self.log = DiskLog(self.directory, segment_bytes=SEGMENT_BYTES)
        self.batches: list[tuple[int, bytes]] = []
        self.start = self.leo = self.flushed = 0
        self.epoch = 1

    def teardown(self) -> None:
        self.log.abandon()
        shutil.rmtree(self.directory)

    @initialize(segment_bytes=st.sampled_from([1, SEGMENT_BYTES, 1 << 30]))
    def choose_segments(self, segment_bytes: int) -> None:
        self.log.close()
        self.segment_bytes = segment_bytes
        self.open()

    def open(self) -> None:
        self.log = DiskLog(self.directory, segment_bytes=self.segment_bytes)

    @rule(count=st.integers(1, 4), size=st.integers(20, 300), is_new_epoch=st.booleans())
    def append(self, count: int, size: int, is_new_epoch: bool) -> None:
        self.epoch += is_new_epoch
        data = batch(self.leo, epoch=self.epoch, count=count, size=size)
        rolls = self.log.size > 0 and len(segment_bases(partition(self.directory)))
        self.log.append(data)
        self.batches.append((self.leo, data))
        if len(segment_bases(partition(self.directory))) > rolls > 0:
            self.flushed = self.leo
        self.leo += count

    @rule()
    def flush(self) -> None:
        assert self.leo == self.log.flush()
        self.flushed = self.leo

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        committed = max((each.offset for each in checkpoint_ids(partition(self.directory))), default=0)
        ends = [offset for offset, _ in self.batches if offset >= max(self.start, committed)] + [self.leo]
        to = data.draw(st.sampled_from(ends))
        self.log.truncate_to(to)
        self.batches = [each for each in self.batches if each[0] < to]
        self.leo = self.flushed = to

    @precondition(lambda self: self.leo > self.start)
    @rule(data=st.data())
    def start_at(self, data: st.DataObject) -> None:
        self.flush()
        ends = [offset for offset, _ in self.batches if offset > self.start] + [self.leo]
        snapshot = self.snapshot_at(data.draw(st.sampled_from(ends)))
        name_checkpoint(self.directory, snapshot)
        self.log.start_at(snapshot)
        self.start = snapshot.offset
        self.forget_below(segment_bases(partition(self.directory))[0])

    @rule(ahead=st.integers(0, 5))
    def restart(self, ahead: int) -> None:
        self.epoch += 1
        snapshot = OffsetAndEpoch(epoch=self.epoch, offset=self.leo + ahead)
        for older in checkpoint_ids(partition(self.directory)):
            name_checkpoint(self.directory, older).unlink()
        name_checkpoint(self.directory, snapshot)
        self.log.restart_at(snapshot)
        self.batches = []
        self.start = self.leo = self.flushed = snapshot.offset

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.open()
        self.flushed = self.leo
        self.start = self.start_when_opened()

    @rule(data=st.data(), tail=st.sampled_from([b"", bytes(300), b"\x02" * 200]))
    def crash(self, data: st.DataObject, tail: bytes) -> None:
        """All that was not flushed is lost from some byte on; there may be zeros or noise instead."""
        self.log.abandon()
        path = last_segment(self.directory)
        base = int(path.stem)
        safe = sum(len(each) for offset, each in self.batches if base <= offset < self.flushed)
        kept = data.draw(st.integers(safe, path.stat().st_size))
        path.write_bytes(path.read_bytes()[:kept] + tail)
        self.open()
        survived = len(content_of(self.log, from_base=base))
        self.batches = [each for each in self.batches if each[0] < self.log.leo]
        assert survived <= kept + len(tail)  # the last byte of a batch is 0, and may be the first of the tail
        assert self.flushed <= self.log.leo
        self.leo = self.flushed = self.batches[-1][0] + records_in(self.batches[-1][1]) if self.batches else self.start
        self.start = self.start_when_opened()

    def start_when_opened(self) -> int:
        base = segment_bases(partition(self.directory))[0]
        ends = [each.offset for each in checkpoint_ids(partition(self.directory)) if each.offset >= base]
        return ends[0] if base > 0 else 0

    def forget_below(self, base: int) -> None:
        self.batches = [each for each in self.batches if each[0] >= base]

    def snapshot_at(self, offset: int) -> OffsetAndEpoch:
        before = [read_header(data).epoch for at, data in self.batches if at < offset]
        return OffsetAndEpoch(epoch=before[-1], offset=offset)

    @invariant()
    def it_holds_what_the_list_holds(self) -> None:
        visible = [data for offset, data in self.batches if offset >= self.start]

        assert (self.start, self.flushed, self.leo) == (self.log.start, self.log.flushed, self.log.leo)
        assert b"".join(visible) == content(self.log)
        assert sum(len(data) for _, data in self.batches) == self.log.size

    @invariant()
    def it_finds_every_offset(self) -> None:
        for offset, data in self.batches:
            for each in range(max(offset, self.start), offset + records_in(data)):
                assert data == self.log.read(each, 1)

    @invariant()
    def it_knows_where_each_epoch_begins(self) -> None:
        seen = {}
        for offset, data in self.batches:
            if offset >= self.start:
                seen.setdefault(read_header(data).epoch, offset)
        floor = self.log.epochs.floor

        assert [each for each in seen.items() if each[0] != floor.epoch] == list(self.log.epochs.entries[1:])

    @invariant()
    def the_epochs_file_lists_the_epochs_that_have_records(self) -> None:
        lines = (partition(self.directory) / LEADER_EPOCHS).read_text().splitlines()[2:]
        listed = [tuple(map(int, line.split())) for line in lines]
        ours = [entry for entry in self.log.epochs.entries[1:] if entry[1] < self.leo]

        assert [each for each in listed if each[0] != self.log.epochs.floor.epoch] == ours

    @invariant()
    def the_mark_vouches_for_no_more_than_is_flushed(self) -> None:
        assert DurableMark(self.directory / PARTITION_DIRECTORY).read() <= self.log.flushed


def records_in(data: bytes) -> int:
    return read_header(data).count


def content_of(log: DiskLog, *, from_base: int) -> bytes:
    return content(log) if from_base <= log.start else log.read(from_base, 1 << 30)


TestDiskLogMachine = DiskLogMachine.TestCase
TestDiskLogMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


# What the machine does not say.


def test_a_read_gives_whole_batches_and_at_least_one(tmp_path: Path) -> None:
    written = write_log(tmp_path)
    size = len(written[0])
    log = DiskLog(tmp_path)

    for max_bytes, expected in [(0, 1), (1, 1), (size, 1), (size + 60, 1), (2 * size, 2), (3 * size - 1, 2), (9999, 5)]:
        assert b"".join(written[:expected]) == log.read(0, max_bytes), max_bytes
        assert b"".join(written[1 : 1 + expected]) == log.read(2, max_bytes), max_bytes
    assert written[1] == log.read(3, 1)  # the batch that has the offset, from its beginning
    assert b"" == log.read(10, 1)
    log.close()


def test_a_read_ends_with_its_segment(tmp_path: Path) -> None:
    written = write_log(tmp_path, segment_bytes=250)
    log = DiskLog(tmp_path, segment_bytes=250)

    assert b"".join(written[:2]) == log.read(0, 1 << 20)
    log.close()


@pytest.mark.parametrize("offset", [1, 3, 9])
def test_a_batch_is_not_cut_in_two(tmp_path: Path, offset: int) -> None:
    write_log(tmp_path)
    log = DiskLog(tmp_path)

    with pytest.raises(Corrupt, match=f"no batch begins at offset {offset}"):
        log.truncate_to(offset)
    with pytest.raises(Corrupt, match=f"no batch begins at offset {offset}"):
        log.start_at(OffsetAndEpoch(epoch=1, offset=offset))

    assert (0, 10) == (log.start, log.leo)
    log.close()


def test_an_append_must_follow(tmp_path: Path) -> None:
    write_log(tmp_path)
    log = DiskLog(tmp_path)

    for wrong in (batch(9), batch(11), batch(10, epoch=1), batch(10, epoch=2) + b"!"):
        with pytest.raises(AssertionError):
            log.append(wrong)

    assert 10 == log.leo
    log.close()


def test_a_segment_ends_when_it_is_old(tmp_path: Path) -> None:
    log = DiskLog(tmp_path, segment_ms=500)
    for offset, timestamp_ms in enumerate([0, 400, 500, 501, 900, 1002]):
        log.append(batch(offset, timestamp_ms=timestamp_ms))
    log.close()

    assert [0, 3, 5] == segment_bases(partition(tmp_path))


def test_a_roll_flushes_what_came_before_and_not_what_comes_after(tmp_path: Path) -> None:
    log = DiskLog(tmp_path, segment_bytes=200)
    reached = []
    for offset in range(5):
        log.append(batch(offset))
        reached.append(log.flushed)
    log.close()

    assert [0, 0, 2, 2, 4] == reached


def test_a_flush_that_is_under_way_does_not_need_a_segment_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """Its bytes are on the disk since the log went on in another; the file's number may be another file's by now."""
    log = DiskLog(tmp_path, segment_bytes=200)
    log.append(batch(0))
    flush = log.begin_flush()
    log.append(batch(1))
    log.append(batch(2))  # in another segment
    name_checkpoint(tmp_path, OffsetAndEpoch(epoch=1, offset=2))
    for segment in log.start_at(OffsetAndEpoch(epoch=1, offset=2)):
        segment.remove()
    assert flush is not None
    flush.wait()

    assert 2 == log.end_flush(flush)
    log.close()


def test_the_mark_follows_the_flushes_from_afar(tmp_path: Path) -> None:
    log = DiskLog(tmp_path)
    mark = DurableMark(partition(tmp_path))
    size = MARK_INTERVAL_BYTES // 3
    reached = []
    for offset in range(4):
        log.append(batch(offset, size=size))
        log.flush()
        reached.append(mark.read())
    log.close()

    assert [0, 0, 3, 3] == reached
    assert 4 == mark.read()


def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    write_log(tmp_path)

    modes = {path.name: path.stat().st_mode & 0o077 for path in partition(tmp_path).iterdir()}

    assert 0o700 == partition(tmp_path).stat().st_mode & 0o777
    assert {} == {name: mode for name, mode in modes.items() if mode and not name.endswith("index")}
