"""The offset index and the time index of one segment, in the bytes of Kafka's files, and how they are searched.

While a segment is appended to, its entries are in memory; once it is sealed, its files are mapped, so that a broker
with many full segments keeps none of them. A missing or senseless file is made anew from the batches, as in Kafka.
"""

from __future__ import annotations

import mmap
import os
import struct
from bisect import bisect_right
from pathlib import Path
from typing import Final, TypeAlias

from quorate.nouns import Offset
from quorate.storage.files import FILE_MODE, write_all
from quorate.wire.batch import BatchHeader

_OFFSET: Final = struct.Struct(">ii")
_TIME: Final = struct.Struct(">qi")
NEVER: Final = -1
"""The largest timestamp of no batch."""

Entries: TypeAlias = bytearray | mmap.mmap | bytes


class SegmentIndex:
    """Entries of (last offset of a batch, its position), and of (largest timestamp so far, the offset that has it).

    A search begins at the entry before what is sought; one batch each `interval_bytes` has an entry
    (`index.interval.bytes`).
    """

    def __init__(self, base_offset: Offset, *, interval_bytes: int) -> None:
        self._base = base_offset
        self._interval_bytes = interval_bytes
        self._offsets: Entries = bytearray()
        self._times: Entries = bytearray()
        self._resting: tuple[Path, Path] | None = None
        """The files, while they are not mapped."""
        self._since_entry = 0
        self.largest: tuple[int, Offset] = (NEVER, base_offset)
        """The largest timestamp (ms since 1970) of the segment, and the last offset of the first batch that has it."""

    def rest(self, offsets: Path, times: Path) -> None:
        """Maps the files of a sealed segment no more, until `wake`; the entries of another one are in memory."""
        if self._resting is None and not isinstance(self._offsets, bytearray):
            self._offsets, self._times, self._resting = b"", b"", (offsets, times)

    def wake(self) -> None:
        """Maps the files again, before anything is searched. Raises OSError."""
        if self._resting is not None:
            offsets, times = self._resting
            self._offsets, self._times, self._resting = _mapped(offsets), _mapped(times), None

    def note(self, header: BatchHeader, position: int) -> None:
        """Counts the next batch, which lies at `position`: one each `interval_bytes` gets an entry."""
        assert isinstance(self._offsets, bytearray), "a sealed segment gets no batch"
        assert isinstance(self._times, bytearray)
        if header.max_timestamp > self.largest[0]:
            self.largest = header.max_timestamp, header.last_offset
        if self._since_entry > self._interval_bytes:
            self._offsets += _OFFSET.pack(header.last_offset - self._base, position)
            self._note_time(self._times)
            self._since_entry = 0
        self._since_entry += header.size

    def position_before(self, offset: Offset) -> int:
        """Returns a position at or before that of the batch with `offset`, to search from: that of an entry, or 0."""
        entry = bisect_right(range(self._count), offset - self._base, key=lambda at: self._offset_entry(at)[0]) - 1
        return self._offset_entry(entry)[1] if entry >= 0 else 0

    def offset_before(self, timestamp_ms: int) -> Offset:
        """Returns an offset below which every batch's largest timestamp is less than `timestamp_ms`."""
        times = len(self._times) // _TIME.size
        entry = bisect_right(range(times), timestamp_ms - 1, key=lambda at: self._time_entry(at)[0]) - 1
        return self._base + self._time_entry(entry)[1] if entry >= 0 else self._base

    def clear(self) -> None:
        """Forgets all entries; the caller then notes all batches anew."""
        self._offsets, self._times, self._resting = bytearray(), bytearray(), None
        self._since_entry, self.largest = 0, (NEVER, self._base)

    def truncate(self, position: int) -> int:
        """Forgets the entries from `position` on; the segment may be appended to again. Returns a position.

        The caller notes the batches from there to `position` once more.
        """
        offsets, times = bytearray(self._offsets), bytearray(self._times)
        while offsets and _OFFSET.unpack_from(offsets, len(offsets) - _OFFSET.size)[1] >= position:
            del offsets[-_OFFSET.size :]
        last, start = (NEVER, 0)
        if offsets:
            last, start = _OFFSET.unpack_from(offsets, len(offsets) - _OFFSET.size)
        while times and _TIME.unpack_from(times, len(times) - _TIME.size)[1] > last:
            del times[-_TIME.size :]
        self._offsets, self._times, self._since_entry = offsets, times, 0
        timestamp, offset = self._time_entry(len(times) // _TIME.size - 1) if times else (NEVER, 0)
        self.largest = timestamp, self._base + offset
        assert start <= position, (start, position)
        return start

    def seal(self, offsets: Path, times: Path) -> None:
        """Writes both files, the largest timestamp as the last entry, and keeps no entry in memory any more."""
        assert isinstance(self._times, bytearray), "sealed already"
        self._note_time(self._times)
        for path, content in ((offsets, self._offsets), (times, self._times)):
            _write(path, bytes(content))
        self._offsets, self._times = _mapped(offsets), _mapped(times)

    def load(self, offsets: Path, times: Path, *, size: int, first: BatchHeader | None) -> bool:
        """Uses the index files of a sealed segment of `size` bytes. Returns False if they are missing, or another's."""
        if not offsets.is_file() or not times.is_file():
            return False
        self._offsets, self._times = _mapped(offsets), _mapped(times)
        if len(self._offsets) % _OFFSET.size or len(self._times) % _TIME.size:
            return False
        if self._times:
            timestamp, offset = self._time_entry(len(self._times) // _TIME.size - 1)
            self.largest = timestamp, self._base + offset
        if first is not None and first.max_timestamp > self.largest[0]:
            return False
        offset, position = self._offset_entry(self._count - 1) if self._count else (1, 1)
        # Zeros: a JVM that was killed leaves files of their full length, of which only the beginning was written.
        return offset > 0 and 0 < position < max(size, 2)

    @property
    def _count(self) -> int:
        return len(self._offsets) // _OFFSET.size

    def _offset_entry(self, at: int) -> tuple[int, int]:
        offset, position = _OFFSET.unpack_from(self._offsets, at * _OFFSET.size)
        return offset, position

    def _time_entry(self, at: int) -> tuple[int, int]:
        timestamp, offset = _TIME.unpack_from(self._times, at * _TIME.size)
        return timestamp, offset

    def _note_time(self, times: bytearray) -> None:
        timestamp, offset = self.largest
        if timestamp > (_TIME.unpack_from(times, len(times) - _TIME.size)[0] if times else NEVER):
            times += _TIME.pack(timestamp, offset - self._base)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        write_all(descriptor, content, 0)
    finally:
        os.close(descriptor)


def _mapped(path: Path) -> Entries:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
