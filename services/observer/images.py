"""Tells the present state as records, part by part, while the replica goes on: the timeline keeps it as it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from kraft.service.observer_pb2 import GetImageResponse
from quorate.controller.secrets import redacted
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.records import encode_record
from quorate.runtime.replica import Replica

__all__ = ["IMAGES_MAX", "Images"]

IMAGES_MAX: Final = 4
"""Images that are told at once: each keeps what is overwritten meanwhile."""
PART_BYTES: Final = 64 << 10
"""Size of a part: to encode it takes some ms, and then the event loop runs other tasks."""


class Images:
    """The images of one replica."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._running = 0

    async def tell(self) -> AsyncGenerator[GetImageResponse, None]:
        """Yields the parts of the state as it is at the call. Raises ApiError if too many are told already."""
        if self._running >= IMAGES_MAX:
            message = f"{IMAGES_MAX} images are being told already; one more has to wait for the end of one"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._running += 1
        try:
            with self._replica.held() as (state, offset):
                yield GetImageResponse(next_offset=offset)
                for part in _parts(state):
                    yield GetImageResponse(records=part)
                    await asyncio.sleep(0)
        finally:
            self._running -= 1


def _parts(state: ClusterState) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    size = 0
    for record, version in state.records():
        values.append(encode_record(redacted(record), version))
        size += len(values[-1])
        if size >= PART_BYTES:
            yield values
            values, size = [], 0
    if values:
        yield values
