"""The error of replay: a record contradicts the state that it is applied to."""

from __future__ import annotations

from kraft import Message
from quorate.nouns import Offset

__all__ = ["ReplayFault", "UnsupportedLevel"]


class ReplayFault(Exception):
    """Raised for a record that contradicts the records before it. The state is unchanged.

    As in Kafka it is fatal to a controller: either the log or this code is wrong. Tools print it and stop.
    `ClusterState.apply` fills in `record` and `offset`.
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


class UnsupportedLevel(ReplayFault):
    """Raised for a feature level that this release does not support: an operator has to change one of both."""
