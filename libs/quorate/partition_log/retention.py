"""Which segments a log no longer keeps: `retention.ms`, `retention.bytes`, and what lies below the log start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.nouns import Offset
from quorate.partition_log.segment import Segment
from quorate.partition_log.settings import LogSettings


def old_segments(
    segments: Sequence[Segment],
    settings: LogSettings,
    *,
    start: Offset,
    leo: Offset,
    high_watermark: Offset,
    now_ms: int,
) -> Iterator[Segment]:
    """Yields the segments to remove, oldest first: only those whose records are all committed. It removes nothing.

    A segment is as old as its largest timestamp, and as its file if no record has one. The oldest segment goes while
    the others still have `retention.bytes`, or if it lies below the log start (`start`). `now_ms` is since 1970.
    """
    left = sum(segment.size for segment in segments)
    ends = [*(segment.base_offset for segment in segments[1:]), leo]
    for segment, end in zip(segments, ends, strict=True):
        timestamp = segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.modified_ms()
        is_aged = settings.deletes and 0 <= settings.retention_ms < now_ms - timestamp
        is_beyond = settings.deletes and 0 <= settings.retention_bytes <= left - segment.size
        if not segment.size or end > high_watermark or not (is_aged or is_beyond or end <= start):
            return
        left -= segment.size
        yield segment
