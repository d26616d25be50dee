"""Fault handling: a table that maps each failure of the controller itself to its consequence (refuse, renounce, exit).

An ApiError that refuses a request is not a failure. The rows follow Kafka's EventHandlerExceptionInfo and the two fault
handlers of QuorumController: the fatal one ends the process, the non-fatal one counts the error and continues. A read
has a row of its own, as it leaves nothing to undo; in Kafka it ends the leadership like a write.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from quorate.errors import ApiError, ErrorCode

__all__ = [
    "TABLE",
    "Consequence",
    "FailureRow",
    "Fault",
    "PeriodicTaskFailed",
    "Where",
    "outcome",
    "row_for",
    "told_to_caller",
]


class Where(Enum):
    """The step of the controller in which a failure happened."""

    DECIDING = "deciding"
    READING = "reading"
    ENCODING = "encoding"
    APPLYING = "applying"
    APPENDING = "appending"
    ACTIVATING = "activating"
    REPLAYING = "replaying"
    LOADING = "loading"


class Consequence(Enum):
    """The consequence of a failure for the caller, for the leadership and for the process."""

    REFUSE = "the waiting caller gets the error, and this controller continues"
    DECIDE_AGAIN = "commands that are not appended are run again after the control record that came in between"
    STAND_BY = "another controller is active already; this one becomes a standby"
    RENOUNCE = "this controller resigns: nothing was applied, and another one may succeed where it failed"
    FATAL = "the process exits: its state or its log is not what it must be"


class FailureRow(NamedTuple):
    """A row of the table: the consequence of a failure of one of `kinds` in step `where`. The first match counts."""

    where: Where
    kinds: tuple[type[Exception | ErrorCode] | ErrorCode, ...]
    """The failures that match: exception classes; for an append, the error codes of the quorum node's answer."""
    consequence: Consequence
    counts: bool = False
    """Whether the failure counts in MetadataErrorCount (KIP-859)."""


class PeriodicTaskFailed(Exception):
    """Raised when a periodic task's command fails; the task runs again later. Kafka's PeriodicControlTaskException."""


_ANY: Final = (Exception,)

TABLE: Final = (
    FailureRow(Where.DECIDING, (ApiError,), Consequence.REFUSE),
    FailureRow(Where.DECIDING, (PeriodicTaskFailed,), Consequence.REFUSE, counts=True),
    FailureRow(Where.DECIDING, _ANY, Consequence.RENOUNCE, counts=True),
    FailureRow(Where.READING, _ANY, Consequence.REFUSE, counts=True),
    FailureRow(Where.ENCODING, (ApiError,), Consequence.REFUSE),
    FailureRow(Where.ENCODING, _ANY, Consequence.RENOUNCE, counts=True),
    FailureRow(Where.APPLYING, _ANY, Consequence.FATAL, counts=True),
    FailureRow(Where.APPENDING, (ErrorCode.OFFSET_OUT_OF_RANGE,), Consequence.DECIDE_AGAIN),
    FailureRow(Where.APPENDING, (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT), Consequence.REFUSE),
    FailureRow(
        Where.APPENDING, (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH), Consequence.STAND_BY
    ),
    FailureRow(Where.APPENDING, (ErrorCode,), Consequence.RENOUNCE),
    FailureRow(Where.ACTIVATING, _ANY, Consequence.FATAL, counts=True),
    FailureRow(Where.REPLAYING, _ANY, Consequence.FATAL, counts=True),
    FailureRow(Where.LOADING, _ANY, Consequence.FATAL, counts=True),
)

assert {row.where for row in TABLE} == set(Where), "every place has a row"
for _where in Where:
    *_others, _last = (row for row in TABLE if row.where is _where)
    assert _last.kinds == ((ErrorCode,) if _where is Where.APPENDING else _ANY), f"the last row takes all: {_last}"
    assert all(_row.kinds != _last.kinds for _row in _others), f"rows behind one that takes all: {_others}"
    _of_appends = {_row.consequence for _row in _others} & {Consequence.DECIDE_AGAIN, Consequence.STAND_BY}
    assert not _of_appends or _where is Where.APPENDING, (_where, _of_appends)


def row_for(where: Where, cause: Exception | ErrorCode) -> FailureRow:
    """Returns the first row of `TABLE` that matches the step and the failure; it has the consequence."""
    return next(row for row in TABLE if row.where is where and any(_fits(kind, cause) for kind in row.kinds))


def _fits(kind: type[Exception | ErrorCode] | ErrorCode, cause: Exception | ErrorCode) -> bool:
    return isinstance(cause, kind) if isinstance(kind, type) else cause is kind


class Fault(Exception):
    """Raised when this controller must renounce or exit, as `consequence` says. `Engine` undoes the failed write."""

    def __init__(self, where: Where, cause: Exception, what: str) -> None:
        super().__init__(f"{where.value} {what}: {type(cause).__name__}: {cause}")
        self.where = where
        self.cause = cause
        self.consequence = row_for(where, cause).consequence
        assert self.consequence in (Consequence.RENOUNCE, Consequence.FATAL), (self.consequence, cause)


def outcome(where: Where, cause: Exception, what: str) -> ApiError | Fault:
    """Returns the exception to raise: an ApiError if only the caller is affected, else a Fault."""
    if row_for(where, cause).consequence is not Consequence.REFUSE:
        return Fault(where, cause, what)
    return cause if isinstance(cause, ApiError) else told_to_caller(cause)


def told_to_caller(failure: Exception) -> ApiError:
    """Returns the error for the caller of a failed write: UNKNOWN_SERVER_ERROR, with the text of the failure."""
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller failed, and nothing was written: {failure}")
