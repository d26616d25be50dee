"""Applies the records of a batch to the state of the active controller, in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kraft import Message
from quorate.controller.engine.failures import Fault, Where
from quorate.controller.engine.steps import Steps, slices
from quorate.errors import ApiError
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset

__all__ = ["application"]

RECORDS_PER_STEP: Final = 1_000
"""The records that are applied in one step: some 10 ms of CPU."""


def application(
    records: Sequence[Message],
    state: ClusterState,
    base_offset: Offset,
    failed: Callable[[Where, Exception, str], ApiError | Fault],
) -> Steps[None]:
    """Applies all records; the first is at `base_offset`. Raises Fault: the records before that one stay applied."""
    for part in slices(range(len(records)), RECORDS_PER_STEP):
        if part[0] > 0:
            yield
        place = part[0]
        try:
            for place in part:
                state.apply(records[place], base_offset + place)
        except Exception as cause:  # as in `preparation`
            what = f"{type(records[place]).__name__} at offset {base_offset + place} on the active controller"
            raise failed(Where.APPLYING, cause, f"{what}, batch at {base_offset}") from None
