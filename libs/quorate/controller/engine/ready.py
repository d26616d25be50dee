"""The engine's output for its driver: batches to append to the quorum, and answers to send."""

from __future__ import annotations

from typing import Any

import msgspec

from quorate.errors import ApiError
from quorate.nouns import Epoch, Offset

__all__ = ["Answer", "Append", "EngineReady"]


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """A batch to append to the quorum: encoded records, the first of which must get `base_offset`."""

    epoch: Epoch
    base_offset: Offset
    values: tuple[bytes, ...]
    is_tagged: bool = False
    """Whether the first record carries a trace context or a deduplication entry for the batch."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command: its response or error, and the epoch and end offset of the state that it is based on."""

    token: Any
    response: Any = None
    error: ApiError | None = None
    epoch: Epoch
    offset: Offset
    wrote: bool = False
    """Whether the command appended records; their commit shows that this controller was still active."""


class EngineReady(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's work from one engine call: it first sends `appends` to the quorum, then `answers` to callers."""

    appends: tuple[Append, ...]
    answers: tuple[Answer, ...]
