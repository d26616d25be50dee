"""The power goes before any system call of a log's life: what was flushed is there, and nothing is called damage."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from quorate.nouns import Offset, OffsetAndEpoch
from quorate.storage.disk_log import DiskLog
from quorate.storage.names import INDEX, PARTITION_DIRECTORY, TIME_INDEX, checkpoint_file, checkpoint_ids
from quorate.wire.batch import batches, read_header
from tests.storage.logs import Crash, batch, crash, failpoint, name_checkpoint, partition, write_log
from tests.storage.virtual_disk import VirtualDisk

SEGMENT_BYTES = 600
STEPS = ("append",) * 4 + ("flush",) * 3 + ("truncate", "restart", "start_at")

Batches = dict[Offset, bytes]


class Life:
    """A log at work on a virtual disk. Before each system call, sometimes, it is looked what a power cut would leave.

    `flushed` has to be found then, and nothing but a beginning of `before` or of `after`: the step may be half done.
    """

    def __init__(self, directory: Path, scratch: Path, random: Random) -> None:
        self.directory, self.scratch, self.random = directory, scratch, random
        self.cuts = 0
        self.step = "open"
        self.flushed: Batches = {}
        self.before: Batches = {}
        self.after: Batches = {}
        self.restarts: set[Offset] = set()

    def run(self, steps: int) -> dict[str, bytes]:
        """Live, and die: the answer is what is left."""
        self.learn()
        self.disk = VirtualDisk(partition(self.directory), ignored=(INDEX, TIME_INDEX))
        with self.disk.watched(self.cut):
            self.log = DiskLog(self.directory, segment_bytes=SEGMENT_BYTES)
            assert self.before == found(self.log)
            for _ in range(steps):
                self.step = self.random.choice(STEPS)
                getattr(self, self.step)()
            self.log.abandon()
        left = self.disk.after_power_cut(self.random)
        self.look(left)
        return left

    def learn(self) -> None:
        """The files there are those that a copy has when it is opened, however often the power goes in the meantime."""
        copy = self.scratch / "copy"
        shutil.copytree(self.directory, copy)
        log = DiskLog(copy, segment_bytes=SEGMENT_BYTES)
        self.is_now(found(log))
        self.flushed = dict(self.after)
        self.restarts = set() if self.after else {log.leo}
        log.close()

    def is_now(self, content: Batches) -> None:
        self.before = self.after = dict(content)

    def append(self) -> None:
        epoch = max(1, self.log.epochs.last_epoch + self.random.choice([0, 0, 0, 1]))
        data = batch(
            self.log.leo, epoch=epoch, count=self.random.randint(1, 2), size=self.random.choice([20, 200, 700])
        )
        self.after = {**self.before, self.log.leo: data}
        self.log.append(data)
        self.is_now(self.after)
        self.flushed = {offset: each for offset, each in self.after.items() if offset < self.log.flushed}

    def flush(self) -> None:
        self.log.flush()
        self.flushed = dict(self.after)

    def truncate(self) -> None:
        committed = max((each.offset for each in checkpoint_ids(partition(self.directory))), default=0)
        to = self.random.choice([offset for offset in self.after if offset >= committed] + [self.log.leo])
        self.after = {offset: data for offset, data in self.before.items() if offset < to}
        self.flushed = {offset: data for offset, data in self.flushed.items() if offset < to}
        self.log.truncate_to(to)
        self.is_now(self.after)
        self.flushed = dict(self.after)

    def restart(self) -> None:
        offset = self.log.leo + self.random.randint(-3, 5)
        if offset <= max((each.offset for each in checkpoint_ids(partition(self.directory))), default=0):
            return
        older = [checkpoint_file(partition(self.directory), each) for each in checkpoint_ids(partition(self.directory))]
        snapshot = OffsetAndEpoch(epoch=self.log.epochs.last_epoch + 1, offset=offset)
        self.restarts, self.flushed, self.after = {offset}, {}, {}
        self.before = {}
        self.disk.put(checkpoint_file(partition(self.directory), snapshot))
        self.log.restart_at(snapshot)
        for path in older:
            self.disk.drop(path)

    def start_at(self) -> None:
        ends = [offset for offset in self.after if offset > self.log.start]
        if not ends:
            return
        self.flush()
        offset = self.random.choice(ends)
        epoch = max(read_header(data).epoch for at, data in self.after.items() if at < offset)
        snapshot = OffsetAndEpoch(epoch=epoch, offset=offset)
        if snapshot.offset <= max((each.offset for each in checkpoint_ids(partition(self.directory))), default=0):
            return
        self.flushed = {at: data for at, data in self.flushed.items() if at >= offset}
        self.disk.put(checkpoint_file(partition(self.directory), snapshot))
        self.log.start_at(snapshot)

    def cut(self, _call: str) -> None:
        if self.random.random() < 0.3:
            self.look(self.disk.after_power_cut(self.random))

    def look(self, left: dict[str, bytes]) -> None:
        """Open what is left, and write on."""
        directory = self.scratch / str(self.cuts)
        self.cuts += 1
        put(left, directory)
        log = DiskLog(directory, segment_bytes=SEGMENT_BYTES)
        content, start, leo = found(log), log.start, log.leo
        log.append(batch(leo, epoch=log.epochs.last_epoch + 1))
        log.close()

        if leo in self.restarts and not content:
            return
        assert any(content.items() <= allowed.items() for allowed in (self.before, self.after)), self.step
        assert {offset: data for offset, data in self.flushed.items() if offset >= start}.items() <= content.items()


def put(files: dict[str, bytes], directory: Path) -> None:
    (directory / PARTITION_DIRECTORY).mkdir(parents=True)
    for name, data in files.items():
        (directory / PARTITION_DIRECTORY / name).write_bytes(data)


def found(log: DiskLog) -> Batches:
    content = {}
    offset = log.start
    while data := log.read(offset, 1 << 20):
        for position, header in batches(data):
            content[header.base_offset] = data[position : position + header.size]
            offset = header.next_offset
    return content


@pytest.mark.parametrize("seed", range(40))
def test_three_lives_that_end_with_the_power(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    left: dict[str, bytes] = {}
    cuts = 0
    for number in range(3):
        directory = tmp_path / f"life-{number}"
        put(left, directory)
        life = Life(directory, tmp_path / f"cuts-{number}", random)
        left = life.run(steps=12)
        cuts += life.cuts

    assert cuts > 20


def test_a_crash_before_the_epochs_are_written_anew_is_no_damage(tmp_path: Path) -> None:
    """The first segment left begins within an epoch that the file lists from before. A JVM may leave it so."""
    write_log(tmp_path, epochs=(1, 1, 1, 1, 1), segment_bytes=300)
    log = DiskLog(tmp_path, segment_bytes=300)
    snapshot = OffsetAndEpoch(epoch=1, offset=6)
    name_checkpoint(tmp_path, snapshot)
    with failpoint("file.before_tmp_fsync", crash), pytest.raises(Crash):
        log.start_at(snapshot)
    log.abandon()

    again = DiskLog(tmp_path, segment_bytes=300)

    assert (6, 10, snapshot) == (again.start, again.leo, again.epochs.floor)
    again.close()


def test_what_a_failed_fsync_has_not_written_is_written_by_the_next_start(tmp_path: Path) -> None:
    """The kernel still shows it to readers, and the next fsync alone would say that there is nothing to write."""
    directory = tmp_path / "life"
    directory.mkdir()
    write_log(directory, epochs=(1,))
    disk, random = VirtualDisk(partition(directory), ignored=(INDEX, TIME_INDEX)), Random(1)
    with disk.watched(lambda _: None):
        log = DiskLog(directory)
        log.append(batch(log.leo, epoch=1))
        disk.fails = True
        with pytest.raises(OSError, match="Input/output error"):
            log.flush()
        disk.fails = False
        log.abandon()
        log = DiskLog(directory)
        flushed = found(log)
        log.abandon()
    put(disk.after_power_cut(random), tmp_path / "left")
    left = DiskLog(tmp_path / "left")

    assert 2 == len(flushed)
    assert flushed == found(left)
    left.close()
