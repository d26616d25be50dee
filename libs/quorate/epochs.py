"""Leader epochs and where each ends: the question by which two logs find their fork (KIP-101, KIP-320)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from quorate.nouns import Epoch, Offset, OffsetAndEpoch

__all__ = ["EpochCache"]

EMPTY = OffsetAndEpoch(epoch=0, offset=0)


class EpochCache:
    """Start offset of every epoch in one log, oldest first.

    The first entry is the *floor*: the epoch of the record just before the log's start, which is the snapshot
    that the log continues; (epoch 0, offset 0) for a log that begins at the beginning. It is never truncated,
    so every question has an answer. The epoch after the floor may start where the floor does; otherwise
    epochs and start offsets both rise strictly.

    >>> cache = EpochCache()
    >>> cache.assign(epoch=1, start_offset=0)
    >>> cache.assign(epoch=3, start_offset=5)
    >>> cache.end_offset_for(2, leo=9)  # a follower in epoch 2 forked at the end of epoch 1 at the latest
    OffsetAndEpoch(epoch=1, offset=5)
    >>> cache.truncate(to=5)
    >>> cache.last_epoch
    1
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[Epoch, Offset]] = (), *, floor: OffsetAndEpoch = EMPTY) -> None:
        """`entries` are (epoch, start offset), oldest first; those not above the floor are skipped."""
        self._epochs: list[Epoch] = [floor.epoch]
        self._starts: list[Offset] = [floor.offset]
        for epoch, start_offset in entries:
            if epoch > floor.epoch:
                self.assign(epoch=epoch, start_offset=start_offset)

    @property
    def floor(self) -> OffsetAndEpoch:
        """End of what lies before the log: offset where the log starts, epoch of the record before it."""
        return OffsetAndEpoch(epoch=self._epochs[0], offset=self._starts[0])

    @property
    def last_epoch(self) -> Epoch:
        """Epoch of the last record, or of the floor if the log is empty."""
        return self._epochs[-1]

    @property
    def entries(self) -> tuple[tuple[Epoch, Offset], ...]:
        """(epoch, start offset), oldest first, the floor included."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    def assign(self, *, epoch: Epoch, start_offset: Offset) -> None:
        """Notes that records from `start_offset` on are of `epoch`; nothing changes if that is known."""
        assert epoch >= self._epochs[-1], (epoch, self._epochs[-1])  # epochs do not fall along a log
        assert start_offset >= self._starts[-1], (start_offset, self._starts[-1])
        if epoch == self._epochs[-1]:
            return
        # An epoch in which nothing was written leaves no trace, so that every entry names a record of the log.
        if len(self._starts) > 1 and self._starts[-1] == start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def end_offset_for(self, epoch: Epoch, *, leo: Offset) -> OffsetAndEpoch:
        """The largest known epoch not above `epoch`, and its end offset; the floor if all are above. KIP-101."""
        at = bisect_right(self._epochs, epoch) - 1
        if at < 0:
            return self.floor
        end = self._starts[at + 1] if at + 1 < len(self._starts) else leo
        return OffsetAndEpoch(epoch=self._epochs[at], offset=end)

    def epoch_at(self, offset: Offset) -> Epoch:
        """Epoch of the record at `offset`; of the floor for the record just before the log."""
        assert offset >= self._starts[0] - 1, (offset, self._starts[0])
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[max(at, 0)]

    def truncate(self, *, to: Offset) -> None:
        """Forgets the epochs that start at `to` or later; the floor stays."""
        assert to >= self._starts[0], (to, self._starts[0])
        while len(self._starts) > 1 and self._starts[-1] >= to:
            self._starts.pop()
            self._epochs.pop()

    def start_at(self, floor: OffsetAndEpoch) -> None:
        """Forgets what lies below `floor`, which becomes the floor: a prefix of the log was removed."""
        assert floor.offset >= self._starts[0], (floor, self._starts[0])
        above = [(epoch, start) for epoch, start in self.entries if epoch > floor.epoch]
        assert all(start >= floor.offset for _, start in above), (floor, above)
        self._epochs = [floor.epoch, *(epoch for epoch, _ in above)]
        self._starts = [floor.offset, *(start for _, start in above)]

    def restart_at(self, floor: OffsetAndEpoch) -> None:
        """Forgets everything: the log is replaced by the snapshot `floor`."""
        self._epochs = [floor.epoch]
        self._starts = [floor.offset]
