"""Which records of an Append share a batch of the log, and how many of them are on their way."""

from __future__ import annotations

from collections import deque
from typing import Final

from kraft.service.quorum_pb2 import AppendRequest
from quorate.nouns import Offset

JOINED_BYTES_MAX: Final = 1 << 20
"""Of records that share a batch without need: what one follower takes in one bite, and checks in one piece."""


def joined(request: AppendRequest) -> list[list[bytes]]:
    """The values of each batch to be written: those of `values`, and of `batches` where neighbours may join, joined.

    What was decided together stays together, so that nobody ever sees a part of it.
    """
    made = [list(request.values)] if request.values or not request.batches else []
    room = 0
    for batch in request.batches:
        values = list(batch.values)  # protobuf makes them anew each time
        size = sum(map(len, values))
        if batch.may_join and values and size <= room:
            made[-1] += values
            room -= size
        else:
            made.append(values)
            room = JOINED_BYTES_MAX - size if batch.may_join else 0
    return made


class Uncommitted:
    """The appends that a leader has taken and no majority has: `size` is that of their batches in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._ends: deque[tuple[Offset, int]] = deque()

    def add(self, end_offset: Offset, size: int) -> None:
        """Batches up to `end_offset` were taken."""
        self._ends.append((end_offset, size))
        self.size += size

    def settle(self, high_watermark: Offset) -> None:
        """Everything below is committed."""
        while self._ends and self._ends[0][0] <= high_watermark:
            self.size -= self._ends.popleft()[1]

    def clear(self) -> None:
        """Whoever leads now, it is not for us to commit them."""
        self._ends.clear()
        self.size = 0
