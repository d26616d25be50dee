"""A future replica: the copy of a log in another log directory, until it takes the log's place (KIP-113).

It has a prefix of the current log's batches, at their offsets. Where that log is truncated, so is the copy (R56).
"""

from __future__ import annotations

from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.partition_log.log import PartitionLog
from quorate.replication import Effect, RestartAt, Truncate
from quorate.wire.batch import CLEANED, fetched_batches, peek_header
from services.broker.directories import LogDirectory

__all__ = ["FutureReplica", "first_batch"]

PIECE_BYTES: Final = 256 << 10
"""The bytes that are copied in one turn of the loop."""


class FutureReplica:
    """The copy of a replica in the log directory to which it moves."""

    def __init__(self, directory: LogDirectory, log: PartitionLog) -> None:
        self.directory = directory
        self.log = log
        self._cut_to: Offset | None = None
        self._unflushed_max = PIECE_BYTES

    def follow(self, effect: Effect) -> None:
        """Hears what is done to the current log. Records that are cut off there are cut off here before the next
        piece is copied.
        """
        if isinstance(effect, Truncate | RestartAt):
            to = effect.to if isinstance(effect, Truncate) else -1
            self._cut_to = to if self._cut_to is None else min(self._cut_to, to)

    def copy(self, current: PartitionLog, *, now_ms: int) -> bool:
        """Copies the next batches of `current`; returns whether the copy has all. Raises Corrupt, OSError.

        First it cuts off what was cut off in `current`. One call copies 256 KiB, and the first batch whole; nothing is
        flushed. `now_ms` is since 1970.
        """
        self.log.settings = current.settings
        self._keep_up(current)
        piece = current.read(max(self.log.leo, current.start), current.leo, PIECE_BYTES)
        if piece is not None:
            records = piece.read()
            try:
                end = max(position + header.size for position, header in fetched_batches(records, count_min=CLEANED))
                self.log.append_as_follower(memoryview(records)[:end], now_ms=now_ms)
            except Corrupt as damage:
                raise damage if damage.path is not None else damage.at(piece.path, piece.position) from None
        elif self.log.leo < current.leo:
            raise Corrupt(f"there is no batch from offset {self.log.leo} to {current.leo}", path=current.directory)
        return self.has_all_of(current)

    def has_all_of(self, current: PartitionLog) -> bool:
        """Returns whether it has all of the current log, and nothing that was cut off there."""
        return self._cut_to is None and self.log.leo == current.leo

    def _keep_up(self, current: PartitionLog) -> None:
        """Cuts off what is cut off in the current log, and begins anew where what would come next is deleted."""
        cut_to, self._cut_to = self._cut_to, None
        if cut_to is not None and self.log.start <= cut_to < self.log.leo:
            self.log.truncate(cut_to)
        is_lost = cut_to is not None and cut_to < self.log.start
        if is_lost or self.log.leo < current.start:
            base = first_batch(current)
            if is_lost or self.log.leo < base:
                self.log.restart_at(leo=base, start=base)
                self.log.remove_retired()

    @property
    def is_flushed(self) -> bool:
        """Whether so little of the copy is not flushed that the loop may flush it at once.

        That is one piece, and twice as much after each `flush`: steady writes must not hold the copy up for ever.
        """
        return self.log.size_between(self.log.recovery_point, self.log.leo) <= self._unflushed_max

    def flush(self) -> None:
        """Waits until the copy is on the disk, and doubles what `is_flushed` allows. Raises OSError."""
        self.log.flush()
        self._unflushed_max *= 2


def first_batch(log: PartitionLog) -> Offset:
    """Returns the base offset of the batch that holds the log's first record; the log's end if it has none."""
    piece = log.read(log.start, log.leo, 1)
    return log.leo if piece is None else peek_header(piece.read(), count_min=CLEANED).base_offset
