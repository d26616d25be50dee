"""The pending commands and in-flight batches of the controller engine, which it keeps until they are committed."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from quorate.controller.decision import Command
from quorate.controller.deduplication import RequestId
from quorate.errors import ApiError
from quorate.nouns import Offset

__all__ = ["InFlight", "Pending"]


class InFlight(NamedTuple):
    """A batch that is applied but not yet committed; the timeline has a snapshot at `base_offset`."""

    base_offset: Offset
    end_offset: Offset
    mark: bytes | None
    """The deduplication entry (see `deduplication`) that the batch carries; None if there is none."""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A command that has run and waits until its end offset is committed.

    Reads wait too, because the state that they read may not be committed yet.
    """

    token: Any
    command: Command[Any]
    traceparent: bytes | None
    request_id: RequestId | None
    now_ms: int
    end_offset: Offset
    response: Any
    error: ApiError | None
    wrote: bool
    """Whether the command appended records."""
