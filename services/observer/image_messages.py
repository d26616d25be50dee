"""A state as messages: the offset, and then the records that rebuild it, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kraft import Message
from kraft.service.observer_pb2 import GetImageResponse
from quorate.nouns import Offset
from quorate.records import encode_record

__all__ = ["PART_BYTES", "image_parts"]

PART_BYTES: Final = 64 << 10
"""Size of a part: to encode it takes some ms, and then the event loop runs other tasks."""


def image_parts(
    next_offset: Offset, records: Iterable[tuple[Message, int]], *, led_ms: int = 0
) -> Iterator[GetImageResponse]:
    """Yields a state as messages: first its offset (exclusive end), then the records that rebuild it, in parts.

    Each record comes with its version. `led_ms` is how long ago (ms) a leader of the quorum was known; -1 for never.
    """
    yield GetImageResponse(next_offset=next_offset, led_ms=led_ms)
    values: list[bytes] = []
    size = 0
    for record, version in records:
        values.append(encode_record(record, version))
        size += len(values[-1])
        if size >= PART_BYTES:
            yield GetImageResponse(records=values)
            values, size = [], 0
    if values:
        yield GetImageResponse(records=values)
