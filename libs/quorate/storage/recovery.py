"""Recovery scan at start: checks every batch, cuts a torn tail, and reports damage (reliability: disk-fault contract).

A power loss may tear the end of the log; such a batch was never acknowledged. Any other bad batch is damage to records
that others rely on, and must stop the node. Three signs show damage, and each is enough: the bad batch lies below the
durable mark, another segment follows, or a sound batch follows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import Final

from kraft import Uuid
from quorate.errors import Corrupt
from quorate.nouns import METADATA_TOPIC_ID, Epoch, Offset, OffsetAndEpoch, uuid_text
from quorate.storage.files import replace_whole
from quorate.storage.names import LEADER_EPOCHS, LOG, PARTITION_METADATA, segment_file
from quorate.wire.batch import BatchHeader, check_batch, read_header

NO_PRODUCER: Final = b"\xff" * 14 + b"\0"
"""Header bytes that every batch of a metadata log has and that are rare elsewhere: producer id, epoch and sequence
are -1, and a record count below 2^24 follows. A search for them skips other bytes at full speed.
"""
NO_PRODUCER_POSITION: Final = 43

Note = Callable[[BatchHeader, bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TornTail:
    """A torn tail that was cut off: its file, position, size in bytes, first offset, and why it is not valid."""

    path: Path
    position: int
    size: int
    offset: Offset
    reason: str


class ScanPosition:
    """The position of the recovery scan: the next batch must begin at `offset`, and its epoch be at least `epoch`.

    The log continues a checkpoint from `floor` on; records before it are leftovers. `listed` are the entries of
    leader-epoch-checkpoint, complete from its first entry on. They may begin before the first segment: a crash came
    between the removal of older segments and the rewrite of that file, which a JVM delays as well.
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
        """Advances over the next batch. Raises Corrupt for an offset gap, or an epoch that is lower or not listed."""
        base, epoch, end = header.base_offset, header.epoch, header.next_offset
        if base != self.offset:
            raise Corrupt(f"batch at offset {base}, where offset {self.offset} follows", position=position)
        if header.count != end - base:
            why = f"batch at offset {base} has {header.count} records up to offset {header.last_offset}"
            raise Corrupt(why, position=position)
        lowest = max(self.epoch, self._floor.epoch) if end > self._floor.offset else self.epoch
        if epoch < lowest:
            raise Corrupt(f"batch at offset {base} of epoch {epoch}, after epoch {lowest}", position=position)
        listed = self._listed_epoch(base)
        if listed is not None and epoch != listed:
            why = f"batch at offset {base} of epoch {epoch}, where {LEADER_EPOCHS} lists epoch {listed}"
            raise Corrupt(why, position=position)
        self.offset, self.epoch = end, epoch

    def _listed_epoch(self, offset: Offset) -> Epoch | None:
        at = bisect_right(self._listed, offset, key=lambda entry: entry[1]) - 1
        return self._listed[at][0] if at >= 0 else None


def scan(data: bytes | mmap, path: Path, course: ScanPosition, *, is_last: bool, note: Note) -> TornTail | None:
    """Checks every batch of one segment, advances `course`, and calls `note` with each batch's header and bytes.

    Returns the torn tail if the last segment has one, for the caller to cut off, else None. Raises Corrupt for damage,
    naming file and position.
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
    assert position == size, (position, size)
    return None


def _why_not_torn(data: bytes | mmap, position: int, course: ScanPosition, *, is_last: bool) -> str | None:
    """Returns why the bytes from `position` on are damage and no torn tail; None if they may be a torn tail."""
    if course.offset < course.durable:
        return f"the log was known to be on disk below offset {course.durable}"
    if not is_last:
        return "another segment follows"
    later = sound_batch_after(data, position, course.offset)
    return None if later is None else f"a sound batch at offset {later[1].base_offset} follows"


def sound_batch_after(data: bytes | mmap, position: int, offset: Offset) -> tuple[int, BatchHeader] | None:
    """Returns position and header of the first valid batch after `position` with base offset `offset` or higher.

    None if there is none.
    """
    furthest = offset + len(data)  # a record takes more than a byte; this limit saves most checksums of random bytes
    at = data.find(NO_PRODUCER, position + 1 + NO_PRODUCER_POSITION)
    while at != -1:
        try:
            header = read_header(data, at - NO_PRODUCER_POSITION)
            if offset <= header.base_offset <= furthest:
                return at - NO_PRODUCER_POSITION, check_batch(data, at - NO_PRODUCER_POSITION)
        except Corrupt:
            pass
        at = data.find(NO_PRODUCER, at + 1)
    return None


def where_it_starts(directory: Path, first_base: Offset, checkpoints: list[OffsetAndEpoch]) -> OffsetAndEpoch:
    """Returns the log start offset and its epoch: 0, or the end of the earliest checkpoint at or after `first_base`.

    Raises Corrupt if the log begins above 0 and there is no such checkpoint.
    """
    if first_base == 0:
        return OffsetAndEpoch(epoch=0, offset=0)
    for snapshot in checkpoints:
        if snapshot.offset >= first_base:
            return snapshot
    why = f"the log begins at offset {first_base}, and there is no checkpoint of what lies before"
    raise Corrupt(why, path=segment_file(directory, first_base, LOG), position=0)


def check_topic(directory: Path, topic_id: Uuid = METADATA_TOPIC_ID) -> None:
    """Checks that `partition.metadata` names this topic, and creates a missing file. Raises Corrupt."""
    path = directory / PARTITION_METADATA
    expected = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        replace_whole(path, expected.encode("ascii"))
        return
    if found.split() != expected.encode("ascii").split():
        # A crash can leave the file empty; it holds nothing that the directory's name does not say.
        what = "remove the file, and a start makes it anew" if not found.strip(b"\0 \n") else "it is another topic's"
        whose = "the metadata topic's" if topic_id == METADATA_TOPIC_ID else "this topic's"
        raise Corrupt(f"{found!r} is not {whose}, {expected!r}: {what}", path=path)
