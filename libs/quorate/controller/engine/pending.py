"""The pending commands and in-flight batches of the controller engine, which it keeps until they are committed."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from quorate.controller.engine.preparation import Undecided
from quorate.controller.engine.ready import Answer
from quorate.errors import ApiError
from quorate.nouns import Epoch, Offset

__all__ = ["InFlight", "Pending", "QueueLimit"]


class QueueLimit(IntEnum):
    """The classes of commands. A command is refused (REQUEST_TIMED_OUT) while as many as its class's value are pending.

    The limit for the cluster's own requests is higher, so that a flood of admin requests does not block brokers.
    """

    ADMIN = 2_000
    """Requests of admin clients and tools."""
    CLUSTER = 4_000
    """Requests of brokers and controllers, and the periodic tasks of this controller."""


assert QueueLimit.ADMIN < QueueLimit.CLUSTER, "a flood of admin requests leaves room for brokers'"


class InFlight(NamedTuple):
    """A batch that is applied but not yet committed; the timeline has a snapshot at `base_offset`.

    The batches in flight are in the order of their offsets.
    """

    base_offset: Offset
    end_offset: Offset
    mark: bytes | None
    """The deduplication entry (see `deduplication`) that the batch carries; None if there is none."""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A command that has run and waits until its end offset is committed.

    Reads wait too, because the state that they read may not be committed yet. Pending commands are in the order of
    their end offsets.
    """

    asked: Undecided
    end_offset: Offset
    response: Any
    error: ApiError | None
    wrote: bool
    """Whether the command appended records."""

    def answer(self, epoch: Epoch | None, *, error: ApiError | None = None) -> Answer:
        """Returns the answer of the active controller of `epoch`; with `error` in place of its own if that is given."""
        assert epoch is not None
        assert not (self.wrote and self.error), f"records were appended for a refused command: {self.error}"
        return Answer(
            token=self.asked.token,
            response=None if error else self.response,
            error=error or self.error,
            epoch=epoch,
            offset=self.end_offset,
            wrote=self.wrote,
        )
