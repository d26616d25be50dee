"""Prepares a write: decides it and encodes its records, in steps, before anything is applied.

Nothing is changed here. So a preparation can be dropped at any step, and a decision that cannot be encoded, or whose
answer is too long to be kept for retries, leaves the state as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kraft import Message
from quorate.controller.engine.decision import RECORDS_PER_WRITE_MAX, Command, Decision, Moment, check_size, steps_of
from quorate.controller.engine.deduplication import RequestId, mark
from quorate.controller.engine.encoding import encoding
from quorate.controller.engine.failures import Fault, Where
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError
from quorate.metadata.state import ClusterState

__all__ = ["Batch", "Failed", "Prepared", "Undecided", "preparation"]

Failed = Callable[[Where, Exception, str], ApiError | Fault]
"""Counts a failure, and returns the exception to raise: `Engine.failed`."""


class Undecided(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run, with all that its decision and its records depend on beside the state.

    One that `only_reads` may have no records, and if it fails, only its caller is affected.
    """

    token: Any
    command: Command[Any]
    now_ms: int
    traceparent: bytes | None
    request_id: RequestId | None
    only_reads: bool = False


class Batch(msgspec.Struct, frozen=True):
    """The records of one batch, and their bytes; the first carries `mark`, the deduplication entry, if there is one.

    A batch has at least one record, and at most `RECORDS_PER_WRITE_MAX`.
    """

    records: tuple[Message, ...]
    values: tuple[bytes, ...]
    mark: bytes | None

    def __post_init__(self) -> None:
        assert 0 < len(self.records) <= RECORDS_PER_WRITE_MAX, len(self.records)
        assert len(self.values) == len(self.records), (len(self.values), len(self.records))


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that can be applied: its answer, or the error that refuses it, and its batches in order."""

    response: Any = None
    error: ApiError | None = None
    batches: tuple[Batch, ...] = ()

    def __post_init__(self) -> None:
        assert self.error is None or not self.batches, f"refused, and written all the same: {self.error}"
        assert self.error is None or self.response is None, (self.error, self.response)

    @property
    def mark(self) -> bytes | None:
        """The deduplication entry, which the last batch carries."""
        return self.batches[-1].mark if self.batches else None


def preparation(write: Undecided, state: ClusterState, next_offset: int, failed: Failed) -> Steps[Prepared]:
    """Decides a write on this state and encodes its records in steps, for `next_offset` on; nothing is applied.

    A refusal (ApiError) is in the result; for another failure what `failed` returns is raised, if it is a Fault.
    """
    try:
        decision = yield from _decided(write, state, Moment(next_offset=next_offset, now_ms=write.now_ms), failed)
        # A batch is applied as soon as it is there, so the deduplication entry is in the last one: a write that is
        # there in part is done again.
        entry = mark(write.request_id, decision.response) if write.request_id and decision.records else None
        batches: list[Batch] = []
        for start in range(0, len(decision.records), RECORDS_PER_WRITE_MAX):
            records = decision.records[start : start + RECORDS_PER_WRITE_MAX]
            is_last = start + RECORDS_PER_WRITE_MAX >= len(decision.records)
            offset = next_offset + start
            batches.append((yield from _batch(records, entry if is_last else None, write, state, offset, failed)))
    except ApiError as refusal:
        return Prepared(error=refusal.as_value())
    assert len(batches) <= 1 or not decision.atomic, f"an atomic write is one batch, not {len(batches)}"  # I-16
    return Prepared(response=decision.response, batches=tuple(batches))


def _decided(write: Undecided, state: ClusterState, moment: Moment, failed: Failed) -> Steps[Decision[Any]]:
    """Runs the command on the state. Raises ApiError if it is refused; Fault if the command itself fails.

    If it only reads, a failure is an ApiError too, with the exception as its cause.
    """
    try:
        decision = yield from steps_of(write.command, state, moment)
        check_size(decision)
        assert not (write.only_reads and decision.records), f"a read has {len(decision.records)} records"
    except ApiError:
        raise
    except Exception as cause:  # a bug in the command: the table in `failures` says what follows
        where = Where.READING if write.only_reads else Where.DECIDING
        raise failed(where, cause, f"at offset {moment.next_offset}") from cause
    return decision


def _batch(
    records: tuple[Message, ...],
    entry: bytes | None,
    write: Undecided,
    state: ClusterState,
    offset: int,
    failed: Failed,
) -> Steps[Batch]:
    try:
        level = state.features.record_level
        values = yield from encoding(records, level, traceparent=write.traceparent, mark=entry)
    except Exception as cause:  # as in `_decided`
        raise failed(Where.ENCODING, cause, f"{len(records)} records for offset {offset}") from None
    return Batch(records, values, entry)
