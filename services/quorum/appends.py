"""Appends of the controller: joins small ones into shared batches, and counts the uncommitted bytes (backpressure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from kraft.service.quorum_pb2 import AppendRequest
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.nouns import Offset
from quorate.records import decode_record, decode_records
from quorate.storage.snapshots import BATCH_BYTES_MAX

JOINED_BYTES_MAX: Final = 1 << 20
"""Most bytes of records of several decisions that share one batch; a follower fetches and checks a batch as a whole."""
UNCOMMITTED_BYTES_MAX: Final = 10 * BATCH_BYTES_MAX
"""Backpressure: with more uncommitted bytes than this, the next append is not read; ten batches, as in Kafka."""


def check_values(field: str, values: Sequence[bytes]) -> None:
    """Checks that all values are encoded records, since another would stop every controller that reads the log.

    Raises ApiError(INVALID_RECORD), which names the first by `field` and its place. A value of more than
    `BATCH_BYTES_MAX` is not looked at.
    """
    records = [value for value in values if len(value) <= BATCH_BYTES_MAX]  # the driver refuses any larger one
    try:
        decode_records(records)
    except Corrupt:
        place, fault = next((place, fault) for place, value in enumerate(values) if (fault := _fault_of(value)))
        where = f"{field}[{place}]"
        why = f"{where}: {len(values[place])} bytes that are no record: {fault}"
        raise ApiError(ErrorCode.INVALID_RECORD, why, {"field": where}) from None


def _fault_of(value: bytes) -> Corrupt | None:
    if len(value) <= BATCH_BYTES_MAX:
        try:
            decode_record(value)
        except Corrupt as fault:
            return fault
    return None


def joined(request: AppendRequest) -> list[list[bytes]]:
    """Returns the values of each batch to write: neighbours in `batches` that may join share one, up to 1 MiB.

    The records of one decision always stay in one batch, so that no reader sees a part of it. Raises
    ApiError(INVALID_RECORD) for a value that is not a record.
    """
    first = list(request.values)
    check_values("values", first)
    made = [first] if first or not request.batches else []
    room = 0
    for place, batch in enumerate(request.batches):
        values = list(batch.values)  # protobuf copies the values at each access
        check_values(f"batches[{place}].values", values)
        size = sum(map(len, values))
        if batch.may_join and values and size <= room:
            made[-1] += values
            room -= size
        else:
            made.append(values)
            room = JOINED_BYTES_MAX - size if batch.may_join else 0
    return made


def size_error(batches: Sequence[Sequence[bytes]]) -> ErrorCode:
    """Returns the error for an append without records, with an empty batch or one that is too large; else NONE."""
    if not batches or not all(batches):
        return ErrorCode.INVALID_REQUEST
    if any(sum(map(len, values)) > BATCH_BYTES_MAX for values in batches):
        return ErrorCode.RECORD_LIST_TOO_LARGE
    return ErrorCode.NONE


class Uncommitted:
    """The accepted appends of a leader that are not committed yet; `size` is that of their batches in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._ends: deque[tuple[Offset, int]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether they have more than `UNCOMMITTED_BYTES_MAX` bytes."""
        return self.size > UNCOMMITTED_BYTES_MAX

    def add(self, end_offset: Offset, size: int) -> None:
        """Adds the `size` in bytes of accepted batches that end at `end_offset`."""
        assert size > 0, (end_offset, size)
        # They are settled in order.
        assert not self._ends or end_offset > self._ends[-1][0], (end_offset, self._ends[-1])
        self._ends.append((end_offset, size))
        self.size += size

    def settle(self, high_watermark: Offset) -> None:
        """Removes the appends whose records are all below the high watermark, from `size` too."""
        while self._ends and self._ends[0][0] <= high_watermark:
            self.size -= self._ends.popleft()[1]
        assert self._ends or not self.size, f"{self.size} bytes would hold back appends for ever"

    def clear(self) -> None:
        """Removes all appends after a change of leadership, since this node no longer commits them."""
        self._ends.clear()
        self.size = 0
