"""The core's view of a log: its ends and epochs, and up to where each kind of reader may read. No bytes."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from quorate.epochs import EpochCache
from quorate.nouns import Offset, OffsetAndEpoch

NO_EPOCH = -1
"""The leader epoch before the first record of a log: a follower whose log has none sends it as last fetched epoch."""


class Log(Protocol):
    """The log of one replica. `start` is its first offset, `leo` the offset that the next record gets (R6).

    `epochs` has the epoch of the record at `start` as its floor, NO_EPOCH if there never was a record: so its entries
    are those of Kafka's leader-epoch-checkpoint.
    """

    @property
    def start(self) -> Offset: ...

    @property
    def leo(self) -> Offset: ...

    @property
    def epochs(self) -> EpochCache: ...

    @property
    def first_open_offset(self) -> Offset | None:
        """The first offset of a transaction that is open, or whose marker is not committed; None for none. KIP-98."""

    def size_between(self, start: Offset, end: Offset) -> int:
        """Returns how many bytes the batches from `start` to `end` (exclusive) have."""

    def is_in_last_segment(self, offset: Offset) -> bool:
        """Returns whether the segment that is appended to holds `offset`."""


class Isolation(Enum):
    """The kinds of readers: a follower, or a consumer with one of the two levels of `isolation.level`."""

    LOG_END = "follower"
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def new_epochs(start: Offset = 0) -> EpochCache:
    """Returns the epoch cache of a log that is empty and begins at `start`."""
    return EpochCache(floor=OffsetAndEpoch(epoch=NO_EPOCH, offset=start))


def cut_epochs(epochs: EpochCache, *, to: Offset) -> None:
    """Removes the epochs that begin at `to` or above, as their log is truncated to it; all, if `to` is the log's start.

    A log without records has none: a follower would be sent back for it.
    """
    if to == epochs.floor.offset:
        epochs.restart_at(OffsetAndEpoch(epoch=NO_EPOCH, offset=to))
    else:
        epochs.truncate(to=to)


def last_stable_offset(log: Log, high_watermark: Offset) -> Offset:
    """Returns the last stable offset: below it all is committed, and of no open transaction (R49). KIP-98."""
    opened = log.first_open_offset
    return high_watermark if opened is None else min(high_watermark, opened)


def read_bound(log: Log, high_watermark: Offset, isolation: Isolation) -> Offset:
    """Returns the end (exclusive) of the records that this reader may have: R49 for consumers, R50 for followers."""
    assert log.start <= high_watermark <= log.leo, (log.start, high_watermark, log.leo)  # R6, R7
    match isolation:
        case Isolation.LOG_END:
            return log.leo
        case Isolation.READ_UNCOMMITTED:
            return high_watermark
        case Isolation.READ_COMMITTED:
            return last_stable_offset(log, high_watermark)
