"""The end of the committed log, as the bytes of its batches: what readers that are nearly caught up ask for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from quorate.nouns import Epoch, Offset
from quorate.wire.batch import BatchHeader

__all__ = ["LogTail"]


class LogTail:
    """Committed batches from `start` to `end`, the oldest of which are dropped beyond `bytes_max`.

    Committed batches are never truncated (Raft's Leader Completeness), so nothing is ever taken back.
    """

    def __init__(self, start: Offset, epoch: Epoch, *, bytes_max: int) -> None:
        """`epoch` is that of the record before `start`; 0 at offset 0."""
        self.end: Offset = start
        """The offset after the last batch (exclusive)."""
        self.end_epoch: Epoch = epoch
        """The epoch of the last record."""
        self._bytes_max = bytes_max
        self._batches: list[bytes] = []
        self._starts: list[Offset] = []
        self._epochs: list[Epoch] = []
        """For each batch the epoch of the record before it."""
        self._places: list[int] = []
        """For each batch the bytes before it, since this tail began."""
        self._size = 0
        """The bytes of all batches since then, the dropped ones counted."""
        self._last: tuple[Offset, int, Offset, bytes] = (-1, 0, 0, b"")
        """The last arguments of `records`, the end at that time, and the result: a crowd of readers asks the same."""

    def add(self, header: BatchHeader, data: bytes) -> None:
        """Adds the batch that begins at `end`, `data` with its header; may drop the oldest ones."""
        assert header.base_offset == self.end, (header.base_offset, self.end)
        assert header.epoch >= self.end_epoch, (header.epoch, self.end_epoch)
        self._batches.append(data)
        self._starts.append(header.base_offset)
        self._epochs.append(self.end_epoch)
        self._places.append(self._size)
        self._size += len(data)
        self.end, self.end_epoch = header.next_offset, header.epoch
        self._drop()

    def epoch_before(self, offset: Offset) -> Epoch | None:
        """Returns the epoch of the record before `offset`; None if no batch that is here begins or ends there."""
        if offset == self.end:
            return self.end_epoch
        at = self._at(offset)
        return None if at is None else self._epochs[at]

    def size_from(self, offset: Offset) -> int:
        """Returns the bytes of the batches from `offset` on, where one begins; 0 at the end and beyond."""
        at = self._at(offset)
        return 0 if at is None else self._size - self._places[at]

    def records(self, offset: Offset, bytes_max: int) -> bytes:
        """Returns the batches from `offset` on, where one begins: the first whatever its size, further ones that fit.

        Empty at the end and beyond. KIP-74 has the rule for the first batch.
        """
        if offset >= self.end:
            return b""
        if self._last[:3] != (offset, bytes_max, self.end):
            self._last = offset, bytes_max, self.end, self._joined(offset, bytes_max)
        return self._last[3]

    def _joined(self, offset: Offset, bytes_max: int) -> bytes:
        first = self._at(offset)
        if first is None:
            return b""
        if self._size - self._places[first] <= bytes_max:
            end = len(self._batches)
        else:
            end = max(first + 1, bisect_right(self._places, self._places[first] + bytes_max) - 1)
        return self._batches[first] if end == first + 1 else b"".join(self._batches[first:end])

    def _at(self, offset: Offset) -> int | None:
        at = bisect_left(self._starts, offset)
        return at if at < len(self._starts) and self._starts[at] == offset else None

    def _drop(self) -> None:
        """Drops whole batches from the front, never the last one; a quarter at once, as the lists are moved for it."""
        if self._size - self._places[0] <= self._bytes_max:
            return
        kept = bisect_left(self._places, self._size - self._bytes_max * 3 // 4)
        kept = min(kept, len(self._batches) - 1)
        del self._batches[:kept], self._starts[:kept], self._epochs[:kept], self._places[:kept]
