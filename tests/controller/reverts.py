"""What the quorum may do to a write that is under way: in both cases the state is reverted."""

from __future__ import annotations

from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode


def control_record(engine: Engine) -> None:
    """A control record takes the offset of the next batch."""
    assert engine.decide_again(engine.appended + 1)


def no_room(engine: Engine) -> None:
    """The quorum has no room for what is to be appended."""
    assert engine.refuse_unappended(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no room"))
