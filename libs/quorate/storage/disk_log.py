"""The metadata log on disk, over its segments: append, flush, read, truncate. It tracks which offset is flushed."""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Offset, OffsetAndEpoch
from quorate.storage.durable_mark import DurableMark
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.failpoints import reach
from quorate.storage.files import NO_SPACE, NoSpace, make_directory, room_for, sync_directory
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_file, checkpoint_ids
from quorate.storage.opening import open_segments
from quorate.storage.recovery import Note, check_topic
from quorate.storage.segment import Segment
from quorate.wire.batch import BatchHeader, check_batch

SEGMENT_BYTES: Final = 1 << 30
SEGMENT_BYTES_MAX: Final = (1 << 31) - 1
"""The largest segment size in bytes: positions and relative offsets in Kafka's index files have 31 bits."""
SEGMENT_MS: Final = 7 * 24 * 3600 * 1000
MARK_INTERVAL_BYTES: Final = 64 * 1024
"""The durable mark is rewritten after this many flushed bytes, and at every clean shutdown."""
SPARE_BYTES: Final = 1 << 20
"""Bytes that `reserve` keeps free for writes without a reservation, such as control batches and quorum-state."""
TRUSTED_BYTES: Final = 64 << 10
"""`reserve` asks the file system for its free space again after this many bytes."""

EMPTY: Final = OffsetAndEpoch(epoch=0, offset=0)


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush of all records below `end` (exclusive): they are on the disk once `wait` has returned."""

    end: Offset
    segment: Segment

    def wait(self) -> None:
        """Waits for the disk, in any thread. Raises OSError; then call `DiskLog.fail_flush`, and end the process."""
        self.segment.flush()


class DiskLog:
    """The metadata log of one node, opened for writing.

    `start` is the log start offset; `flushed`, the end of the flushed records, and `leo`, the log end offset, are
    exclusive, and neither `start` nor `flushed` passes `leo`. `start` may pass `flushed`: a snapshot that replaces
    records does not flush them. `torn` is the torn tail that the scan at opening has cut off, or None.
    """

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_ms: int = SEGMENT_MS,
        seen: Note | None = None,
    ) -> None:
        """Opens the partition directory in a log directory and checks every batch; `seen` is called with each.

        The log starts at 0, or at the end of the earliest checkpoint that its first segment reaches. If the latest
        checkpoint is ahead of the log, the log continues from there, as in Kafka: the node crashed between the download
        and `restart_at`. Raises Corrupt for damage, naming file, position and offset.
        """
        assert 0 < segment_bytes <= SEGMENT_BYTES_MAX, segment_bytes
        self.directory = directory / PARTITION_DIRECTORY
        make_directory(self.directory)
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._failed: OSError | None = None
        self._room = 0
        self._is_epochs_file_stale = False
        self._mark = DurableMark(self.directory)
        self._marked_bytes = 0
        self._epochs_file = EpochsFile(self.directory)
        check_topic(self.directory)
        checkpoints = checkpoint_ids(self.directory)
        opened = open_segments(
            self.directory, checkpoints, listed=self._epochs_file.read(), durable=self._mark.read(), seen=seen
        )
        self._segments, self.epochs, self.torn = opened.segments, opened.epochs, opened.torn
        self.leo: Offset = opened.end.offset
        self.flushed: Offset = self.leo
        try:
            self._continue_after(opened.end, checkpoints)
        except BaseException:
            self.abandon()
            raise

    @property
    def start(self) -> Offset:
        """The log start offset: 0, or the end of a snapshot."""
        return self.epochs.floor.offset

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self._segments)

    def append(self, data: bytes) -> None:
        """Appends one whole batch, whose base offset must be `leo`. It is durable only after `flush`.

        If the segment is full, it is flushed, and a new one begins. Raises OSError; then the batch is not added. After
        NoSpace the caller may try again later.
        """
        self._require_working()
        with self._raising_no_space():
            self._append(data)

    def reserve(self, size: int) -> None:
        """Reserves room for `size` bytes of batches. Raises NoSpace if the file system has less.

        Other processes may use the space in the meantime; then `append` raises NoSpace.
        """
        with self._raising_no_space():
            reach("log.reserve")
            if size > self._room:
                self._room = max(size, min(room_for(size + SPARE_BYTES, self.directory) - SPARE_BYTES, TRUSTED_BYTES))
        self._room -= size
        assert self._room >= 0, (self._room, size)

    def _append(self, data: bytes) -> None:
        header = check_batch(data)
        assert header.base_offset == self.leo, (header.base_offset, self.leo)
        assert header.size == len(data), (header.size, len(data))
        assert header.epoch >= self.epochs.last_epoch, (header.epoch, self.epochs.last_epoch)
        if self._is_full(header):
            self._roll()
        if header.epoch != self.epochs.last_epoch or self._is_epochs_file_stale:
            entries = self.epochs.entries
            if header.epoch != self.epochs.last_epoch:
                entries = (*entries, (header.epoch, self.leo))
            self._epochs_file.write(entries, leo=header.next_offset)
            self._is_epochs_file_stale = True
        self._segments[-1].append(data, header)
        self._is_epochs_file_stale = False
        self.epochs.assign(epoch=header.epoch, start_offset=self.leo)
        self._marked_bytes += header.size
        self.leo = header.next_offset

    def flush(self) -> Offset:
        """Waits until everything is on the disk, and returns the end of the flushed records (exclusive).

        An OSError must end the process: after a failed fsync nobody knows what is on the disk. The log refuses
        every further append and flush with the same error.
        """
        flush = self.begin_flush()
        if flush is not None:
            with self._durably():
                flush.wait()
            self.end_flush(flush)
        return self.flushed

    def begin_flush(self) -> Flush | None:
        """Returns a flush of all that is written, for the caller to `wait` for and to `end_flush`; None if none is due.

        Appends and reads may continue meanwhile. If the wait fails, call `fail_flush`, and end the process.
        """
        self._require_working()
        assert self._segments[-1].base_offset <= self.leo, (self._segments[-1].base_offset, self.leo)
        return Flush(self.leo, self._segments[-1]) if self.flushed < self.leo else None

    def end_flush(self, flush: Flush) -> Offset:
        """Ends a flush whose `wait` succeeded. Returns the end of the flushed records (exclusive).

        The durable mark is rewritten if enough bytes were flushed since it was last.
        """
        assert flush.end <= self.leo, (flush.end, self.leo)  # unflushed records are never truncated
        self.flushed = max(self.flushed, flush.end)
        assert self.flushed <= self.leo, (self.flushed, self.leo)
        if self._marked_bytes >= MARK_INTERVAL_BYTES:
            self._mark.write(self.flushed)
            self._marked_bytes = 0
        return self.flushed

    def fail_flush(self, error: Exception) -> None:
        """Marks the log as failed after a failed flush: every further append and flush raises an OSError."""
        self._failed = error if isinstance(error, OSError) else OSError(errno.EIO, repr(error))

    def read(self, offset: Offset, max_bytes: int) -> bytes:
        """Returns whole batches from the one with `offset` on, at least one and up to `max_bytes`; empty at the end.

        All of them are from one segment. Raises Corrupt, naming file and position, for an unreadable batch.
        """
        assert self.start <= offset <= self.leo, (self.start, offset, self.leo)
        if offset == self.leo:
            return b""
        segment = self._segment_of(offset)
        return segment.read(segment.position_of(offset), max_bytes)

    def is_boundary(self, offset: Offset) -> bool:
        """Returns whether `offset` does not lie within a batch of this log. Raises Corrupt for an unreadable one."""
        if not self.start < offset < self.leo:
            return True
        segment = self._segment_of(offset)
        return segment.header_at(segment.position_of(offset)).base_offset == offset

    def truncate_to(self, offset: Offset) -> None:
        """Removes the batches from `offset` on, durably. `offset` is the first of a batch, or the end.

        Raises Corrupt if it lies within a batch, or the bytes of the batches before it have changed. After an OSError
        the log refuses every further write.
        """
        self._require_working()
        assert self.start <= offset <= self.leo, (self.start, offset, self.leo)
        self._require_boundary(offset)
        with self._durably():
            self._mark.lower(offset)
            while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
                self._remove(-1)
            last = self._segments[-1]
            last.truncate(last.position_of(offset), end=offset)
            self.epochs.truncate(to=offset)
            self._epochs_file.write(self.epochs.entries, leo=offset)
        self.leo = self.flushed = offset
        assert self._segments[-1].base_offset <= offset, (self._segments[-1].base_offset, offset)

    def restart_at(self, snapshot: OffsetAndEpoch) -> None:
        """Removes all segments and continues from the end of a snapshot, which must be on disk (KIP-630).

        After a crash in between, part of the old log is left, and `__init__` completes the removal.
        """
        self._require_working()
        assert snapshot.offset >= self.start, (snapshot, self.start)  # I-29: it has what it replaces
        with self._durably():
            self._mark.lower(0)
            while self._segments:
                self._remove(-1)
            self._segments = [Segment(self.directory, snapshot.offset)]
            sync_directory(self.directory)
            self.epochs.restart_at(snapshot)
            self._epochs_file.write(self.epochs.entries, leo=snapshot.offset)
            self._mark.write(snapshot.offset)
        self.leo = self.flushed = snapshot.offset
        assert self.first_base == self.start == self.leo, (self.first_base, self.start, self.leo)

    def start_at(self, snapshot: OffsetAndEpoch) -> list[Segment]:
        """Sets the log start offset to the end of a snapshot, which must be on disk, and retires older segments.

        Returns the retired segments, renamed and still open, for the caller to `remove`. Records below the new start
        that share a segment with later ones may come back when the log is opened again, if that segment begins at 0.
        """
        self._require_working()
        assert self.start <= snapshot.offset <= self.leo, (self.start, snapshot, self.leo)
        self._require_boundary(snapshot.offset)
        retired: list[Segment] = []
        with self._durably():
            while len(self._segments) > 1 and self._segments[1].base_offset <= snapshot.offset:
                reach("log.before_retire")
                self._segments[0].retire()
                retired.append(self._segments.pop(0))
                sync_directory(self.directory)  # durable before the next one, so that a crash leaves no gap
            reach("log.after_retire")
        self.epochs.start_at(snapshot)
        assert self.first_base <= self.start <= self.leo, (self.first_base, self.start, self.leo)
        self._is_epochs_file_stale = True
        with suppress(NoSpace), self._raising_no_space():  # a full disk must not stop cleaning; an append retries it
            self._epochs_file.write(self.epochs.entries, leo=self.leo)
            self._is_epochs_file_stale = False
        return retired

    def batch_before(self, offset: Offset) -> BatchHeader:
        """Returns the header of the batch that contains the record before `offset`. Raises Corrupt."""
        assert self.start < offset <= self.leo, (self.start, offset, self.leo)
        segment = self._segment_of(offset - 1)
        return segment.header_at(segment.position_of(offset - 1))

    @property
    def first_base(self) -> Offset:
        """The base offset of the first segment. Records between it and `start` stay on disk with that segment."""
        return self._segments[0].base_offset

    def end_segment(self) -> None:
        """Rolls to a new segment if the only one begins below `start`, so that a later `start_at` can remove it."""
        if len(self._segments) == 1 and self.first_base < self.start:
            self._roll()

    def close(self) -> None:
        """Flushes the log, writes the durable mark at its end, and closes every file. Raises OSError."""
        try:
            self.flush()
            self._mark.write(self.flushed)
            self._mark.close()
            self._segments[-1].seal()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes every file without a flush, as if the process had crashed."""
        self._mark.abandon()
        while self._segments:
            self._segments.pop().close()

    def _continue_after(self, end: OffsetAndEpoch, checkpoints: list[OffsetAndEpoch]) -> None:
        """Goes on where the segments end, or the latest checkpoint if that is ahead. Raises Corrupt."""
        latest, floor = max(checkpoints, default=EMPTY), self.start
        if latest > end:
            if latest.offset < floor:
                why = f"the checkpoint of epoch {latest.epoch} ends before offset {floor}, where the log starts"
                raise Corrupt(why, path=checkpoint_file(self.directory, latest), position=0)
            self.restart_at(latest)
        elif end.offset < floor:
            why = f"the log ends at offset {end.offset}, before offset {floor} where its checkpoint ends"
            raise Corrupt(why, path=self._segments[0].path, position=0)
        assert self.first_base <= self.start, (self.first_base, self.start)
        assert self.start <= self.flushed == self.leo, (self.start, self.flushed, self.leo)
        self._epochs_file.write(self.epochs.entries, leo=self.leo)
        self._mark.write(self.leo)

    def _is_full(self, header: BatchHeader) -> bool:
        active = self._segments[-1]
        if active.first_timestamp is None:
            return False
        return (
            active.size + header.size > self._segment_bytes
            or header.max_timestamp - active.first_timestamp > self._segment_ms
            or header.last_offset - active.base_offset > SEGMENT_BYTES_MAX
        )

    def _roll(self) -> None:
        """Starts a new segment. The old one is flushed first, so that only the last segment can have a torn tail."""
        full = self._segments[-1]
        assert full.base_offset < self.leo, (full.base_offset, self.leo)  # a segment without a batch does not end
        with self._durably():
            full.flush()
        self.flushed = self.leo
        self._segments.append(Segment(self.directory, self.leo))
        with self._durably():
            sync_directory(self.directory)
        full.seal()

    def _remove(self, at: int) -> None:
        """Deletes one segment, durably before the next one, so that a crash leaves no gap."""
        self._segments.pop(at).remove()
        sync_directory(self.directory)

    def _segment_of(self, offset: Offset) -> Segment:
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        assert at >= 0, (offset, self.first_base)
        return self._segments[at]

    @contextmanager
    def _raising_no_space(self) -> Iterator[None]:
        """Converts an OSError of a full disk to NoSpace, unless a durable write has failed before."""
        try:
            yield
        except OSError as error:
            if isinstance(error, NoSpace) or self._failed is not None or error.errno not in NO_SPACE:
                raise
            raise NoSpace(error.errno, os.strerror(error.errno), str(self._segments[-1].path)) from error

    @contextmanager
    def _durably(self) -> Iterator[None]:
        """Runs writes that must be durable: if one raises OSError, the log is marked as failed."""
        try:
            yield
        except OSError as error:
            self._failed = error
            raise

    def _require_boundary(self, offset: Offset) -> None:
        """Raises Corrupt for an offset within a batch. The callers cut at ends alone: the bytes are others by now."""
        if not self.is_boundary(offset):
            raise Corrupt(f"no batch begins at offset {offset}, where the log is to be cut", path=self.directory)

    def _require_working(self) -> None:
        if self._failed is not None:
            why = f"{self._failed.strerror}: the disk failed to keep an earlier write, and is not asked again"
            raise OSError(self._failed.errno, why, str(self.directory)) from self._failed
