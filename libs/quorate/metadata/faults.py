"""What cannot be replayed: a record that contradicts the state it is applied to."""

from __future__ import annotations

from kraft import Message
from quorate.nouns import Offset

__all__ = ["ReplayFault"]


class ReplayFault(Exception):
    """A record that cannot follow the records before it. Nothing was changed.

    To a controller it is fatal, as it is in Kafka: either this log or this code is not what it should be.
    Tools show it and stop. `record` and `offset` are filled in by `ClusterState.apply`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.record: Message | None = None
        self.offset: Offset | None = None

    def __str__(self) -> str:
        if self.record is None:
            return self.reason
        return f"{type(self.record).__name__} at offset {self.offset}: {self.reason}"
