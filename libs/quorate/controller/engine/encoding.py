"""Encodes the records of a batch in the record versions of the finalized metadata.version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft import Message
from quorate.controller.engine.deduplication import MARK_BYTES_MAX
from quorate.controller.engine.steps import Steps, slices
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.versions import record_version
from quorate.records import encode_records, with_request, with_trace

__all__ = ["BYTES_PER_WRITE_MAX", "encoding"]

BYTES_PER_WRITE_MAX: Final = 8 << 20
"""The most bytes of one batch's records; the quorum takes no more. Kafka's KafkaRaftClient.MAX_BATCH_SIZE_BYTES."""
assert MARK_BYTES_MAX < BYTES_PER_WRITE_MAX, "an answer that is kept has room in its batch"

RECORDS_PER_STEP: Final = 1_000
"""The records that are encoded in one step: some 5 ms of CPU."""


def encoding(
    records: Sequence[Message], level: int, *, traceparent: bytes | None, mark: bytes | None
) -> Steps[tuple[bytes, ...]]:
    """Returns the bytes of each record, in its version for metadata.version `level`. The first has trace and mark, too.

    More than `RECORDS_PER_STEP` are encoded in steps of their own, with none of the decision before or of the
    application after them. Raises ApiError(RECORD_LIST_TOO_LARGE) for more than `BYTES_PER_WRITE_MAX` in all.
    """
    first = records[0]
    if traceparent is not None:
        first = with_trace(first, traceparent)
    if mark is not None:
        first = with_request(first, mark)
    values: list[bytes] = []

    def version_of(record: Message) -> int:
        return record_version(record, level)

    is_long = len(records) > RECORDS_PER_STEP
    if is_long:
        yield
    for part in slices((first, *records[1:]), RECORDS_PER_STEP):
        values += encode_records(part, version_of)
        if is_long:
            yield
    size = sum(map(len, values))
    if size > BYTES_PER_WRITE_MAX:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the request takes {size} bytes of records; one write has at most {BYTES_PER_WRITE_MAX}",
        )
    return tuple(values)
