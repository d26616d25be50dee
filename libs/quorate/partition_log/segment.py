"""One segment of a data partition's log: record batches with rising offsets, which may have gaps (compaction)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.partition_log.names import ABORTED
from quorate.partition_log.open_files import OpenFiles
from quorate.partition_log.segment_index import SegmentIndex
from quorate.storage.files import FILE_MODE, naming, read_at, write_all
from quorate.storage.names import DELETED, INDEX, LOG, TIME_INDEX, segment_file
from quorate.wire.batch import CLEANED, HEADER_BYTES, BatchHeader, Buffer, check_batch, peek_header

WINDOW_BYTES: Final = 4096 + HEADER_BYTES
"""Bytes that one read fetches when a batch is searched; an index entry is rarely further away."""
SCAN_BYTES: Final = 4 << 20
TAIL: Final = 32
"""The ends of so many batches, those appended last, are known without the file: most reads begin and end there."""
LOOKED_AT_MAX: Final = 10_000
"""Batches of which a search by time reads the headers: some 20 ms. It needs more only where timestamps fall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Bytes of a segment's file that answer a fetch. The last batch may be cut anywhere, the first never (KIP-74).

    `descriptor` is open until other segments are read: read it at once.
    """

    descriptor: int
    path: Path
    position: int
    size: int

    def read(self) -> bytes:
        """Returns the bytes. Raises Corrupt if the disk does not give them, or no batch begins there."""
        data = read_at(self.descriptor, self.size, self.position, path=self.path)
        try:
            peek_header(data, count_min=CLEANED)
        except Corrupt as damage:
            raise damage.at(self.path, self.position) from None
        return data


class Segment:
    """The batches from `base_offset` on, in one file, with its indexes. Nothing is durable before a flush."""

    def __init__(
        self, directory: Path, base_offset: Offset, *, index_interval_bytes: int, files: OpenFiles | None = None
    ) -> None:
        """Opens the file, or creates it. Batches that are in it do not count before `scan` or `trust`.

        Once it is sealed or shared, `files` may close it until it is read again.
        """
        self.base_offset = base_offset
        self.path = segment_file(directory, base_offset, LOG)
        self.size = 0
        self.next_offset: Offset = base_offset
        """The end (exclusive) of the batches that were noted one by one; a segment that is only trusted has none."""
        self.first_timestamp: int | None = None
        """The largest timestamp of the first batch, for `segment.ms`."""
        self._index = SegmentIndex(base_offset, interval_bytes=index_interval_bytes)
        self._tail: dict[Offset, int] = {}
        """Of the batches appended last: the offset after each, and the position after it."""
        self.files = OpenFiles() if files is None else files
        self._is_shared = False
        self._log: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT, FILE_MODE)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of its batches, in ms since 1970; -1 if no batch has one."""
        return self._index.largest[0]

    @property
    def largest(self) -> tuple[int, Offset]:
        """The largest timestamp (ms since 1970; -1 for none), and the last offset of the first batch that has it."""
        return self._index.largest

    def append(self, data: Buffer, header: BatchHeader) -> None:
        """Writes one batch at the end. Raises OSError; then the file has its old size."""
        assert len(data) == header.size, (len(data), header.size)
        try:
            with naming(self.path):
                write_all(self._descriptor, memoryview(data), self.size)
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self._note(header)

    def trust(self) -> bool:
        """Takes the file's size and its index files as they are; returns False if the index files do not fit.

        For a segment that a clean stop has left, or that lies below the recovery point.
        """
        size = os.fstat(self._descriptor).st_size
        first = self.header_at(0) if size else None
        if not self._index.load(*self._index_files, size=size, first=first):
            self._index.clear()
            return False
        self.size = size
        self.first_timestamp = first.max_timestamp if first else None
        self.share()
        return True

    def scan(self) -> Iterator[BatchHeader]:
        """Checks each batch from the file's beginning, counts and yields its header. Raises Corrupt at a bad one.

        The bad one and those after it do not count. All that the segment knew of its batches is forgotten first.
        """
        end = os.fstat(self._descriptor).st_size
        self._index.clear()
        self._tail.clear()
        self.size, self.next_offset, self.first_timestamp = 0, self.base_offset, None
        while self.size < end:
            data = self._bytes(self.size, SCAN_BYTES, until=end)
            at = 0
            while at < len(data) and (at == 0 or _is_whole(data, at)):
                if at == 0 and not _is_whole(data, 0):
                    data = self._bytes(self.size, max(self._size_of(data), HEADER_BYTES), until=end)
                header = self._checked(data, at)
                self._note(header)
                at += header.size
                yield header

    def position_of(self, offset: Offset) -> int:
        """Returns the position of the batch with `offset`, or of the first one after it; the size if there is none."""
        if (position := self._tail.get(offset)) is not None:
            return position
        self._wake()
        for position, header in self.headers(self._index.position_before(offset)):
            if header.next_offset > offset:
                return position
        return self.size

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yields each batch's position and header from `position` on. Raises Corrupt for a header that cannot be."""
        begin, window = position, b""
        while position < self.size:
            if position + HEADER_BYTES > begin + len(window):
                window, begin = self._bytes(position, WINDOW_BYTES), position
            header = self._peek(window, position - begin, begin)
            if header.size > self.size - position:
                why = f"a batch of {header.size} bytes, {self.size - position} are left"
                raise Corrupt(why, path=self.path, position=position)
            yield position, header
            position += header.size

    def header_at(self, position: int) -> BatchHeader:
        """Returns the header of the batch at `position`. Raises Corrupt."""
        return self._peek(self._bytes(position, HEADER_BYTES, until=position + HEADER_BYTES), 0, position)

    def slice(self, position: int, until: int, max_bytes: int) -> Slice:
        """Returns the bytes from `position` to `until`: at most `max_bytes` of them, but the first batch whole."""
        assert 0 <= position < until <= self.size, (position, until, self.size)
        size = until - position
        if size > max_bytes:
            size = min(size, max(max_bytes, self.header_at(position).size))
        return Slice(descriptor=self._descriptor, path=self.path, position=position, size=size)

    def first_from(self, timestamp_ms: int, least: Offset) -> tuple[int, BatchHeader] | None:
        """Returns the first batch that ends above `least` and has a record of at least `timestamp_ms`.

        With its position. Where timestamps fall, the index does not help: after `LOOKED_AT_MAX` batches it is the last
        one looked at, whatever it has, and the search goes on from there when it is asked again.
        """
        self._wake()
        for count, found in enumerate(self._headers_above(max(self._index.offset_before(timestamp_ms), least)), 1):
            header = found[1]
            is_it = header.max_timestamp >= timestamp_ms and header.count > CLEANED
            if header.next_offset > least and (is_it or count >= LOOKED_AT_MAX):
                return found
        return None

    def largest_from(self, least: Offset) -> tuple[int, Offset] | None:
        """Returns `largest` of the batches that end above `least`; None if there are none.

        If the segment's largest lies below, only the first `LOOKED_AT_MAX` of them are looked at.
        """
        if self.largest[1] >= least:
            return self.largest
        above = (header for _, header in self._headers_above(least) if header.next_offset > least)
        every = [(header.max_timestamp, header.last_offset) for header in islice(above, LOOKED_AT_MAX)]
        return max(every, key=lambda each: each[0]) if every else None

    def _headers_above(self, offset: Offset) -> Iterator[tuple[int, BatchHeader]]:
        """Yields what `headers` does, from a batch near before `offset` on."""
        self._wake()
        return self.headers(self._index.position_before(offset))

    def truncate(self, position: int) -> None:
        """Removes the batches from `position` on, durably; the segment is appended to from there."""
        assert 0 <= position <= self.size, (position, self.size)
        self._wake()
        self._remove_index_files()
        with naming(self.path):
            os.ftruncate(self._descriptor, position)
            os.fsync(self._descriptor)
        self.size = position
        self.reopen()

    def reopen(self) -> None:
        """Makes this segment, sealed or not, the one to which the log appends."""
        self._wake()
        self.files.forget(self)
        self._is_shared = False
        self._tail.clear()
        self._remove_index_files()
        end, start = self.size, self._index.truncate(self.size)
        unnoted = [header for _, header in self.headers(start)]
        self.size = start
        for header in unnoted:
            self._note(header)
        if end == 0:
            self.next_offset, self.first_timestamp = self.base_offset, None
        assert self.size == end, (self.size, end)

    def cut_file(self) -> int:
        """Removes from the file, durably, what follows the batches that count; returns how many bytes these were."""
        left = os.fstat(self._descriptor).st_size - self.size
        if left:
            with naming(self.path):
                os.ftruncate(self._descriptor, self.size)
                os.fsync(self._descriptor)
        return left

    def seal(self) -> None:
        """Writes the index files of a segment that gets no more batches; a flush syncs them with it."""
        self._index.seal(*self._index_files)
        self.share()

    def share(self) -> None:
        """Says that nothing is appended until `reopen`: its files may be closed, and are opened again for a read."""
        self._is_shared = True
        self._tail.clear()
        self.files.note(self)

    def retire(self) -> None:
        """Renames the file to `.deleted`, as Kafka does, and deletes the indexes beside it at once. Raises OSError.

        Readers that have a slice may go on. The caller deletes the file later, and syncs the directory.
        """
        self._remove_index_files()
        self.path.with_suffix(ABORTED).unlink(missing_ok=True)
        aside = self.path.with_name(self.path.name + DELETED)
        os.replace(self.path, aside)
        self.path = aside

    def modified_ms(self) -> int:
        """When the file was written last, in ms since 1970."""
        return self.path.stat().st_mtime_ns // 1_000_000

    def close(self) -> None:
        """Closes the file."""
        self.files.forget(self)
        if self._log is not None:
            os.close(self._log)
            self._log = None

    def rest(self) -> None:
        """Closes the files until they are read again. All that was appended is still written: Linux syncs a file by
        any descriptor, and reports a failure to the next one that asks.
        """
        if self._log is not None:
            os.close(self._log)
            self._log = None
        self._index.rest(*self._index_files)

    def _wake(self) -> None:
        """Opens what is resting. Raises OSError."""
        if self._log is None:
            self._log = os.open(self.path, os.O_RDWR)
        self._index.wake()
        if self._is_shared:
            self.files.note(self)

    @property
    def _descriptor(self) -> int:
        if self._log is None:
            self._wake()
        assert self._log is not None, self.path
        return self._log

    @property
    def _index_files(self) -> tuple[Path, Path]:
        return self.path.with_suffix(INDEX), self.path.with_suffix(TIME_INDEX)

    def _note(self, header: BatchHeader) -> None:
        self._index.note(header, self.size)
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        self.size += header.size
        self.next_offset = header.next_offset
        self._tail[header.next_offset] = self.size
        if len(self._tail) > TAIL:
            del self._tail[next(iter(self._tail))]

    def _checked(self, data: bytes, at: int) -> BatchHeader:
        try:
            header = check_batch(data, at, count_min=CLEANED)
        except Corrupt as damage:
            raise damage.at(self.path, self.size - at) from None
        if header.base_offset < self.next_offset:
            why = f"a batch at offset {header.base_offset}, where {self.next_offset} or more follows"
            raise Corrupt(why, path=self.path, position=self.size)
        return header

    def _size_of(self, data: bytes) -> int:
        return self._peek(data, 0, self.size).size

    def _remove_index_files(self) -> None:
        for path in self._index_files:
            path.unlink(missing_ok=True)

    def _bytes(self, position: int, size: int, *, until: int | None = None) -> bytes:
        end = self.size if until is None else until
        return read_at(self._descriptor, min(size, end - position), position, path=self.path)

    def _peek(self, window: bytes, at: int, begin: int) -> BatchHeader:
        try:
            return peek_header(window, at, count_min=CLEANED)
        except Corrupt as damage:
            raise damage.at(self.path, begin) from None


def _is_whole(data: bytes, at: int) -> bool:
    left = len(data) - at
    return left >= HEADER_BYTES and left >= int.from_bytes(data[at + 8 : at + 12], "big") + 12
