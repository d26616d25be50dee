"""Applies the records of a batch to the state of the active controller, in steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kraft import Message
from quorate.controller.engine.failures import Fault, Where
from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset

__all__ = ["application"]

RECORDS_PER_STEP: Final = 1_000
"""The records that are applied in one step: some 2 ms of CPU for a topic's partitions, and 10 ms for others."""


def application(
    records: Sequence[Message],
    state: ClusterState,
    base_offset: Offset,
    failed: Callable[[Where, Exception, str], ApiError | Fault],
) -> Steps[None]:
    """Applies records to `state` in steps; the first is at `base_offset`.

    If a record cannot be applied, those before it stay applied, and what `failed` returns is raised: a Fault.
    """
    for start in range(0, len(records), RECORDS_PER_STEP):
        if start > 0:
            yield
        some, place = records[start : start + RECORDS_PER_STEP], 0
        try:
            while place < len(some):
                place = state.apply_next(some, place, base_offset + start)
        except Exception as cause:  # as in `preparation`
            what = f"{type(some[place]).__name__} at offset {base_offset + start + place} on the active controller"
            raise failed(Where.APPLYING, cause, f"{what}, batch at {base_offset}") from None
