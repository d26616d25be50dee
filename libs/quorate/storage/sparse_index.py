"""The sparse indexes of a segment: offset to position, and timestamp to offset, in Kafka's format.

They are kept in memory and written when the segment is closed. Opening a metadata log scans it and rebuilds them, in
Kafka too, so a loss of the files costs nothing, and an append writes one file only.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from quorate.nouns import Offset
from quorate.wire.batch import BatchHeader

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's `index.interval.bytes`: an index entry is added after this many bytes of batches."""

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
NEVER: Final = -1


class SparseIndex:
    """The index entries of one segment. An entry holds the *last* offset of the batch that it points to."""

    def __init__(self, base_offset: Offset) -> None:
        self._base_offset = base_offset
        self._offsets = array("q")
        self._positions = array("q")
        self._times = array("q")  # the largest timestamp up to each entry's batch, inclusive, in ms since 1970 …
        self._time_offsets = array("q")  # … and the last offset of the batch that has it
        self._since_entry = 0
        # Of each batch from the last entry on, which are read most: its first offset, and its position.
        self._recent_offsets = array("q")
        self._recent_positions = array("q")
        self._largest: tuple[int, Offset] = (NEVER, base_offset)

    def note(self, header: BatchHeader, position: int) -> None:
        """Adds the next batch, which lies at `position`. Only one batch each INDEX_INTERVAL_BYTES gets an entry."""
        if header.max_timestamp > self._largest[0]:
            self._largest = header.max_timestamp, header.last_offset
        if self._since_entry > INDEX_INTERVAL_BYTES:
            assert not self._positions or position > self._positions[-1], (position, self._positions[-1])
            assert not self._offsets or header.last_offset > self._offsets[-1], (header, self._offsets[-1])
            self._offsets.append(header.last_offset)
            self._positions.append(position)
            self._times.append(self._largest[0])
            self._time_offsets.append(self._largest[1])
            self._forget_recent()
        self._since_entry += header.size
        self._recent_offsets.append(header.base_offset)
        self._recent_positions.append(position)

    def _forget_recent(self) -> None:
        self._since_entry = 0
        del self._recent_offsets[:], self._recent_positions[:]

    def position_before(self, offset: Offset) -> int:
        """Returns a position at or before the batch with `offset`, from which a search for it can start."""
        recent = bisect_right(self._recent_offsets, offset) - 1
        if recent >= 0:
            return self._recent_positions[recent]
        entry = bisect_right(self._offsets, offset) - 1
        return self._positions[entry] if entry >= 0 else 0

    def position_below(self, position: int) -> int:
        """Returns the position of the last entry's batch before `position`; 0 if there is none."""
        entry = bisect_left(self._positions, position) - 1
        return self._positions[entry] if entry >= 0 else 0

    def truncate(self, position: int) -> int:
        """Drops the batches from file position `position` on, and all after the last index entry before it.

        Returns the position of that entry's batch, or 0. The caller must `note` the batches from there to `position`
        again.
        """
        while self._positions and self._positions[-1] >= position:
            for column in (self._offsets, self._positions, self._times, self._time_offsets):
                column.pop()
        self._forget_recent()
        assert not self._positions or self._positions[-1] < position, (self._positions[-1], position)
        if not self._positions:
            self._largest = (NEVER, self._base_offset)
            return 0
        self._largest = self._times[-1], self._time_offsets[-1]
        return self._positions[-1]

    def offset_entries(self) -> bytes:
        """Returns the content of the `.index` file: pairs of relative offset and position."""
        pairs = zip(self._offsets, self._positions, strict=True)
        return b"".join(_OFFSET_ENTRY.pack(offset - self._base_offset, position) for offset, position in pairs)

    def time_entries(self) -> bytes:
        """Returns the content of the `.timeindex` file: rising timestamps with relative offsets, the largest last."""
        parts = []
        before = NEVER
        for timestamp, offset in (*zip(self._times, self._time_offsets, strict=True), self._largest):
            if timestamp > before:
                parts.append(_TIME_ENTRY.pack(timestamp, offset - self._base_offset))
                before = timestamp
        return b"".join(parts)
