"""Tells a state as records, part by part: the present one while the replica goes on, or one that the database has.

The timeline keeps the present one as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

from kraft.service.observer_pb2 import GetImageResponse, LogPlace
from quorate.controller.secrets import redacted
from quorate.errors import ApiError, ErrorCode
from quorate.runtime.following.replica import Replica
from services.observer.changes import Changes
from services.observer.image_messages import image_parts

__all__ = ["IMAGES_MAX", "Images"]

IMAGES_MAX: Final = 4
"""Images that are sent at once: each keeps what is overwritten meanwhile."""


class Images:
    """Sends whole states as records: the replica's present one, or one of the past that the database has."""

    def __init__(self, replica: Replica, past: Changes, *, led_ms: Callable[[], int] = lambda: 0) -> None:
        """`led_ms` says how long ago a leader of the quorum was known; -1 for never."""
        self.led_ms = led_ms
        self._replica = replica
        self._past = past
        self._running = 0

    async def tell(self, at: LogPlace | None = None) -> AsyncGenerator[GetImageResponse, None]:
        """Yields the state as it is at the call, or at a place of the log, as records without secrets, in parts.

        The first part has the offset. Raises ApiError if too many are sent already (THROTTLING_QUOTA_EXCEEDED), and for
        a place of which the database has no state.
        """
        if self._running >= IMAGES_MAX:
            message = f"{IMAGES_MAX} images are being sent already; one more has to wait for the end of one"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._running += 1
        try:
            async with aclosing(self._present() if at is None else self._past.image(at)) as parts:
                async for part in parts:
                    yield part
        finally:
            self._running -= 1

    async def _present(self) -> AsyncGenerator[GetImageResponse, None]:
        with self._replica.held() as (state, offset):
            records = ((redacted(record), version) for record, version in state.records())
            for part in image_parts(offset, records, led_ms=self.led_ms()):
                yield part
                await asyncio.sleep(0)
