"""Where two logs part: the leader finds it from the last epoch of a fetch, the follower truncates (KIP-101, 279, 595).

Two logs that both have records of an epoch have the same ones, up to the end of the shorter. So the logs agree up to
the smaller end of the last epoch that both have.
"""

from __future__ import annotations

from quorate.epochs import EpochCache
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.replication.log import Log


def epoch_end(epochs: EpochCache, epoch: Epoch, *, leo: Offset) -> OffsetAndEpoch | None:
    """Returns the answer to OffsetForLeaderEpoch: the largest epoch <= `epoch`, and its end (R8). KIP-320.

    None for an epoch above all that the log has seen: Kafka's undefined epoch and offset, -1. For one below all of
    them it is that epoch itself, which ends where the log starts.

    >>> cache = EpochCache([(2, 0), (5, 10)], floor=OffsetAndEpoch(epoch=-1, offset=0))
    >>> epoch_end(cache, 4, leo=30), epoch_end(cache, 5, leo=30), epoch_end(cache, 6, leo=30)
    (OffsetAndEpoch(epoch=2, offset=10), OffsetAndEpoch(epoch=5, offset=30), None)
    >>> epoch_end(cache, 1, leo=30)
    OffsetAndEpoch(epoch=1, offset=0)
    """
    if epoch < 0 or epoch > epochs.last_epoch:
        return None
    found = epochs.end_offset_for(epoch, leo=leo)
    if found.epoch < 0 or found.epoch > epoch:  # the floor: the log has no record of this epoch or an earlier one
        return OffsetAndEpoch(epoch=epoch, offset=epochs.floor.offset)
    return found


def divergence(log: Log, *, last_fetched_epoch: Epoch, fetch_offset: Offset) -> OffsetAndEpoch | None:
    """Returns the leader's largest epoch up to `last_fetched_epoch`, and its end; None if the follower's log fits.

    The follower's records below `fetch_offset` end with one of `last_fetched_epoch` (R53). A leader has assigned its
    own epoch, so no epoch that a follower can have is above all of its own (R13). KIP-595.
    """
    end = epoch_end(log.epochs, last_fetched_epoch, leo=log.leo)
    assert end is not None, (last_fetched_epoch, log.epochs.last_epoch)
    return end if end.epoch < last_fetched_epoch or end.offset < fetch_offset else None


def truncation_for(log: Log, diverging: OffsetAndEpoch) -> Offset:
    """Returns the offset to which the follower cuts its log; `diverging` is where an epoch of the leader's ends (R54).

    Only the epochs tell. The high watermark does not: it trails the leader's by a fetch, so a follower that cut its log
    there could lose what it has acknowledged, and then be elected (KIP-101, KIP-279).
    """
    own = epoch_end(log.epochs, diverging.epoch, leo=log.leo)
    if own is None or own.epoch != diverging.epoch:
        # Nothing here is of that epoch: up to this log's own end of an earlier one the logs may agree, and the next
        # fetch asks about that. Without an own end the leader's counts.
        return min(log.leo, diverging.offset if own is None else own.offset)
    return min(log.leo, own.offset, diverging.offset)
