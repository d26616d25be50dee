"""Opens the segments of the metadata log: every batch is checked, a torn tail cut off, and the rest on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quorate.epochs import EpochCache
from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.storage.files import sync_directory
from quorate.storage.names import LOG, segment_bases, segment_file
from quorate.storage.recovery import Note, ScanPosition, TornTail, scan, where_it_starts
from quorate.storage.segment import Segment
from quorate.wire.batch import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The log's open segments, one at least, and the epochs of their batches from the log start on.

    `end` is the end of the last batch (exclusive) with its epoch; all before it is on the disk. `torn` is the torn tail
    that was cut off, or None.
    """

    segments: list[Segment]
    epochs: EpochCache
    end: OffsetAndEpoch
    torn: TornTail | None


def open_segments(
    directory: Path,
    checkpoints: list[OffsetAndEpoch],
    *,
    listed: Sequence[tuple[Epoch, Offset]],
    durable: Offset,
    seen: Note | None,
) -> Opened:
    """Opens all segments of a partition directory, or creates the first; `seen` is called with each batch of the log.

    Each batch is checked, a torn tail is cut off, and the rest is flushed. `checkpoints` are the directory's snapshots,
    `listed` the entries of leader-epoch-checkpoint; the log was known to be on disk below `durable`. Raises Corrupt for
    damage, naming file, position and offset; then nothing is left open.
    """
    bases = segment_bases(directory) or [0]
    floor = where_it_starts(directory, bases[0], checkpoints)
    course = ScanPosition(bases[0], floor=floor, listed=listed, durable=durable)
    opening = _Opening(directory, EpochCache(floor=floor), seen)
    try:
        for base in bases:
            opening.scan_segment(base, course, is_last=base == bases[-1])
        opening.make_durable(course)
    except BaseException:
        for segment in opening.segments:
            segment.close()
        raise
    end = OffsetAndEpoch(epoch=course.epoch, offset=course.offset)
    return Opened(segments=opening.segments, epochs=opening.epochs, end=end, torn=opening.torn)


class _Opening:
    """The segments that are open so far."""

    def __init__(self, directory: Path, epochs: EpochCache, seen: Note | None) -> None:
        self.segments: list[Segment] = []
        self.epochs = epochs
        self.torn: TornTail | None = None
        self._directory = directory
        self._seen = seen

    def scan_segment(self, base: Offset, course: ScanPosition, *, is_last: bool) -> None:
        path = segment_file(self._directory, base, LOG)
        if base != course.offset:
            why = f"the segment at offset {base} follows one that ends at {course.offset}"
            raise Corrupt(why, path=path, position=0)
        segment = Segment(self._directory, base)
        self.segments.append(segment)
        floor = self.epochs.floor.offset

        def note(header: BatchHeader, data: bytes) -> None:
            segment.note(header)
            if header.next_offset > floor:
                self.epochs.assign(epoch=header.epoch, start_offset=max(header.base_offset, floor))
                if self._seen is not None:
                    self._seen(header, data)

        data, unread = segment.read_all()
        try:
            torn = scan(data, path, course, is_last=is_last, note=note)
        except Corrupt:
            if unread is None:
                raise
        if unread is not None:
            raise Corrupt(f"offset {course.offset}: {unread.reason}", path=path, position=segment.size)
        if torn is not None:
            self.torn = torn
            segment.truncate(torn.position, end=torn.offset)
        if not is_last:
            segment.seal()

    def make_durable(self, course: ScanPosition) -> None:
        last = self.segments[-1]
        if course.offset < course.durable:
            why = f"the log ends at offset {course.offset}, and was known to be on disk below {course.durable}"
            raise Corrupt(why, path=last.path, position=last.size)
        # The batches that the scan has read may be in the page cache alone: after a kill, or, in the last segment, a
        # failed fsync.
        last.rewrite(last.position_of(max(course.durable, last.base_offset)))
        for segment in self.segments:
            segment.flush()
        sync_directory(self._directory)
