"""The deadline of a request: its decision must begin within `timeout_ms`, as for an event in Kafka's controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from quorate.errors import ApiError, ErrorCode
from services.controller.metrics import QUEUE_TIME

__all__ = ["Deadline", "timeout_of"]

T = TypeVar("T")

HEEDED: Final = frozenset(
    {"AlterPartitionReassignments", "CreatePartitions", "CreateTopics", "DeleteTopics", "ElectLeaders"}
)
"""RPCs whose `timeout_ms` is a deadline in Kafka's ControllerApis; it ignores that field of the other requests."""


def timeout_of(rpc: str, request: Any) -> int | None:
    """Returns a request's `timeout_ms`, or its schema's default; None for no limit.

    None if the field is absent and has no default, or if the RPC is not in `HEEDED`. Kafka's clients always set it.
    """
    if rpc not in HEEDED:
        return None
    declared = request.DESCRIPTOR.fields_by_name["timeout_ms"]
    is_said = request.HasField("timeout_ms") or declared.has_default_value
    return int(request.timeout_ms) if is_said else None


class Deadline:
    """A timer for the time before a decision. From `begin` on it is off: a decided write goes on to its commit."""

    def __init__(self, rpc: str, timeout_ms: int | None) -> None:
        self._rpc = rpc
        self._timeout_ms = timeout_ms
        self._limit: asyncio.Timeout | None = None
        self._arrived = asyncio.get_running_loop().time()

    async def over(self, work: Awaitable[T]) -> T:
        """Awaits `work` and returns its result. Raises ApiError(REQUEST_TIMED_OUT) if `begin` is not called in time."""
        if self._timeout_ms is None:
            return await work
        self._limit = asyncio.timeout(self._timeout_ms / 1000)
        try:
            async with self._limit:
                return await work
        except TimeoutError:
            if not self._limit.expired():
                raise
            raise self._missed() from None

    def begin(self) -> None:
        """Stops the timer, as the decision begins now. Raises ApiError(REQUEST_TIMED_OUT) if it has expired."""
        QUEUE_TIME.record(asyncio.get_running_loop().time() - self._arrived)
        if self._limit is None or (at := self._limit.when()) is None:
            return
        if self._limit.expired() or asyncio.get_running_loop().time() >= at:
            raise self._missed()
        self._limit.reschedule(None)

    def _missed(self) -> ApiError:
        return ApiError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{self._rpc} could not be begun within its timeout_ms of {self._timeout_ms}; nothing was changed",
        )
