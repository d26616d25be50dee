"""Computes the file parts between two cursors: what one micro-batch of a stream reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.errors import Corrupt
from quorate.pipeline.files import size_of
from quorate.pipeline.log_files import PART_BYTES, FilePart, LogFile, parts
from quorate.pipeline.tail import Cursor, Directory, TailSettings, name_of, opened, resume, walk
from quorate.storage.recovery import sound_batch_after
from quorate.wire.batch import check_batch

__all__ = ["between"]

_ALL = TailSettings(lambda _: True)


def between(
    directory: Directory,
    start: Cursor,
    end: Cursor,
    *,
    part_bytes: int = PART_BYTES,
    tells_truncation: bool = True,
) -> Iterator[FilePart]:
    """Yields the parts from `start` to `end`. Repeated calls yield the same bytes as long as the files exist.

    If the files were removed meanwhile, yields a part with a `problem` in their place; with `tells_truncation` one,
    too, if a later leader truncated records that were returned. Raises EpochWentBack.
    """
    segments = directory.segments
    if segments and segments[0].problem is not None:
        whole_files = [place for place in segments if start.segment < name_of(place) <= end.segment]
    else:
        whole_files = []
        if _log_of(start) != _log_of(end):
            yield from _log(directory, start, end, part_bytes, tells_truncation=tells_truncation)
    whole_files += [place for place in directory.checkpoints if start.checkpoint < name_of(place) <= end.checkpoint]
    whole_files += [place for place in directory.halves if start.half < name_of(place) <= end.half]
    for place in whole_files:
        yield from parts(place, part_bytes=part_bytes)


def _log_of(cursor: Cursor) -> Cursor:
    return cursor._replace(checkpoint="", half="")


def _log(
    directory: Directory, start: Cursor, end: Cursor, part_bytes: int, *, tells_truncation: bool
) -> Iterator[FilePart]:
    begin = resume(directory, start)
    if begin is None:
        return
    if tells_truncation and begin.offset < start.offset:
        yield _truncated(directory.segments, begin, start)
    cutter = _Cutter(directory.segments, begin, part_bytes)
    reached = begin
    for each in walk(directory.segments, begin, _ALL):
        if each.offset > end.offset:
            break
        yield from cutter.take(each)
        reached = each
    yield from cutter.finish(reached, is_torn=end.is_torn and reached.offset == end.offset)
    if reached.offset < end.offset and start.offset < end.offset:
        yield from _removed(directory.segments, reached, end)


def _removed(segments: Sequence[LogFile], reached: Cursor, end: Cursor) -> Iterator[FilePart]:
    """Yields a part that reports offsets whose segments were removed before a repeated micro-batch could read them.

    Records that a later leader truncated are not reported: they are not part of the log.
    """
    first = segments[0]
    if first.base_offset >= end.offset:
        why = f"offsets {reached.offset} to {end.offset - 1} were removed before they were read"
        yield FilePart(first._replace(problem=why), 0, 0, reached.offset, False)


def _truncated(segments: Sequence[LogFile], begin: Cursor, start: Cursor) -> FilePart:
    place = next(each for each in segments if name_of(each) == begin.segment)
    why = (
        f"offsets {begin.offset} to {start.offset - 1} were returned before, and a later leader truncated some of them:"
        f" what follows is the log from offset {begin.offset} on"
    )
    return FilePart(place._replace(problem=why), 0, 0, begin.offset, False)


class _Cutter:
    """Cuts the segments behind a cursor into parts of about `part_bytes`, at batch boundaries."""

    def __init__(self, segments: Sequence[LogFile], begin: Cursor, part_bytes: int) -> None:
        self._places = {name_of(place): place for place in segments}
        self._part_bytes = part_bytes
        self._begin = begin

    def take(self, at: Cursor) -> Iterator[FilePart]:
        """Yields the parts that are complete once the walk has reached cursor `at`."""
        if at.segment != self._begin.segment:
            yield from self._roll(at.segment)
        assert self._begin.segment == at.segment, (self._begin, at)
        if at.position - self._begin.position >= self._part_bytes:
            yield from self._part(at.position, is_last=False)
            self._begin = at

    def finish(self, at: Cursor, *, is_torn: bool) -> Iterator[FilePart]:
        """Yields the remaining bytes up to `at`; with `is_torn` also all bytes behind it, which are damage."""
        if is_torn:
            yield from self._roll(max(self._places))
            yield from self._part(self._size(), is_last=True)
        else:
            yield from self._part(at.position, is_last=False)

    def _roll(self, to: str) -> Iterator[FilePart]:
        """Yields the remainder of each segment that lies before segment `to`."""
        for name in sorted(self._places):
            if self._begin.segment < name <= to:
                yield from self._part(self._size(), is_last=True)
                self._begin = Cursor(self._places[name].base_offset, self._begin.epoch, name)

    def _part(self, end: int, *, is_last: bool) -> Iterator[FilePart]:
        begin, place = self._begin, self._places[self._begin.segment]
        start, offset = (_behind_damage(place, begin)) if begin.is_torn else (begin.position, begin.offset)
        is_gap = is_last and offset is not None and place.following not in (None, offset)
        if start < end or (start == end and is_gap):
            yield FilePart(place, start, end, offset, is_last, epoch=begin.epoch)

    def _size(self) -> int:
        place = self._places[self._begin.segment]
        return size_of(place.path, place.access)


def _behind_damage(place: LogFile, at: Cursor) -> tuple[int, int | None]:
    """Finds the next undamaged batch behind damage that was already reported; returns its position and base offset.

    Without such a batch, returns the end of the file and None.
    """
    with opened(place, _ALL, at.position) as data:
        try:
            header = check_batch(data, at.position)
            if header.base_offset >= at.offset:
                return at.position, at.offset
        except Corrupt:
            pass
        found = sound_batch_after(data, at.position, at.offset + 1)
        return (len(data), None) if found is None else (found[0], found[1].base_offset)
