"""A log on disk equals the log in memory after any calls, and any end of its process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.epochs import EpochCache
from quorate.partition_log import OpenFiles, PartitionLog
from quorate.replication.effects import Batch, RestartAt
from quorate.wire.batch import fetched_batches
from tests.partition_log.batches import NOW_MS, opened, placed, produced
from tests.replication.memory_log import MemoryLog

SEGMENT_BYTES = 700
STEPS = ("write", "write", "write", "follow", "cut", "raise", "restart", "flush", "retire", "stop", "kill")


class Twins:
    """The log on disk and the log in memory, to which the same is done."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.disk = opened(directory, segment_bytes=SEGMENT_BYTES, files=OpenFiles(1))
        self.memory = MemoryLog()
        self.epoch = 1

    def do(self, step: str, number: int) -> None:
        """One step; `number` is at random, from 0 to 99."""
        getattr(self, f"_{step}")(number)
        self.compare()

    def compare(self) -> None:
        """Ends, epochs and every batch."""
        disk, memory = self.disk, self.memory
        assert (memory.start, memory.leo) == (disk.start, disk.leo)
        assert self._known(memory.epochs) == self._known(disk.epochs)
        assert memory.batches == _batches(disk)
        assert disk.recovery_point <= disk.leo

    def _known(self, epochs: EpochCache) -> dict[int, int]:
        """As leader-epoch-checkpoint has them: neither a floor of no epoch, nor an epoch that another replaced at once.

        Where an epoch begins in a gap, nothing tells at which offset of it: its first record counts. Of an empty log
        the floor's epoch may have been forgotten.
        """
        bases = [batch.base_offset for batch in self.memory.batches]
        begun = {
            next((base for base in bases if base >= start), start): epoch
            for epoch, start in epochs.entries
            if epoch >= 0
        }
        return begun if bases else {start: epoch for start, epoch in begun.items() if start > self.memory.start}

    def end(self) -> None:
        """Closes the files."""
        self.disk.abandon()

    def _write(self, number: int) -> None:
        self.epoch += number % 10 == 0
        batch = produced(count=1 + number % 3, size=1 + number)
        appended = self.disk.append_as_leader(batch, epoch=self.epoch, now_ms=NOW_MS)
        data = placed(batch, offset=self.memory.leo, epoch=self.epoch)
        assert self.memory.leo == appended.base_offset
        self.memory.write(data, epoch=self.epoch, count=1 + number % 3)

    def _follow(self, number: int) -> None:
        offset = self.memory.leo + number % 5  # with a gap, as compaction leaves it
        data = placed(produced(size=1 + number), offset=offset, epoch=self.epoch)
        self.disk.append_as_follower(data, now_ms=NOW_MS)
        self.memory.append(Batch(base_offset=offset, end_offset=offset + 1, epoch=self.epoch, data=data))

    def _cut(self, number: int) -> None:
        to = max(self.memory.leo - number % 10, self.memory.start)
        self.disk.truncate(to)
        self.memory.cut(to)

    def _raise(self, number: int) -> None:
        to = self.memory.start + (self.memory.leo - self.memory.start) * number // 99
        self.disk.raise_start(to)
        self.memory.start_at(to)

    def _restart(self, number: int) -> None:
        leo = self.memory.leo + number
        self.disk.restart_at(leo=leo, start=leo)
        self.memory.carry_out(RestartAt(leo=leo, start=leo))

    def _flush(self, _: int) -> None:
        assert self.memory.leo == self.disk.flush()

    def _retire(self, number: int) -> None:
        self.disk.delete_old(high_watermark=self.memory.leo - number % 3, now_ms=NOW_MS)
        if number % 2:
            self.disk.remove_retired()

    def _stop(self, _: int) -> None:
        self.disk.close()
        self._reopen(clean=True)

    def _kill(self, number: int) -> None:
        """Of the log start and the recovery point each may have been noted, or not; that of an empty log is."""
        known = self.disk.recovery_point if number % 2 else 0
        start = self.memory.start if number % 3 or not self.memory.batches else 0
        self.disk.abandon()
        self._reopen(recovery_point=known, log_start=start)
        assert self.disk.torn is None

    def _reopen(self, **how: Any) -> None:
        self.disk = opened(
            self._directory,
            segment_bytes=SEGMENT_BYTES,
            files=OpenFiles(1),
            **{"log_start": self.memory.start, **how},
        )
        if self.disk.start < self.memory.start <= self.disk.leo:  # records that were deleted are there again
            self.disk.raise_start(self.memory.start)
        # As in Kafka, an end in a gap moves back to the last batch, and an epoch that has no record yet is forgotten.
        end = max([self.memory.start, *(batch.end_offset for batch in self.memory.batches)])
        assert end <= self.disk.leo <= self.memory.leo
        self.memory.cut(self.disk.leo)


def _batches(log: PartitionLog) -> list[Batch]:
    found: list[Batch] = []
    offset = log.start
    while (part := log.read(offset, log.leo, max_bytes=200)) is not None:
        data = part.read()
        for position, header in fetched_batches(data):
            batch = data[position : position + header.size]
            found.append(
                Batch(base_offset=header.base_offset, end_offset=header.next_offset, epoch=header.epoch, data=batch)
            )
            offset = header.next_offset
    return found


@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99)), max_size=40))
def test_the_log_on_disk_is_the_log_in_memory(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    twins = Twins(tmp_path_factory.mktemp("log"))
    try:
        for step, number in steps:
            twins.do(step, number)
    finally:
        twins.end()


@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=30), at=st.tuples(st.integers(0, 99), st.integers(0, 99))
)
def test_the_size_between_two_offsets_is_that_of_the_batches(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], at: tuple[int, int]
) -> None:
    log = opened(tmp_path_factory.mktemp("log"), segment_bytes=SEGMENT_BYTES)
    written = [len(produced(size=size)) for size in sizes]
    for size in sizes:
        log.append_as_leader(produced(size=size), epoch=1, now_ms=NOW_MS)
    start, end = sorted(each * len(sizes) // 99 for each in at)

    assert sum(written[start:end]) == log.size_between(start, end)
    log.abandon()


def test_what_was_cut_off_is_not_where_a_read_begins(tmp_path: Path) -> None:
    """Where the batches end that were appended last is known by heart, until they are cut off."""
    log = opened(tmp_path)
    for _ in range(3):
        log.append_as_leader(produced(), epoch=1, now_ms=NOW_MS)
    log.truncate(1)
    two = log.append_as_leader(produced(count=2, size=100), epoch=1, now_ms=NOW_MS)
    found = log.read(2, log.leo, 1 << 20)
    log.abandon()

    assert found is not None
    assert (1, 2) == (two.base_offset, two.last_offset)
    assert len(produced()) == found.position
