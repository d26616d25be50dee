"""Where an offset or a time lies among the segments of a log, which follow each other by their base offsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from quorate.nouns import Offset
from quorate.partition_log.segment import Segment, Slice
from quorate.wire.batch import BatchHeader


def place_of(segments: Sequence[Segment], offset: Offset) -> int:
    """Returns which of the segments (an index) has `offset`: the first for an offset below all, the last above."""
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


def bytes_between(segments: Sequence[Segment], start: Offset, end: Offset) -> int:
    """Returns how many bytes the batches from `start` to `end` (exclusive) have."""
    if start >= end:
        return 0
    first, last = place_of(segments, start), place_of(segments, end)
    between = sum(segment.size for segment in segments[first:last])
    return between + segments[last].position_of(end) - segments[first].position_of(start)


def slice_of(segments: Sequence[Segment], start: Offset, bound: Offset, max_bytes: int) -> Slice | None:
    """Returns batches of one segment from `start` up to `bound` (exclusive), the first whole; None if there are none.

    They have at most `max_bytes` bytes, beside the first one.
    """
    at = place_of(segments, start)
    while start < bound and at < len(segments):
        segment = segments[at]
        begin = segment.position_of(start)
        is_last = at + 1 == len(segments) or bound < segments[at + 1].base_offset
        end = segment.position_of(bound) if is_last else segment.size
        if begin < end:
            return segment.slice(begin, end, max_bytes)
        at += 1  # the rest of this segment was compacted away
    return None


def first_from_time(
    segments: Sequence[Segment], timestamp_ms: int, least: Offset
) -> tuple[Segment, int, BatchHeader] | None:
    """Returns the first batch that ends above `least` with a record of this timestamp (ms since 1970) or a later one.

    With its segment and position. After `LOOKED_AT_MAX` batches of a segment it is the last one looked at, whatever its
    records are (`Segment.first_from`). None if there is none.
    """
    for segment in segments[place_of(segments, least) :]:
        if segment.largest_timestamp >= timestamp_ms and (found := segment.first_from(timestamp_ms, least)):
            return segment, *found
    return None


def largest_time(segments: Sequence[Segment], start: Offset) -> tuple[int, Offset] | None:
    """Returns the largest timestamp (ms since 1970) from `start` on, and the last offset of its batch.

    None without records. If a segment's largest lies below `start`, not all of its batches are looked at
    (`Segment.largest_from`).
    """
    there = segments[place_of(segments, start) :]
    every = [found for segment in there if segment.size and (found := segment.largest_from(start))]
    return max(every, key=lambda each: each[0]) if every else None
