"""This broker's replica of a partition: its log, and how far it knows it to be committed."""

from __future__ import annotations

from quorate.nouns import NodeId, Offset
from quorate.replication.log import Isolation, Log, read_bound


class LocalReplica:
    """A log and its high watermark, in whatever role the broker has."""

    __slots__ = ("broker_id", "high_watermark", "log")

    def __init__(self, *, broker_id: NodeId, log: Log, checkpoint: Offset) -> None:
        """Begins at the high watermark that was checkpointed before the start, as far as the log has it (R7)."""
        self.broker_id = broker_id
        self.log = log
        self.high_watermark = min(max(checkpoint, log.start), log.leo)

    def raise_to(self, offset: Offset, *, leo: Offset) -> bool:
        """Moves the high watermark up to `offset`, never down (R23). Returns whether it has moved.

        `leo` is the end of the log once the effects of this step are done (R6).
        """
        assert offset <= leo, (offset, leo)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def lower_to(self, leo: Offset) -> None:
        """Lowers the high watermark to `leo` at most, the end to which the log is about to be cut."""
        assert self.log.start <= leo, (self.log.start, leo)
        self.high_watermark = min(self.high_watermark, leo)

    def bound(self, isolation: Isolation) -> Offset:
        """Returns the end (exclusive) of the records that this kind of reader may have."""
        return read_bound(self.log, self.high_watermark, isolation)
