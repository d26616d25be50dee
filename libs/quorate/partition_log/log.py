"""The log of one data partition on disk, in Kafka's files: what `quorate.replication` decides is done to it here (R5).

Unlike the metadata log it is not flushed before it is acknowledged, unless `flush.messages` says so: replication makes
a record durable. Segments that are full are flushed in a thread (`begin_flush`), and all at a stop; the recovery point
says how far that has come.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.partition_log.aborted import Aborted, cut_aborted
from quorate.partition_log.appended import Appended
from quorate.partition_log.flushing import Unflushed
from quorate.partition_log.lookup import bytes_between, first_from_time, largest_time, place_of, slice_of
from quorate.partition_log.markers import TransactionEnd, marker_in
from quorate.partition_log.names import ABORTED
from quorate.partition_log.open_files import OpenFiles
from quorate.partition_log.produced import LOG_APPEND_TIME, check_produced, check_produced_in_steps, header_of, stamped
from quorate.partition_log.producer_files import ProducerFiles
from quorate.partition_log.producers import Producers
from quorate.partition_log.recovery import recover
from quorate.partition_log.retention import old_segments
from quorate.partition_log.segment import Segment, Slice
from quorate.partition_log.settings import LogSettings
from quorate.partition_log.verifications import Verification, Verifications
from quorate.replication.log import cut_epochs, new_epochs
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.files import make_directory, sync_directory
from quorate.storage.recovery import check_topic
from quorate.wire.batch import CLEANED, BatchHeader, Buffer, batches, check_batch
from quorate.wire.items import Items, Steps

RELATIVE_MAX: Final = (1 << 31) - 1
"""The largest offset of a segment, counted from its base: an index entry has 31 bits for it."""
OPENING_MAX: Final = 16
"""Sealed segments that are open at once while a log is opened: each is read once."""


class PartitionLog:
    """The log of one replica; it is a `quorate.replication.log.Log`.

    `start`, `leo` and `recovery_point` are offsets; leo and recovery point are exclusive ends. Every method may raise
    OSError: the log directory then counts as failed (KIP-112).
    """

    def __init__(
        self,
        directory: Path,
        topic_id: Uuid,
        settings: LogSettings,
        *,
        clean: bool = False,
        recovery_point: Offset = 0,
        log_start: Offset = 0,
        files: OpenFiles | None = None,
    ) -> None:
        """Opens a partition's directory, or creates it. `clean`: the broker before has stopped in order.

        Of the segments of all logs with the same `files` so many are open at once. A thread may open a log, and another
        one read others meanwhile.
        `torn` is what an unclean stop had left at the end, and was cut off. Raises Corrupt.
        """
        make_directory(directory)
        check_topic(directory, topic_id)
        self.directory = directory
        self.settings = settings
        self._files, opening = OpenFiles() if files is None else files, OpenFiles(OPENING_MAX)
        found = recover(
            directory,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            index_interval_bytes=settings.index_interval_bytes,
            files=opening,
        )
        self._segments, self.epochs, self.torn = found.segments, found.epochs, found.torn
        self._retired: list[Segment] = []
        self._is_epochs_file_stale = True  # if there is one: what was read is not written
        self.leo: Offset = self._active.next_offset
        self._logged_epoch = self.epochs.epoch_before(self.leo)
        self.recovery_point: Offset = self.leo if clean else min(recovery_point, self.leo)
        self._flushing: Unflushed | None = None
        self._committed: Offset = 0
        self._verifications, self._producer_files = Verifications(), ProducerFiles(directory)
        try:
            self._producer_files.load(self._segments, start=self.start, leo=self.leo, flushed=self.recovery_point)
        except BaseException:
            self.abandon()
            raise
        opening.rest_all()
        for segment in self._segments:
            segment.files = self._files

    @property
    def start(self) -> Offset:
        """The log start offset, the first that may be read: records below it are deleted (R6)."""
        return self.epochs.floor_offset

    @property
    def size(self) -> int:
        """The bytes of all segments, those included whose first records are deleted."""
        return sum(segment.size for segment in self._segments)

    @property
    def first_open_offset(self) -> Offset | None:
        """The first offset of a transaction that is open, or whose marker is not committed; None if there is none.

        Not below the log's start, though a transaction's first records may be deleted while it is open.
        """
        opened = self._producer_files.state.first_open_offset
        return None if opened is None else max(opened, self.start)

    @property
    def producers(self) -> Producers:
        """The producers' states, for DescribeProducers. They are the log's own, and no copy: appends change them."""
        return self._producer_files.state

    def forget_idle_producers(self, *, before_ms: int) -> None:
        """Forgets producers with no open transaction, and verifications, from before `before_ms` (ms since 1970)."""
        self._producer_files.state.forget_idle(before_ms=before_ms)
        self._verifications.forget_idle(before_ms=before_ms)

    def size_between(self, start: Offset, end: Offset) -> int:
        """Returns how many bytes the batches from `start` to `end` (exclusive) have."""
        return bytes_between(self._segments, start, end)

    def is_in_last_segment(self, offset: Offset) -> bool:
        """Returns whether the segment that is appended to holds `offset`."""
        return offset >= self._active.base_offset

    def begin_verification(
        self, records: bytes | memoryview, *, bumps_epochs: bool, now_ms: int
    ) -> Verification | None:
        """Returns the verification that a batch needs to be appended, once its coordinator has said yes (KIP-890).

        None if the transaction has records here already. Raises ApiError: CORRUPT_MESSAGE, INVALID_PRODUCER_EPOCH.
        """
        header = header_of(records)
        return self._verifications.begin(self._producer_files.state, header, bumps_epochs=bumps_epochs, now_ms=now_ms)

    def drop_verification(self, producer_id: int, verification: Verification) -> None:
        """Forgets a verification that was begun: the coordinator has said no."""
        self._verifications.drop(producer_id, verification)

    def check_in_steps(self, records: bytes | memoryview, *, now_ms: int, done: Items) -> Steps[BatchHeader]:
        """Checks a producer's batch, in steps; returns its header, `checked` in `append_as_leader`. Raises ApiError."""
        return check_produced_in_steps(records, self.settings.limits, now_ms=now_ms, done=done)

    def append_as_leader(
        self,
        records: bytes | memoryview,
        *,
        epoch: Epoch,
        now_ms: int,
        verification: Verification | None = None,
        checked: BatchHeader | None = None,
    ) -> Appended:
        """Appends a producer's batch; it gets the next offsets and the leader's epoch. Raises ApiError (R41, R44).

        A batch that the log has already is not appended again, and its first offsets are returned. The first one of a
        transaction needs its `verification`. With what `check_in_steps` has `checked` it is not checked again. The
        errors are those of that, INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER and INVALID_TXN_STATE.
        """
        limits = self.settings.limits
        header = checked or check_produced(records, limits, now_ms=now_ms)
        if (sent := self._producer_files.state.repeated(header)) is not None:
            return Appended(base_offset=sent.base_offset, last_offset=sent.last_offset, was_there=True)
        self._verifications.check(self._producer_files.state, header, verification)
        self._producer_files.state.check(header)
        batch = stamped(records, base_offset=self.leo, epoch=epoch, limits=limits, now_ms=now_ms)
        return self._appended(batch, now_ms=now_ms)

    def append_marker(self, end: TransactionEnd, *, epoch: Epoch, now_ms: int) -> Appended:
        """Appends a coordinator's marker. Raises ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."""
        self._producer_files.state.check_end(end)
        return self._appended(end.batch(base_offset=self.leo, epoch=epoch, now_ms=now_ms), now_ms=now_ms)

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> None:
        """Appends the batches of a leader's answer at their offsets, up to the first bad one. Raises Corrupt."""
        position = 0
        while position < len(records):
            header = check_batch(records, position, count_min=CLEANED)
            if header.base_offset < self.leo or header.epoch < self.epochs.last_epoch:
                why = f"a batch at offset {header.base_offset} in epoch {header.epoch} does not follow the log"
                raise Corrupt(f"{why}, which ends at {self.leo} in epoch {self.epochs.last_epoch}", position=position)
            self._write(memoryview(records)[position : position + header.size], header, now_ms)
            position += header.size

    def read(self, start: Offset, bound: Offset, max_bytes: int) -> Slice | None:
        """Returns batches of one segment from `start` up to `bound` (exclusive), the first whole; None at the bound.

        Raises Corrupt if the bytes on the disk are not what was written.
        """
        assert self.start <= start, (self.start, start)
        assert bound <= self.leo, (bound, self.leo)
        return slice_of(self._segments, start, bound, max_bytes)

    def aborted(self, start: Offset, end: Offset) -> Iterator[Aborted]:
        """Yields the aborted transactions with records from `start` to `end` (exclusive), by their markers (R52)."""
        return self._producer_files.aborted(self._segments[place_of(self._segments, start) :], start, end)

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Notes that a leader's epoch begins, before it has a record (R13); on the disk with its first one."""
        self.epochs.assign(epoch=epoch, start_offset=start_offset)

    def commit(self, high_watermark: Offset) -> None:
        """Notes the high watermark: transactions whose markers are below it count as decided."""
        self._committed = high_watermark
        self._producer_files.state.commit(high_watermark)

    def truncate(self, to: Offset) -> None:
        """Removes the records from `to` on, durably (R54); the log then ends at `to`."""
        assert self.start <= to <= self.leo, (self.start, to, self.leo)
        cut_epochs(self.epochs, to=to)
        if to == self.leo:  # a follower that led an epoch without a record: its files have nothing of that
            return
        while len(self._segments) > 1 and self._active.base_offset > to:
            self._retire(self._active)
        self._active.truncate(self._active.position_of(to))
        cut_aborted(self._active.path.with_suffix(ABORTED), to=to)
        self._ends_at(to)

    def restart_at(self, *, leo: Offset, start: Offset) -> None:
        """Removes all records, durably; the log then begins at `start`, and the next record gets `leo` (R55, R60)."""
        for segment in list(self._segments):
            self._retire(segment)
        self._producer_files.forget_all()
        self._segments = [self._opened(leo)]
        self.epochs = new_epochs(min(leo, start))
        self._ends_at(leo)

    def raise_start(self, to: Offset) -> None:
        """Deletes the records below `to` (DeleteRecords, R59): readers have them no more, `delete_old` their files."""
        assert self.start <= to <= self.leo, (self.start, to, self.leo)
        self.epochs.start_at(OffsetAndEpoch(epoch=self.epochs.epoch_at(to), offset=to))
        self._write_epochs(self.leo)

    def delete_old(self, *, high_watermark: Offset, now_ms: int) -> list[Segment]:
        """Removes from the log, and returns, segments that retention does not keep; `remove_retired` deletes the files.

        Only what is committed, oldest first: by age, by size, and what lies below the log start, which may rise.
        """
        old = list(
            old_segments(
                self._segments,
                self.settings,
                start=self.start,
                leo=self.leo,
                high_watermark=high_watermark,
                now_ms=now_ms,
            )
        )
        if old and len(old) == len(self._segments):
            self.roll()
        for segment in old:
            self._retire(segment)
        if self._segments[0].base_offset > self.start:
            self.raise_start(self._segments[0].base_offset)
        return old

    def remove_retired(self) -> None:
        """Deletes the files of removed segments; the caller waits `file.delete.delay.ms` first, for their readers."""
        for segment in self._retired:
            segment.close()
            segment.path.unlink(missing_ok=True)
        self._retired.clear()

    def find_time(self, timestamp_ms: int, *, least: Offset = 0) -> tuple[Segment, int, BatchHeader] | None:
        """Returns segment, position and header of the first batch with a record of this timestamp or a later one.

        Of those that end above `least` and the log start. After many batches it may be another (`Segment.first_from`).
        """
        return first_from_time(self._segments, timestamp_ms, max(least, self.start))

    @property
    def largest_timestamp(self) -> tuple[int, Offset] | None:
        """The largest timestamp of a record, and the last offset of its batch (KIP-734); None if there is no record."""
        return largest_time(self._segments, self.start)

    def flush(self) -> Offset:
        """Waits until every record is on the disk; returns the recovery point, which is the end of the log then."""
        everything = self._unflushed(len(self._segments), self.leo)
        everything.flush()
        self.recovery_point = max(self.recovery_point, everything.end)
        return self.recovery_point

    def begin_flush(self) -> Unflushed | None:
        """Returns the full segments that are not flushed, for a thread, and then for `end_flush`; None if all are."""
        end = self._active.base_offset
        self._flushing = self._unflushed(-1, end) if end > self.recovery_point else None
        return self._flushing

    def end_flush(self, flushed: Unflushed) -> None:
        """Raises the recovery point, unless the log was truncated meanwhile: other records may be there now."""
        if self._flushing is flushed:
            self.recovery_point = max(self.recovery_point, flushed.end)

    def roll(self) -> None:
        """Begins a new segment at the log end, with a snapshot of the producers' state at its base offset."""
        self._active.seal()
        self._producer_files.snapshot(self.leo)
        self._producer_files.keep_for(self._segments, self.leo)
        self._segments.append(self._opened(self.leo))

    def take_over(self, other: PartitionLog) -> None:
        """Takes the place of a log whose batches this one has: with its start, its epochs and what its producers do."""
        assert self.leo == other.leo, (self.leo, other.leo)
        self.epochs = other.epochs
        self._verifications = other._verifications
        self._producer_files.state = other._producer_files.state
        self._committed = other._committed
        self._producer_files.snapshot(self.leo)  # the other may know producers whose records are deleted
        self._write_epochs(self.leo)

    def close(self) -> None:
        """Flushes, leaves what a clean start trusts (indexes, a snapshot of the producers), and closes the files."""
        self._active.seal()
        self._producer_files.snapshot(self.leo)
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Closes the files without a flush, a checkpoint or a snapshot: what is left is as after a kill."""
        for segment in (*self._segments, *self._retired):
            segment.close()

    @property
    def _active(self) -> Segment:
        return self._segments[-1]

    def _opened(self, base: Offset) -> Segment:
        interval = self.settings.index_interval_bytes
        return Segment(self.directory, base, index_interval_bytes=interval, files=self._files)

    def _appended(self, batch: bytes | bytearray, *, now_ms: int) -> Appended:
        ((_, header),) = batches(batch)
        self._write(batch, header, now_ms)
        return Appended(
            base_offset=header.base_offset,
            last_offset=header.last_offset,
            log_append_time_ms=header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1,
        )

    def _write(self, batch: Buffer, header: BatchHeader, now_ms: int) -> None:
        assert header.base_offset >= self.leo, (header, self.leo)  # R5: offsets rise
        marker = marker_in(header, batch) if header.is_control else None  # raises Corrupt before anything is written
        if self._must_roll(header, now_ms):
            self.roll()
        if header.epoch != self._logged_epoch:
            self.epochs.assign(epoch=header.epoch, start_offset=header.base_offset)
            # The file is written before the recovery point passes: above it a start has the epochs of the batches.
            self._logged_epoch, self._is_epochs_file_stale = header.epoch, True
        self._active.append(batch, header)
        self.leo = header.next_offset
        self._producer_files.count(header, marker, self._active)
        self._verifications.end(header)
        if self.leo - self.recovery_point >= self.settings.flush_messages:
            self.flush()  # before anybody hears of the batch

    def _must_roll(self, header: BatchHeader, now_ms: int) -> bool:
        active = self._active
        if not active.size:
            return False
        first = active.first_timestamp if active.first_timestamp is not None else -1
        age_ms = (header.max_timestamp if first >= 0 and header.max_timestamp >= 0 else now_ms) - max(first, 0)
        is_old = first >= 0 and age_ms >= self.settings.segment_ms
        is_full = active.size + header.size > self.settings.limits.segment_bytes
        return is_full or is_old or header.last_offset - active.base_offset > RELATIVE_MAX

    def _retire(self, segment: Segment) -> None:
        self._segments.remove(segment)
        segment.retire()
        self._retired.append(segment)

    def _unflushed(self, until: int, end: Offset) -> Unflushed:
        if self._is_epochs_file_stale:
            self._write_epochs(self.leo, is_durable=False)
        segments = [each.path for each in self._segments[place_of(self._segments, self.recovery_point) : until]]
        return Unflushed(directory=self.directory, segments=tuple(segments), end=end)

    def _ends_at(self, leo: Offset) -> None:
        self.leo, self._flushing = leo, None
        self.recovery_point = min(self.recovery_point, leo)
        self._producer_files.load(self._segments, start=self.start, leo=leo, flushed=leo)
        self.commit(min(self._committed, leo))  # what is read anew has the markers that are committed, too
        self._write_epochs(leo)
        sync_directory(self.directory)

    def _write_epochs(self, leo: Offset, *, is_durable: bool = True) -> None:
        entries = [(epoch, start) for epoch, start in self.epochs.entries if epoch >= 0]
        EpochsFile(self.directory).write(entries, leo=leo, is_durable=is_durable)
        self._logged_epoch, self._is_epochs_file_stale = self.epochs.epoch_before(leo), False
