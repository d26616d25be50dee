"""One segment: a file of batches, with indexes beside it for Kafka's tools."""

from __future__ import annotations

import os
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.failpoints import reach
from quorate.storage.files import FILE_MODE, read_at, write_all
from quorate.storage.names import DELETED, INDEX, LOG, TIME_INDEX, segment_file
from quorate.storage.sparse_index import INDEX_INTERVAL_BYTES, SparseIndex
from quorate.wire.batch import HEADER_BYTES, BatchHeader, batches, peek_header

WINDOW_BYTES: Final = INDEX_INTERVAL_BYTES + HEADER_BYTES
"""Read at once when a batch is looked for; an index entry is rarely further away."""

READ_AHEAD_BYTES: Final = 1 << 20
"""Read at once when a segment is opened: so fine it is told how far the disk gives it back."""


class Segment:
    """The batches from `base_offset` on. Appends go to the end; nothing is durable before `flush`."""

    def __init__(self, directory: Path, base_offset: Offset) -> None:
        """Open the file, or make it; batches that lie in it are not counted before they are noted."""
        self.base_offset = base_offset
        self.path = segment_file(directory, base_offset, LOG)
        self.size = 0
        self.first_timestamp: int | None = None
        self._index = SparseIndex(base_offset)
        self._may_have_indexes = True
        self._log = os.open(self.path, os.O_RDWR | os.O_CREAT, FILE_MODE)

    def note(self, header: BatchHeader) -> None:
        """A batch lies at the end of the file: count it."""
        self._index.note(header, self.size)
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        self.size += header.size

    def append(self, data: bytes, header: BatchHeader) -> None:
        """Write one batch at the end. Raises OSError; then nothing of it is left behind."""
        if self._may_have_indexes:
            self._remove_indexes()
        try:
            reach("append.before_write")
            write_all(self._log, data, self.size)
            reach("append.after_write")
        except OSError:
            os.ftruncate(self._log, self.size)
            raise
        self.note(header)

    def flush(self) -> None:
        """Wait until every batch is on the disk.

        An error must end the process: the kernel may have dropped the pages, and a second try would lie.
        """
        reach("log.before_fsync")
        os.fdatasync(self._log)
        reach("log.after_fsync")

    def position_of(self, offset: Offset) -> int:
        """Where the batch begins that has `offset`, or the first one after it; the size if there is none."""
        position = begin = self._index.position_before(offset)
        window = b""
        while position < self.size:
            if position + HEADER_BYTES > begin + len(window):
                window, begin = self._bytes(position, WINDOW_BYTES), position
            header = self._peek(window, position - begin, begin)
            if header.next_offset > offset:
                return position
            position += header.size
        assert position == self.size, (position, self.size)
        return position

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch at `position`."""
        return self._peek(self._bytes(position, HEADER_BYTES), 0, position)

    def read(self, position: int, max_bytes: int) -> bytes:
        """Whole batches from `position` on: as many as `max_bytes` hold, and at least one. Raises Corrupt."""
        data = self._bytes(position, max(max_bytes, HEADER_BYTES))
        end = self._peek(data, 0, position).size
        if end > len(data):
            data = self._bytes(position, end)
            if end > len(data):
                why = f"a batch of {end} bytes, {len(data)} are left"
                raise Corrupt(why, path=self.path, position=position)
        while end + HEADER_BYTES <= len(data):
            size = self._peek(data, end, position).size
            if end + size > len(data):
                break
            end += size
        return data[:end]

    def read_all(self) -> tuple[bytes | mmap, Corrupt | None]:
        """The file as it lies on the disk, mapped and not copied, up to what the disk does not give back.

        It is read before it is mapped: an error under a mapping would end the process without a word.
        """
        size = os.fstat(self._log).st_size
        position = 0
        unread: Corrupt | None = None
        while position < size and unread is None:
            try:
                read_at(self._log, READ_AHEAD_BYTES, position, path=self.path)
                position += READ_AHEAD_BYTES
            except Corrupt as damage:
                unread = damage
        end = min(position, size)
        return (mmap(self._log, end, access=ACCESS_READ) if end else b""), unread

    def truncate(self, position: int) -> None:
        """Remove everything from `position` on, durably."""
        reach("truncate.before")
        self._remove_indexes()
        os.ftruncate(self._log, position)
        os.fsync(self._log)
        reach("truncate.after")
        self.size = self._index.truncate(position)
        if self.size == 0:
            self.first_timestamp = None
        for _, header in batches(self._bytes(self.size, position - self.size, until=position)):
            self.note(header)
        assert self.size == position, (self.size, position)

    def seal(self) -> None:
        """Write the indexes: no batch will follow. They are not synced, since they can be made anew at any time."""
        self._may_have_indexes = True
        for suffix, content in ((INDEX, self._index.offset_entries()), (TIME_INDEX, self._index.time_entries())):
            path = self.path.with_suffix(suffix)
            try:
                path.write_bytes(content)
            except OSError:  # a full disk must not cost a batch, which is what the bytes are for
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        os.close(self._log)

    def retire(self) -> None:
        """Rename the file out of the log's way, as Kafka does; who reads it may go on, and `remove` ends it later.

        The caller syncs the directory.
        """
        self._remove_indexes()
        aside = self.path.with_name(self.path.name + DELETED)
        os.replace(self.path, aside)
        self.path = aside

    def remove(self) -> None:
        """Delete the files. The caller syncs the directory."""
        os.close(self._log)
        if self.path.suffix == LOG:
            self._remove_indexes()
        self.path.unlink(missing_ok=True)

    def _remove_indexes(self) -> None:
        for suffix in (INDEX, TIME_INDEX):
            self.path.with_suffix(suffix).unlink(missing_ok=True)
        self._may_have_indexes = False

    def _bytes(self, position: int, size: int, *, until: int | None = None) -> bytes:
        end = self.size if until is None else until
        return read_at(self._log, min(size, end - position), position, path=self.path)

    def _peek(self, window: bytes, at: int, begin: int) -> BatchHeader:
        try:
            return peek_header(window, at)
        except Corrupt as damage:
            raise damage.at(self.path, begin) from None
