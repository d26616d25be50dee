"""The segments of one node's log: batches in memory first, then on the platter, and what faults do to them."""

from __future__ import annotations

from dataclasses import dataclass, field

from quorate.nouns import Offset, OffsetAndEpoch
from quorate.raft import BatchInfo, VoterSet
from quorate.raft.log import Read
from tests.sim.content import BEGINNING, Cell, Damaged, cells_of


@dataclass
class LogFile:
    """Batches from `floor` on. `flushed` is what an fsync has confirmed, and with that the durable end mark."""

    batches: list[BatchInfo] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    """Every record, one a cell; the first is at `floor.offset`."""
    floor: OffsetAndEpoch = BEGINNING
    flushed: Offset = 0
    voters: list[tuple[Offset, VoterSet]] = field(default_factory=list)
    """The sets in the log by the offset of their batch."""
    rotten: set[Offset] = field(default_factory=set)
    """Base offsets of batches whose bytes do not check any more."""
    phantom: Offset | None = None
    """From here on the cache has what the platter has not: an fsync failed, and nobody has noticed."""

    @property
    def leo(self) -> Offset:
        return self.floor.offset + len(self.cells)

    @property
    def stable_end(self) -> Offset:
        """Below this a power cut takes nothing."""
        return self.flushed if self.phantom is None else min(self.flushed, self.phantom)

    def has(self, offset: Offset) -> bool:
        """Is there a record at `offset`?"""
        return 0 <= offset - self.floor.offset < len(self.cells)

    def cell(self, offset: Offset) -> Cell:
        """The record at `offset`."""
        assert offset >= self.floor.offset, (offset, self.floor)
        return self.cells[offset - self.floor.offset]

    def between(self, start: Offset, end: Offset) -> list[Cell]:
        """The records of [start, end) that are here."""
        low = self.floor.offset
        return self.cells[max(0, start - low) : max(0, end - low)]

    def is_boundary(self, offset: Offset) -> bool:
        """Does a batch end at `offset`, or the snapshot before the log?"""
        for batch in reversed(self.batches):
            if batch.end_offset <= offset:
                return batch.end_offset == offset
        return offset == self.floor.offset

    def append(self, batch: BatchInfo) -> None:
        assert batch.base_offset == self.leo, (batch, self.leo)
        self.batches.append(batch)
        self.cells += cells_of(batch)
        assert self.leo == batch.end_offset, (self.leo, batch)
        if batch.voters is not None:
            self.voters.append((batch.base_offset, batch.voters))

    def truncate(self, to: Offset) -> None:
        """Durably, and only between batches."""
        self.drop_from(to)
        assert self.leo == to, (self.leo, to)
        self.flushed = min(self.flushed, to)

    def drop_from(self, offset: Offset) -> list[BatchInfo]:
        """Takes away every batch that does not end at `offset` or before; the answer is those."""
        dropped = []
        while self.batches and self.batches[-1].end_offset > offset:
            dropped.append(self.batches.pop())
            self.rotten.discard(dropped[-1].base_offset)
        end = self.batches[-1].end_offset if self.batches else self.floor.offset
        del self.cells[end - self.floor.offset :]
        while self.voters and self.voters[-1][0] >= end:
            self.voters.pop()
        if self.phantom is not None and self.phantom >= end:
            self.phantom = None
        return dropped[::-1]

    def restart_at(self, floor: OffsetAndEpoch) -> None:
        """Nothing is left; the log goes on from a snapshot."""
        self.batches, self.cells, self.voters = [], [], []
        self.rotten.clear()
        self.floor, self.flushed, self.phantom = floor, floor.offset, None

    def start_at(self, floor: OffsetAndEpoch) -> None:
        """What lies below a snapshot is removed."""
        assert self.floor.offset <= floor.offset <= self.leo, (self.floor, floor, self.leo)
        del self.cells[: floor.offset - self.floor.offset]
        self.batches = [batch for batch in self.batches if batch.base_offset >= floor.offset]
        self.rotten = {offset for offset in self.rotten if offset >= floor.offset}
        self.voters = [(offset, voters) for offset, voters in self.voters if offset >= floor.offset]
        self.floor = floor

    def read(self, read: Read) -> tuple[BatchInfo, ...]:
        """Whole batches, at least one, and no more bytes than asked for beyond it."""
        found: list[BatchInfo] = []
        size = 0
        for batch in self.batches[self._index(read.offset) :]:
            size += batch.size
            if found and size > read.max_bytes:
                break
            found.append(batch)
        return tuple(found)

    def scan(self) -> Offset:
        """Where a torn tail begins, or the end. Raises Damaged for what a torn tail cannot be."""
        bad = [batch for batch in self.batches if batch.base_offset in self.rotten]
        if not bad:
            if self.leo < self.flushed:
                raise Damaged(f"the log ends at {self.leo}, and was known to be on disk below {self.flushed}")
            return self.leo
        first = bad[0]
        if first.base_offset < self.flushed:
            raise Damaged(f"the batch at {first.base_offset}, below the durable end {self.flushed}")
        if len(bad) < len([batch for batch in self.batches if batch.base_offset >= first.base_offset]):
            raise Damaged(f"the batch at {first.base_offset}, and a sound one follows")
        return first.base_offset

    def _index(self, offset: Offset) -> int:
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].base_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low
