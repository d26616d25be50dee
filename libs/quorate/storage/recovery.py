"""The scan at start: every batch is checked, a torn tail is cut, rot is named (reliability: disk-fault contract).

The end of a log may be torn: what was being written when the power went was never acknowledged. Anything else that does
not check is damage to what others rely on, and is never answered over. They are told apart by three signs, each
of which means damage: the bad batch lies below the durable mark, another segment follows, or a sound batch does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.storage.names import LEADER_EPOCHS
from quorate.wire.batch import HEADER_BYTES, MAGIC, BatchHeader, check_batch, read_header

MAGIC_POSITION: Final = 16

Note = Callable[[BatchHeader, bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TornTail:
    """What was cut off: from this position of a file on, because of this."""

    path: Path
    position: int
    size: int
    offset: Offset
    reason: str


class Course:
    """Where the scan is: the next batch begins at `offset`, in no earlier epoch than `epoch`.

    From the `floor` on the log goes on from a checkpoint; what lies before is left over. `listed` are the epochs of
    leader-epoch-checkpoint, which knows all from its first one on. Where they begin may lie before the first segment:
    a crash came between the removal of older ones and the rewriting of that file, which a JVM puts off as well.
    """

    def __init__(
        self, offset: Offset, *, floor: OffsetAndEpoch, listed: Sequence[tuple[Epoch, Offset]], durable: Offset
    ) -> None:
        self.offset = offset
        self.epoch: Epoch = floor.epoch if offset >= floor.offset else 0
        self.durable = durable
        self._floor = floor
        self._listed = listed

    def take(self, header: BatchHeader, position: int) -> None:
        """The next batch: it follows without a gap, in an epoch that has been. Raises Corrupt."""
        base, epoch = header.base_offset, header.epoch
        if base != self.offset:
            raise Corrupt(f"batch at offset {base}, where offset {self.offset} follows", position=position)
        if header.count != header.last_offset_delta + 1:
            why = f"batch at offset {base} has {header.count} records up to offset {header.last_offset}"
            raise Corrupt(why, position=position)
        lowest = max(self.epoch, self._floor.epoch) if header.next_offset > self._floor.offset else self.epoch
        if epoch < lowest:
            raise Corrupt(f"batch at offset {base} of epoch {epoch}, after epoch {lowest}", position=position)
        listed = self._listed_epoch(base)
        if listed is not None and epoch != listed:
            why = f"batch at offset {base} of epoch {epoch}, where {LEADER_EPOCHS} lists epoch {listed}"
            raise Corrupt(why, position=position)
        self.offset, self.epoch = header.next_offset, epoch

    def _listed_epoch(self, offset: Offset) -> Epoch | None:
        at = bisect_right(self._listed, offset, key=lambda entry: entry[1]) - 1
        return self._listed[at][0] if at >= 0 else None


def scan(data: bytes | mmap, path: Path, course: Course, *, is_last: bool, note: Note) -> TornTail | None:
    """Check the batches of one segment and tell `note` of each, with its bytes.

    Answers with the torn tail if the last segment has one. For damage it raises Corrupt, naming file and position.
    """
    position, size = 0, len(data)
    while position < size:
        try:
            header = check_batch(data, position)
            course.take(header, position)
        except Corrupt as damage:
            why = _why_not_torn(data, position, course, is_last=is_last)
            if why is not None:
                raise Corrupt(f"offset {course.offset}: {damage.reason}; {why}", path=path, position=position) from None
            return TornTail(
                path=path, position=position, size=size - position, offset=course.offset, reason=damage.reason
            )
        end = position + header.size
        note(header, data[position:end])
        position = end
    return None


def _why_not_torn(data: bytes | mmap, position: int, course: Course, *, is_last: bool) -> str | None:
    """Why the bytes from `position` on are damage and no torn tail; None if they may be one."""
    if course.offset < course.durable:
        return f"the log was known to be on disk below offset {course.durable}"
    if not is_last:
        return "another segment follows"
    later = _sound_batch_after(data, position, course.offset)
    return None if later is None else f"a sound batch at offset {later.base_offset} follows"


def _sound_batch_after(data: bytes | mmap, position: int, offset: Offset) -> BatchHeader | None:
    """The first batch after `position` that checks and lies at `offset` or beyond."""
    furthest = offset + len(data)  # a record takes more than a byte; this spares most checksums of mere noise
    at = data.find(MAGIC_BYTE, position + 1 + MAGIC_POSITION)
    while at != -1 and len(data) - (at - MAGIC_POSITION) >= HEADER_BYTES:
        try:
            header = read_header(data, at - MAGIC_POSITION)
            if offset <= header.base_offset <= furthest:
                return check_batch(data, at - MAGIC_POSITION)
        except Corrupt:
            pass
        at = data.find(MAGIC_BYTE, at + 1)
    return None


MAGIC_BYTE: Final = bytes((MAGIC,))
