"""A log in memory: what a real log has to do for the core, for tests and simulators."""

from __future__ import annotations

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.replication.effects import (
    Append,
    AssignEpoch,
    Batch,
    Effect,
    RaiseLogStart,
    RestartAt,
    Truncate,
)
from quorate.replication.log import cut_epochs, new_epochs


class MemoryLog:
    """Batches in a list. `flushed` is what an unclean stop leaves of it."""

    def __init__(self, batches: tuple[Batch, ...] = (), *, start: Offset = 0) -> None:
        self.batches: list[Batch] = []
        self.start = start
        self.leo = start
        self.flushed = start
        self.epochs: EpochCache = new_epochs(start)
        self.first_open_offset: Offset | None = None
        self.segment_start = start
        for batch in batches:
            self.append(batch)

    def size_between(self, start: Offset, end: Offset) -> int:
        """One byte a record."""
        return max(end - start, 0)

    def is_in_last_segment(self, offset: Offset) -> bool:
        """Whether `segment_start` is not above it."""
        return offset >= self.segment_start

    def read(self, start: Offset, end: Offset) -> tuple[Batch, ...]:
        """The batches that end after `start`, up to `end`."""
        return tuple(batch for batch in self.batches if start < batch.end_offset <= end)

    def write(self, data: object, *, epoch: Epoch, count: int = 1) -> Offset:
        """Appends as a leader does: the log gives the offsets. Returns the end offset."""
        self.append(Batch(base_offset=self.leo, end_offset=self.leo + count, epoch=epoch, data=data))
        return self.leo

    def carry_out(self, effect: Effect) -> None:
        """Does to the log what an effect says; those that are for others change nothing."""
        match effect:
            case AssignEpoch(epoch=epoch, start_offset=start_offset):
                self.epochs.assign(epoch=epoch, start_offset=start_offset)
            case Append(batches):
                for batch in batches:
                    self.append(batch)
            case Truncate(to):
                self.cut(to)
            case RestartAt(leo=leo, start=start):
                self.batches.clear()
                self.start, self.leo, self.flushed, self.segment_start = start, leo, min(leo, start), leo
                self.epochs = new_epochs(min(leo, start))
            case RaiseLogStart(to):
                self.start_at(to)

    def reopen(self) -> None:
        """What the next process finds: an epoch that has no record yet is forgotten, as in Kafka."""
        self.cut(self.leo)

    def cut(self, to: Offset) -> None:
        """Loses the batches from `to` on."""
        assert self.start <= to <= self.leo, (self.start, to, self.leo)
        while self.batches and self.batches[-1].end_offset > to:
            self.batches.pop()
        cut_epochs(self.epochs, to=to)
        self.leo, self.flushed = to, min(self.flushed, to)

    def append(self, batch: Batch) -> None:
        """Appends a batch at its offset."""
        assert batch.base_offset >= self.leo, (batch, self.leo)
        self.epochs.assign(epoch=batch.epoch, start_offset=batch.base_offset)
        self.batches.append(batch)
        self.leo = batch.end_offset

    def start_at(self, to: Offset) -> None:
        """Loses what is below `to`, but for the batch that holds it."""
        assert self.start <= to <= self.leo, (self.start, to, self.leo)
        self.epochs.start_at(OffsetAndEpoch(epoch=self.epochs.epoch_at(to), offset=to))
        self.batches = [batch for batch in self.batches if batch.end_offset > to]
        self.start, self.flushed = to, max(self.flushed, to)
