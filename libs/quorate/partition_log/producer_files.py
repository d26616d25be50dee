"""A log's files of its producers, beside the batches: snapshots at the segments' bases, and the aborted transactions.

A snapshot spares a start the batches before it. It is not synced: one that a crash has spoiled is left out for an
earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.partition_log.aborted import Aborted, append_aborted, cut_aborted, is_sound, read_aborted
from quorate.partition_log.markers import Marker, marker_in
from quorate.partition_log.names import ABORTED, producer_snapshots, producers_file
from quorate.partition_log.producers import Producers
from quorate.partition_log.segment import Segment
from quorate.wire.batch import BatchHeader


class ProducerFiles:
    """The producers of one log, and their files in its directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.state = Producers()

    def count(self, header: BatchHeader, marker: Marker | None, segment: Segment) -> None:
        """Notes a batch that `segment` has just got, and its marker; an abort gets into the segment's index."""
        if not header.is_control:
            self.state.note(header)
        elif marker is not None:
            decided = self.state.note_marker(header, aborts=marker.aborts, coordinator_epoch=marker.coordinator_epoch)
            if decided is not None and decided.aborted:
                stable = self.state.last_stable_at(decided)
                entry = Aborted(decided.producer_id, decided.first_offset, decided.last_offset, stable)
                append_aborted(segment.path.with_suffix(ABORTED), entry)

    def load(self, segments: Sequence[Segment], *, start: Offset, leo: Offset, flushed: Offset) -> None:
        """Rebuilds the state of the producers from the latest sound producer snapshot and the batches after it.

        An index of aborted transactions that a crash may have spoiled, or that is spoiled, is made anew, from the
        beginning of its segment: all of the files is on the disk for certain below `flushed`. The parts of snapshots
        and indexes for records at `leo` or above, which were truncated or lost, are removed. Raises Corrupt, naming
        file and byte, for a control batch that is none.
        """
        self._remove(offset for offset in producer_snapshots(self._directory) if offset > leo)
        spoiled = [
            segment
            for segment in segments
            if segment.next_offset > flushed or not is_sound(segment.path.with_suffix(ABORTED), segment.base_offset)
        ]
        for segment in spoiled:
            segment.path.with_suffix(ABORTED).unlink(missing_ok=True)
        self.state, at = self._latest(min([leo, *(segment.base_offset for segment in spoiled)]), start)
        ends = [*(segment.base_offset for segment in segments[1:]), leo]
        for segment, end in zip(segments, ends, strict=True):
            cut_aborted(segment.path.with_suffix(ABORTED), to=at)
            if end <= at:
                continue
            for position, header in segment.headers(segment.position_of(at)):
                self.count(header, _marker_at(segment, position, header), segment)

    def snapshot(self, leo: Offset) -> None:
        """Writes a producer snapshot: the present state, at the log's end `leo`. It is not synced."""
        producers_file(self._directory, leo).write_bytes(self.state.encode())

    def forget_all(self) -> None:
        """Removes all snapshots from the disk: the log restarts elsewhere. The state in memory stays."""
        self._remove(producer_snapshots(self._directory))

    def keep_for(self, segments: Sequence[Segment], leo: Offset) -> None:
        """Removes the snapshots that lie at no segment's base and are not the latest."""
        kept = {segment.base_offset for segment in segments}
        found = producer_snapshots(self._directory)
        self._remove(offset for offset in found[:-1] if offset not in kept or offset > leo)

    def aborted(self, segments: Iterable[Segment], start: Offset, end: Offset) -> Iterator[Aborted]:
        """Yields the aborted transactions with records from `start` to `end` (exclusive), by their markers (R52)."""
        for segment in segments:
            for each in read_aborted(segment.path.with_suffix(ABORTED), since=start):
                if each.first_offset < end:
                    yield each
                if each.last_stable_offset >= end:
                    return

    def _latest(self, leo: Offset, start: Offset) -> tuple[Producers, Offset]:
        for offset in reversed([each for each in producer_snapshots(self._directory) if each <= leo]):
            try:
                return Producers.decode(producers_file(self._directory, offset).read_bytes()), offset
            except Corrupt:
                self._remove([offset])
        return Producers(), start

    def _remove(self, offsets: Iterable[Offset]) -> None:
        for offset in list(offsets):
            producers_file(self._directory, offset).unlink()


def _marker_at(segment: Segment, position: int, header: BatchHeader) -> Marker | None:
    if not header.is_control:
        return None
    try:
        return marker_in(header, segment.slice(position, position + header.size, 0).read())
    except Corrupt as damage:
        raise damage.at(segment.path, position) from None
