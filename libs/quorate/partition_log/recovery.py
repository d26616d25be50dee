"""Opens the segments of a data partition: what is certain is trusted, the rest is checked batch by batch.

Certain is everything after a clean stop, and what lies below the recovery point, up to which the log was flushed. Above
it a bad batch is the torn tail of an unclean stop: it is cut off with all that follows, as in Kafka, and the leader has
it. Below it a bad batch is damage: the log is not opened, since a replica that forgot what it had acknowledged could be
elected. Above it any segment may be torn, not the last one alone: files reach the disk in no order, so a power cut may
leave a later one whole. Full segments are flushed as they are full, so that little lies above it.
A whole batch of an epoch that it cannot have is damage anywhere: no unclean stop leaves that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from quorate.epochs import EpochCache
from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.partition_log.open_files import OpenFiles
from quorate.partition_log.segment import Segment
from quorate.replication.log import NO_EPOCH, cut_epochs
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.names import DELETED, LEADER_EPOCHS, segment_bases
from quorate.storage.recovery import TornTail
from quorate.wire.batch import BatchHeader

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
"""The suffixes of segments that a JVM's log cleaner was writing, and was putting in place."""


@dataclass(slots=True, kw_only=True)
class Recovered:
    """The result of a recovery: the segments, the last of which is appended to, the epochs, and the torn tail that was
    cut."""

    segments: list[Segment] = field(default_factory=list)
    epochs: EpochCache
    torn: TornTail | None = None


def recover(
    directory: Path,
    *,
    clean: bool,
    recovery_point: Offset,
    log_start: Offset,
    index_interval_bytes: int,
    files: OpenFiles,
) -> Recovered:
    """Opens the segments of a partition's directory; without any, the log begins at `log_start`. Raises Corrupt.

    With `clean` all is trusted. Else the last segment, and each other one that reaches above `recovery_point`, is read:
    a torn tail is cut off, with all segments after it. Files that a compaction or a deletion has left are removed.
    """
    _remove_leftovers(directory)
    epochs_file = EpochsFile(directory)
    listed = epochs_file.read()
    epochs = _Epochs(listed, log_start)
    found = Recovered(epochs=epochs.cache)
    bases = segment_bases(directory)
    try:
        for base in bases or [log_start]:
            found.segments.append(Segment(directory, base, index_interval_bytes=index_interval_bytes, files=files))
            found.segments[-1].share()
        _read(found, epochs, clean=clean, recovery_point=recovery_point)
        epochs.take_listed()
        found.segments[-1].reopen()
        if found.segments[-1].next_offset < log_start:  # all that is left was deleted by the log start
            _retire(found.segments)
            found.segments.append(Segment(directory, log_start, index_interval_bytes=index_interval_bytes, files=files))
        start, leo = max(log_start, found.segments[0].base_offset), found.segments[-1].next_offset
        _trim(found.epochs, start, leo)
        if any(start >= leo for _, start in listed):  # of records that are lost: those to come are of other epochs
            epochs_file.write([each for each in found.epochs.entries if each[0] >= 0], leo=leo)
    except BaseException:
        for segment in found.segments:
            segment.close()
        raise
    return found


def _read(found: Recovered, epochs: _Epochs, *, clean: bool, recovery_point: Offset) -> None:
    """Trusts or scans each segment; after a torn tail the later ones are removed."""
    bases = [segment.base_offset for segment in found.segments]
    for at, segment in enumerate(found.segments):
        is_sure = clean or (at + 1 < len(bases) and bases[at + 1] <= recovery_point)
        if is_sure and segment.trust():
            if not epochs.has(segment.base_offset):
                epochs.note(segment.headers(), segment.path)
            continue
        try:
            epochs.note(((segment.size - header.size, header) for header in segment.scan()), segment.path)
        except Corrupt as damage:
            if is_sure or segment.next_offset < recovery_point or isinstance(damage, _WrongEpoch):
                raise
            found.torn = _cut(segment, damage)
            later = found.segments[at + 1 :]
            del found.segments[at + 1 :]
            _retire(later)
            return


class _WrongEpoch(Corrupt):
    """A whole batch has another epoch than was written: its checksum does not cover that."""


class _Epochs:
    """The epochs of a log: what leader-epoch-checkpoint lists, and of the batches what it lacks.

    From its first entry on the file is complete but for what follows it. Before that entry it says nothing: it is
    written at once when the log start is raised, and the log start itself is not, so a start may find records from
    before. Those have the epochs that their batches say.
    """

    def __init__(self, listed: tuple[tuple[Epoch, Offset], ...], log_start: Offset) -> None:
        self._is_listed = bool(listed)
        self._ahead = listed if listed and listed[0][1] > log_start else ()
        """The entries, until a batch is reached of which they say something."""
        self.cache = _epochs(() if self._ahead else listed, log_start)

    def has(self, offset: Offset) -> bool:
        """Returns whether the epochs from `offset` on are known without a look at the batches."""
        return self._is_listed and not (self._ahead and offset < self._ahead[0][1])

    def note(self, headers: Iterable[tuple[int, BatchHeader]], path: Path) -> None:
        """Takes the batches of a segment, each with its position. Raises _WrongEpoch."""
        for position, header in headers:
            if self._ahead and header.base_offset >= self._ahead[0][1]:
                self.take_listed()
            if (why := self._why_wrong(header)) is not None:
                why = f"the batch at offset {header.base_offset} has epoch {header.epoch}, {why}"
                raise _WrongEpoch(why, path=path, position=position)
            if header.epoch > self.cache.last_epoch:
                start = max(header.base_offset, self.cache.floor.offset)
                self.cache.assign(epoch=header.epoch, start_offset=start)

    def take_listed(self) -> None:
        """Notes the entries of the file: what follows is compared with them."""
        for epoch, start in self._ahead:
            self.cache.assign(epoch=epoch, start_offset=start)
        self._ahead = ()

    def _why_wrong(self, header: BatchHeader) -> str | None:
        """Returns what else the epoch of a batch should be; None if it may be what it is."""
        if self._ahead:
            epoch, start = self._ahead[0]
            return f"{LEADER_EPOCHS} has {epoch} from offset {start} on" if header.epoch > epoch else None
        cache = self.cache
        if header.epoch > cache.last_epoch or header.base_offset < cache.floor.offset:
            return None
        listed = cache.epoch_at(header.base_offset)
        return None if header.epoch == listed else f"{LEADER_EPOCHS} has {listed}"


def _cut(segment: Segment, damage: Corrupt) -> TornTail:
    position = segment.size
    size = segment.cut_file()
    return TornTail(path=segment.path, position=position, size=size, offset=segment.next_offset, reason=damage.reason)


def _retire(segments: list[Segment]) -> None:
    while segments:
        segment = segments.pop()
        segment.retire()
        segment.close()


def _epochs(entries: tuple[tuple[Epoch, Offset], ...], log_start: Offset) -> EpochCache:
    """The cache of a leader-epoch-checkpoint; its floor has the epoch of the record at the log start."""
    below = [epoch for epoch, start in entries if start <= log_start]
    floor = OffsetAndEpoch(epoch=below[-1] if below else NO_EPOCH, offset=log_start)
    return EpochCache([(epoch, start) for epoch, start in entries if start > log_start], floor=floor)


def _trim(epochs: EpochCache, start: Offset, leo: Offset) -> None:
    if start > epochs.floor.offset:
        epochs.start_at(OffsetAndEpoch(epoch=epochs.epoch_at(start), offset=start))
    cut_epochs(epochs, to=max(leo, epochs.floor.offset))


def _remove_leftovers(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name.endswith((DELETED, CLEANED)):
            os.unlink(path)
        elif path.name.endswith(SWAP):
            why = "a compaction was not finished: start a Kafka broker on the directory once, or remove the partition"
            raise Corrupt(why, path=path)
