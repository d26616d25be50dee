"""One log segment: a file of record batches, with Kafka's offset index and time index beside it."""

from __future__ import annotations

import errno
import os
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.failpoints import reach
from quorate.storage.files import FILE_MODE, naming, read_at, write_all
from quorate.storage.names import DELETED, INDEX, LOG, TIME_INDEX, segment_file
from quorate.storage.sparse_index import INDEX_INTERVAL_BYTES, SparseIndex
from quorate.wire.batch import HEADER_BYTES, BatchHeader, batches, peek_header

WINDOW_BYTES: Final = INDEX_INTERVAL_BYTES + HEADER_BYTES
"""Bytes that one read fetches when a batch is searched; an index entry is rarely further away."""

READ_AHEAD_BYTES: Final = 1 << 20
"""Bytes of one read when a segment is opened: an unreadable area is located with this precision."""

CLOSED: Final = -1
"""Stands for the descriptor of a closed segment."""


class Segment:
    """A log segment: the batches from `base_offset` on. Appends go to its end; nothing is durable before `flush`."""

    def __init__(self, directory: Path, base_offset: Offset) -> None:
        """Opens the file, or creates it. Batches in the file do not count before `note` is called for each."""
        self.base_offset = base_offset
        self.path = segment_file(directory, base_offset, LOG)
        self.size = 0
        self.first_timestamp: int | None = None
        self._index = SparseIndex(base_offset)
        self._may_have_indexes = True
        self._log = os.open(self.path, os.O_RDWR | os.O_CREAT, FILE_MODE)

    def note(self, header: BatchHeader) -> None:
        """Counts a batch that is at the end of the file already: adds it to the size and to the index."""
        self._index.note(header, self.size)
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        self.size += header.size

    def append(self, data: bytes, header: BatchHeader) -> None:
        """Writes one batch at the end; deletes the index files. Raises OSError; then the file has its old size."""
        assert self._log != CLOSED, self.path
        assert len(data) == header.size, (len(data), header.size)
        assert header.base_offset >= self.base_offset, (header.base_offset, self.base_offset)
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
        """Waits until every batch is on the disk (fdatasync).

        An OSError must end the process: the kernel may have dropped the pages, and a second fsync would report success.
        Does nothing once the segment is closed: a flush may still be pending when its segment has been removed, which
        happens only to a segment that was flushed when the log rolled, or whose batches were truncated.
        """
        descriptor = self._log
        if descriptor == CLOSED:
            return
        reach("log.before_fsync")
        try:
            with naming(self.path):
                os.fdatasync(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF or self._log != CLOSED:
                raise
        reach("log.after_fsync")

    def rewrite(self, position: int) -> None:
        """Writes the batches from `position` on again, as they are: the next `flush` puts them on the disk for certain.

        After an fsync that failed the kernel has what it could not write as pages that need not be written.
        """
        while position < self.size:
            data = self._bytes(position, min(READ_AHEAD_BYTES, self.size - position))
            write_all(self._log, data, position)
            position += len(data)

    def position_of(self, offset: Offset) -> int:
        """Returns the position of the batch with `offset`, or of the first one after it; the size if there is none.

        Raises Corrupt if a header on the way cannot be read, or says that its batch goes beyond the end.
        """
        position = begin = self._index.position_before(offset)
        window = b""
        while position < self.size:
            if position + HEADER_BYTES > begin + len(window):
                window, begin = self._bytes(position, WINDOW_BYTES), position
            header = self._peek(window, position - begin, begin)
            if header.next_offset > offset:
                return position
            if header.size > self.size - position:
                why = f"a batch of {header.size} bytes, {self.size - position} are left"
                raise Corrupt(why, path=self.path, position=position)
            position += header.size
        assert position == self.size, (position, self.size)
        return position

    def header_at(self, position: int) -> BatchHeader:
        """Returns the header of the batch at `position`. Raises Corrupt, naming the file."""
        return self._peek(self._bytes(position, HEADER_BYTES), 0, position)

    def read(self, position: int, max_bytes: int) -> bytes:
        """Returns whole batches from `position` on, at least one and up to `max_bytes`. Raises Corrupt."""
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
        """Returns the whole file, memory-mapped, up to the first unreadable area; and the read error, or None.

        Each part is read before it is mapped: a disk error under a mapping would kill the process without a message.
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

    def truncate(self, position: int, *, end: Offset) -> None:
        """Removes the batches from `position` on, durably, and the index files; those before it end at offset `end`.

        Raises Corrupt, with nothing changed, if the bytes of the batches before it are not what they were.
        """
        assert 0 <= position <= self.size, (position, self.size)
        kept = self._kept_below(position, end)
        reach("truncate.before")
        self._remove_indexes()
        with naming(self.path):
            os.ftruncate(self._log, position)
            os.fsync(self._log)
        reach("truncate.after")
        self.size = self._index.truncate(position)
        if self.size == 0:
            self.first_timestamp = None
        for header in kept:
            self.note(header)
        assert self.size == position, (self.size, position)

    def _kept_below(self, position: int, end: Offset) -> list[BatchHeader]:
        """Returns the headers of the batches after the last index entry that a truncation leaves. Raises Corrupt."""
        start = self._index.position_below(position)
        kept: list[BatchHeader] = []
        try:
            for at, header in batches(self._bytes(start, position - start, until=position)):
                expected = kept[-1].next_offset if kept else self.base_offset if start == 0 else header.base_offset
                if header.base_offset != expected:
                    raise Corrupt(f"batch at offset {header.base_offset}, where {expected} follows", position=at)
                kept.append(header)
            if (found := kept[-1].next_offset if kept else self.base_offset) != end:
                raise Corrupt(
                    f"the batches before it end at offset {found}, and not at {end}", position=position - start
                )
        except Corrupt as damage:
            raise damage.at(self.path, start) if damage.path is None else damage from None
        return kept

    def seal(self) -> None:
        """Writes the index files of a segment that gets no more batches. They are not synced: a start rebuilds them.

        If they cannot be written, there are none, and no error is raised.
        """
        self._may_have_indexes = True
        for suffix, content in ((INDEX, self._index.offset_entries()), (TIME_INDEX, self._index.time_entries())):
            path = self.path.with_suffix(suffix)
            try:
                path.write_bytes(content)
            except OSError:  # a full disk must not cost a batch; the segment works without index files
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file."""
        # The descriptor's number may be reused for another file: nothing may use it from now on.
        assert self._log != CLOSED, self.path
        descriptor, self._log = self._log, CLOSED
        os.close(descriptor)

    def retire(self) -> None:
        """Renames the file to `.deleted`, as Kafka does, and deletes its indexes at once. Raises OSError.

        Readers of the file may continue; `remove` deletes it later. The caller syncs the directory.
        """
        assert self.path.suffix == LOG, self.path
        self._remove_indexes()
        aside = self.path.with_name(self.path.name + DELETED)
        os.replace(self.path, aside)
        self.path = aside

    def remove(self) -> None:
        """Closes and deletes the files. The caller syncs the directory."""
        self.close()
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
