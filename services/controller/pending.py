"""Writes that wait for their commit, and the answers that their callers get."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Final

import msgspec

from quorate.controller.engine.engine import Answer
from quorate.controller.engine.failures import TABLE, Consequence, Where
from quorate.errors import ErrorCode

__all__ = ["FOR_NOW", "LEADER_EPOCH", "OFFSET", "PendingWrite", "response_of"]

FOR_NOW: Final = {
    ErrorCode.KAFKA_STORAGE_ERROR: "the quorum's leader has no room on its disk",
    ErrorCode.REQUEST_TIMED_OUT: "the quorum's leader is transferring its leadership",
}
"""Append errors after which this controller may stay active (`quorate.controller.engine.failures`), and the message
that waiting callers get."""
_refusing = [_row.kinds for _row in TABLE if _row.where is Where.APPENDING and _row.consequence is Consequence.REFUSE]
assert FOR_NOW.keys() == set(chain.from_iterable(_refusing)), (FOR_NOW, _refusing)
OF_NO_STATE: Final = frozenset({*FOR_NOW, ErrorCode.NOT_CONTROLLER})
"""Error codes that are sent without `leader_epoch` and `offset`, as they do not depend on committed state."""
LEADER_EPOCH: Final = "leader_epoch"
OFFSET: Final = "offset"
"""Metadata keys of an ApiError: the error was decided on the state after all records below this offset."""


class PendingWrite(msgspec.Struct, kw_only=True, eq=False):
    """A command that waits for its commit, and the trace context and times (ns) for its spans."""

    answered: asyncio.Future[Answer] | None
    """The future of its answer; None from `answer` on, as the answer has this object as its token."""
    traceparent: bytes | None
    api: str
    decided_ns: int
    written_ns: int

    @classmethod
    def begun(
        cls, api: str, at_ns: int, answered: asyncio.Future[Answer], traceparent: bytes | None = None
    ) -> PendingWrite:
        """Returns a write whose decision begins at `at_ns` (ns since 1970), and whose answer `answered` gets."""
        return cls(answered=answered, traceparent=traceparent, api=api, decided_ns=at_ns, written_ns=at_ns)

    def answer(self, answer: Answer) -> None:
        """Gives the answer to the caller, unless it has gone. To be called once."""
        answered, self.answered = self.answered, None
        assert answered is not None, f"{self.api} was answered twice"
        if not answered.done():
            answered.set_result(answer)


def response_of(answer: Answer) -> Answer:
    """Returns the answer, or raises its ApiError with the leader epoch and the offset of the state in its metadata."""
    if answer.error is not None:
        if answer.error.code not in OF_NO_STATE:
            answer.error.metadata |= {LEADER_EPOCH: str(answer.epoch), OFFSET: str(answer.offset)}
        raise answer.error
    return answer
