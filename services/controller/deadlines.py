"""The deadline of a request: its decision must begin within `timeout_ms`, as for an event in Kafka's controller."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from quorate.errors import ApiError, ErrorCode
from quorate.runtime.event_loop.limit import Limit
from services.controller.api import Api
from services.controller.metrics import QUEUE_TIME

__all__ = ["Deadline", "timeout_of"]


def timeout_of(api: Api, request: Any) -> int | None:
    """Returns a request's `timeout_ms`, or its schema's default; None for no limit.

    None if the field is absent and has no default, or if the API has no deadline: Kafka's ControllerApis ignores the
    field then. Kafka's clients always set it.
    """
    if not api.has_deadline:
        return None
    declared = request.DESCRIPTOR.fields_by_name["timeout_ms"]
    is_said = request.HasField("timeout_ms") or declared.has_default_value
    return int(request.timeout_ms) if is_said else None


class Deadline:
    """A timer for the time before a decision. From `begin` on it is off: a decided write goes on to its commit."""

    def __init__(self, api: Api, timeout_ms: int | None, loop: asyncio.AbstractEventLoop) -> None:
        self._api = api
        self._timeout_ms = timeout_ms
        self._loop = loop
        self._arrived = loop.time()
        self._limit = Limit(loop, None if timeout_ms is None else self._arrived + timeout_ms / 1000)

    # A class, not a generator: one that a dropped task leaves behind is closed when it is collected, at any time.
    def __enter__(self) -> None:
        """Starts the timer. The context ends with ApiError(REQUEST_TIMED_OUT) if `begin` is not called in time."""
        self._limit.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._limit.__exit__(kind, error, trace)
        except TimeoutError:
            raise self._missed() from None

    def begin(self) -> None:
        """Stops the timer, as the decision begins now. Raises ApiError(REQUEST_TIMED_OUT) if it has expired."""
        now_s = self._loop.time()
        QUEUE_TIME.record(now_s - self._arrived)
        if self._limit.has_expired or (self._limit.when is not None and now_s >= self._limit.when):
            raise self._missed()
        self._limit.lift()

    def _missed(self) -> ApiError:
        return ApiError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{self._api.name} could not be begun within its timeout_ms of {self._timeout_ms}; nothing was changed",
        )
