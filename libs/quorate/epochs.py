"""The leader epoch cache: where each epoch begins and ends in a log, to find a log divergence (KIP-101, KIP-320)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from quorate.nouns import Epoch, Offset, OffsetAndEpoch

__all__ = ["EpochCache"]

EMPTY = OffsetAndEpoch(epoch=0, offset=0)


class EpochCache:
    """The start offset of every leader epoch in one log, oldest first.

    The first entry is the *floor*: the log start offset and the epoch of the record before it, which is the snapshot
    that the log continues; (epoch 0, offset 0) for a log that starts at 0. It is never truncated, so every lookup has a
    result. The next epoch may start at the floor's offset; otherwise epochs and start offsets both rise strictly.

    >>> cache = EpochCache()
    >>> cache.assign(epoch=1, start_offset=0)
    >>> cache.assign(epoch=3, start_offset=5)
    >>> cache.end_offset_for(2, leo=9)  # a follower in epoch 2 diverged at the end of epoch 1 at the latest
    OffsetAndEpoch(epoch=1, offset=5)
    >>> cache.truncate(to=5)
    >>> cache.last_epoch
    1
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, entries: Iterable[tuple[Epoch, Offset]] = (), *, floor: OffsetAndEpoch = EMPTY) -> None:
        """Creates a cache of (epoch, start offset) entries, oldest first; those not above the floor are skipped."""
        self._epochs: list[Epoch] = [floor.epoch]
        self._starts: list[Offset] = [floor.offset]
        for epoch, start_offset in entries:
            if epoch > floor.epoch:
                self.assign(epoch=epoch, start_offset=start_offset)

    @property
    def floor(self) -> OffsetAndEpoch:
        """The log start offset, with the epoch of the record before it."""
        return OffsetAndEpoch(epoch=self._epochs[0], offset=self._starts[0])

    @property
    def floor_offset(self) -> Offset:
        """The log start offset alone, which is asked for all the time."""
        return self._starts[0]

    @property
    def last_epoch(self) -> Epoch:
        """The leader epoch of the last record; that of the record before the log start if the log is empty."""
        return self._epochs[-1]

    @property
    def entries(self) -> tuple[tuple[Epoch, Offset], ...]:
        """(epoch, start offset) of each epoch, oldest first, the floor included."""
        return tuple(zip(self._epochs, self._starts, strict=True))

    def assign(self, *, epoch: Epoch, start_offset: Offset) -> None:
        """Records that `epoch` begins at `start_offset`; does nothing if it is the last known epoch."""
        assert epoch >= self._epochs[-1], (epoch, self._epochs[-1])  # epochs never fall along a log
        assert start_offset >= self._starts[-1], (start_offset, self._starts[-1])
        if epoch == self._epochs[-1]:
            return
        # An epoch without records is removed, so that every entry belongs to a record of the log.
        if len(self._starts) > 1 and self._starts[-1] == start_offset:
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)

    def end_offset_for(self, epoch: Epoch, *, leo: Offset) -> OffsetAndEpoch:
        """Returns the largest known epoch up to `epoch`, with its end offset (exclusive); else the floor. KIP-101."""
        at = bisect_right(self._epochs, epoch) - 1
        if at < 0:
            return self.floor
        end = self._starts[at + 1] if at + 1 < len(self._starts) else leo
        return OffsetAndEpoch(epoch=self._epochs[at], offset=end)

    def epoch_at(self, offset: Offset) -> Epoch:
        """Returns the epoch of the record at `offset`, at the lowest that of the record just before the log start.

        That record has the floor's epoch. From the start of the last epoch on, every offset has the last epoch.
        """
        assert offset >= self._starts[0] - 1, (offset, self._starts[0])
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[max(at, 0)]

    def epoch_before(self, leo: Offset) -> Epoch | None:
        """Returns the epoch of the last record of a log that ends at `leo`; None if it has no record."""
        return self.epoch_at(leo - 1) if leo > self._starts[0] else None

    def truncate(self, *, to: Offset) -> None:
        """Removes the epochs that start at offset `to` or later, when the log is truncated; the floor stays."""
        assert to >= self._starts[0], (to, self._starts[0])
        while len(self._starts) > 1 and self._starts[-1] >= to:
            self._starts.pop()
            self._epochs.pop()

    def start_at(self, floor: OffsetAndEpoch) -> None:
        """Sets a new floor after a prefix of the log was removed, and drops the epochs below it."""
        assert floor.offset >= self._starts[0], (floor, self._starts[0])
        above = [(epoch, start) for epoch, start in self.entries if epoch > floor.epoch]
        assert all(start >= floor.offset for _, start in above), (floor, above)
        self._epochs = [floor.epoch, *(epoch for epoch, _ in above)]
        self._starts = [floor.offset, *(start for _, start in above)]

    def restart_at(self, floor: OffsetAndEpoch) -> None:
        """Drops all epochs, and makes `floor` the only entry: the log restarts at the end of that snapshot."""
        self._epochs = [floor.epoch]
        self._starts = [floor.offset]
