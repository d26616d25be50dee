"""Opens the segments of a data partition: what is certain is trusted, the rest is checked batch by batch.

Certain is everything after a clean stop, and what lies below the recovery point, up to which the log was flushed. Above
it a bad batch is the torn tail of an unclean stop: it is cut off with all that follows, as in Kafka, and the leader has
it. Below it a bad batch is damage: the log is not opened, since a replica that forgot what it had acknowledged could be
elected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    """What was found: the segments, the last of which is appended to, the epochs, and the torn tail that was cut."""

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
    """Opens a partition's directory; one without segments begins at `log_start`. Raises Corrupt for damage."""
    _remove_leftovers(directory)
    listed = EpochsFile(directory).read()
    found = Recovered(epochs=_epochs(listed, log_start))
    bases = segment_bases(directory)
    try:
        for base in bases or [log_start]:
            found.segments.append(Segment(directory, base, index_interval_bytes=index_interval_bytes, files=files))
            found.segments[-1].share()
        _read(found, clean=clean, recovery_point=recovery_point, has_epochs=bool(listed))
        found.segments[-1].reopen()
        if found.segments[-1].next_offset < log_start:  # all that is left was deleted by the log start
            _retire(found.segments)
            found.segments.append(Segment(directory, log_start, index_interval_bytes=index_interval_bytes, files=files))
        start, leo = max(log_start, found.segments[0].base_offset), found.segments[-1].next_offset
        _trim(found.epochs, start, leo)
    except BaseException:
        for segment in found.segments:
            segment.close()
        raise
    return found


def _read(found: Recovered, *, clean: bool, recovery_point: Offset, has_epochs: bool) -> None:
    """Trusts or scans each segment; after a torn tail the later ones are removed."""
    bases = [segment.base_offset for segment in found.segments]
    for at, segment in enumerate(found.segments):
        is_sure = clean or (at + 1 < len(bases) and bases[at + 1] <= recovery_point)
        if is_sure and segment.trust():
            if not has_epochs:
                _note_epochs(found.epochs, (header for _, header in segment.headers()), segment)
            continue
        try:
            _note_epochs(found.epochs, segment.scan(), segment)
        except Corrupt as damage:
            if is_sure or segment.next_offset < recovery_point:
                raise
            found.torn = _cut(segment, damage)
            later = found.segments[at + 1 :]
            del found.segments[at + 1 :]
            _retire(later)
            return


def _note_epochs(epochs: EpochCache, headers: Iterator[BatchHeader], segment: Segment) -> None:
    """Adds the epochs that leader-epoch-checkpoint lacks, and raises Corrupt for one that it has otherwise.

    A batch's checksum does not cover its epoch.
    """
    for header in headers:
        if header.epoch > epochs.last_epoch:
            epochs.assign(epoch=header.epoch, start_offset=max(header.base_offset, epochs.floor.offset))
        elif header.base_offset >= epochs.floor.offset and header.epoch != epochs.epoch_at(header.base_offset):
            listed = epochs.epoch_at(header.base_offset)
            why = f"the batch at offset {header.base_offset} has epoch {header.epoch}, {LEADER_EPOCHS} has {listed}"
            raise Corrupt(why, path=segment.path)


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
