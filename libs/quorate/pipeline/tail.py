"""Tails the log of a directory with cursors: segments grow, roll, are truncated, and are removed.

A cursor always stands behind a batch whose checksum and offset are right, so the same damage is never read from
two cursors and is reported once. Bytes behind the last such batch may still be half written: they are damage only
once the file has not changed for the settle time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset
from quorate.pipeline import files
from quorate.pipeline.files import Buffer, size_of
from quorate.pipeline.log_files import HALF, LOG_KIND, LogFile
from quorate.storage.recovery import sound_batch_after
from quorate.wire.batch import check_batch, peek_header

__all__ = ["Cursor", "Directory", "EpochWentBack", "TailSettings", "advance", "directories", "resume", "walk"]


EPOCHS_MAX: Final = 32
"""How many epochs a cursor knows: a truncation takes away what was not committed, which is of the last few."""


class EpochWentBack(Exception):
    """A returned record was replaced by one of an earlier epoch: the directory holds another log now."""


class Cursor(NamedTuple):
    """A position in a directory's log: every record below `offset` has been returned; `epoch` is that of the last one.

    `epoch` is -1 before the first record. `position` is the byte behind that record's batch in file `segment`, `last`
    the byte at which the batch begins, -1 if none of this segment was read. With `is_torn` the bytes behind `position`
    were reported as damage. `checkpoint` is the name of the last checkpoint that was returned, `half` that of the last
    unfinished checkpoint that was reported. `epochs` are those of the returned records, the last EPOCHS_MAX, as text:
    `epoch@first offset`, by commas.
    """

    offset: Offset = 0
    epoch: Epoch = -1
    segment: str = ""
    position: int = 0
    last: int = -1
    is_torn: bool = False
    checkpoint: str = ""
    half: str = ""
    epochs: str = ""


class Directory(NamedTuple):
    """The files of one cluster in one directory: segments, checkpoints, unfinished checkpoints, each sorted by name."""

    path: str
    cluster_id: str
    segments: tuple[LogFile, ...]
    checkpoints: tuple[LogFile, ...]
    halves: tuple[LogFile, ...]


class TailSettings(NamedTuple):
    """Decides which bytes of the files count.

    `is_settled` says whether a file is old enough that no more bytes are expected. `sizes` limits reading to the files
    and sizes of an earlier moment; a file that is not in it counts as empty.
    """

    is_settled: Callable[[LogFile], bool]
    sizes: Mapping[str, int] | None = None


def directories(places: Iterable[LogFile]) -> list[Directory]:
    """Groups files by directory and cluster; they are in the order in which `find` lists them."""
    found = []
    for (path, cluster_id), group in groupby(
        places, key=lambda place: (str(Path(place.path).parent), place.cluster_id)
    ):
        every = sorted(group, key=name_of)
        segments = tuple(place for place in every if place.kind == LOG_KIND)
        snapshots = [place for place in every if place.kind != LOG_KIND]
        whole = tuple(place for place in snapshots if place.problem != HALF)
        found.append(
            Directory(path, cluster_id, segments, whole, tuple(each for each in snapshots if each not in whole))
        )
    assert len(found) == len({each[:2] for each in found}), [each[:2] for each in found]
    return found


def name_of(place: LogFile) -> str:
    """Returns the file's name. Within one directory the order of names is the order of offsets."""
    return Path(place.path).name


def advance(directory: Directory, at: Cursor, look: TailSettings, *, limit: int) -> Cursor:
    """Returns the cursor behind about `limit` more offsets: at least one batch, and batches and checkpoints stay whole.

    Returns `at` itself if there is nothing new. Raises EpochWentBack, naming cluster, offset and both epochs.
    """
    reached = _log_end(directory, at, look, limit)
    room = limit - max(0, reached.offset - at.offset)
    for place in directory.checkpoints:
        if name_of(place) <= at.checkpoint:
            continue
        if room <= 0:
            break
        size = 1 if place.problem else _record_count(place, look)
        if size is None:
            break
        room -= size
        reached = reached._replace(checkpoint=name_of(place))
    for place in directory.halves:
        if name_of(place) <= reached.half:
            continue
        if not look.is_settled(place):
            break  # passing it now would mean that it is never reported
        reached = reached._replace(half=name_of(place))
    return reached


def resume(directory: Directory, at: Cursor) -> Cursor | None:
    """Returns the cursor from which reading continues after `at`; None if the next offset is not there yet.

    If segments were removed, it continues in another one. If a later leader replaced records that were returned, it
    continues from the offset where the logs part, or from the log's start if the epochs that `at` knows do not tell.
    Raises EpochWentBack.
    """
    if not directory.segments:
        return None
    if not at.segment:
        return _start(directory, at)
    place = next((each for each in directory.segments if name_of(each) == at.segment), None)
    return at if place is not None and _is_as_it_was(place, at) else _found_again(directory, at)


def walk(segments: Sequence[LogFile], at: Cursor, look: TailSettings) -> Iterator[Cursor]:
    """Yields a cursor behind each valid batch from `at` on: its checksum is right, its epoch no lower than the last.

    Damaged bytes are passed over: it goes on with the next valid batch behind them, whose offset may be higher. Batches
    with a lower offset or epoch than the last are skipped. Where a segment begins at a higher offset, it stops before
    that segment until it has settled. Raises OSError.
    """
    for place in segments:
        name = name_of(place)
        if name < at.segment:
            continue
        if name > at.segment and place.base_offset > at.offset and not look.is_settled(place):
            return
        position = at.position if name == at.segment else 0
        with opened(place, look, position) as data:
            while position < len(data):
                try:
                    header = check_batch(data, position)
                except Corrupt:
                    found = sound_batch_after(data, position, at.offset + 1)
                    position = len(data) if found is None else found[0]
                    continue
                if header.base_offset >= at.offset and header.epoch >= at.epoch:
                    at = at._replace(
                        epochs=_with_epoch(at, header.epoch, header.base_offset),
                        offset=header.next_offset,
                        epoch=header.epoch,
                        segment=name,
                        position=position + header.size,
                        last=position,
                        is_torn=False,
                    )
                    yield at
                position += header.size


@contextmanager
def opened(place: LogFile, look: TailSettings, start: int = 0) -> Iterator[Buffer]:
    """Opens a segment or checkpoint as a context manager and yields its bytes, at most as many as `look` allows.

    The bytes before `start` may be zeros.
    """
    size = None if look.sizes is None else look.sizes.get(place.path, 0)
    with files.opened(place.path, place.access, start=start, size_max=size) as data:
        yield data


def _size(place: LogFile, look: TailSettings, size: int) -> int:
    return size if look.sizes is None else min(size, look.sizes.get(place.path, 0))


def _start(directory: Directory, at: Cursor) -> Cursor:
    first = directory.segments[0]
    return Cursor(first.base_offset, segment=name_of(first), checkpoint=at.checkpoint, half=at.half)


def _log_end(directory: Directory, at: Cursor, look: TailSettings, limit: int) -> Cursor:
    segments = directory.segments
    if segments and segments[0].problem is not None:
        return at._replace(segment=max(at.segment, name_of(segments[-1])))
    begin = resume(directory, at)
    if begin is None:
        return at
    reached = begin
    for reached in walk(segments, begin, look):
        if reached.offset - begin.offset >= limit:
            return reached
    if not reached.is_torn and _has_rest(segments, reached, look):
        return reached._replace(is_torn=True)
    return reached


def _has_rest(segments: Sequence[LogFile], at: Cursor, look: TailSettings) -> bool:
    """Returns whether bytes behind the last undamaged batch are damage: all files that hold them have settled."""
    sizes = {name_of(place): _size(place, look, size_of(place.path, place.access)) for place in segments}
    rest = sum(size for name, size in sizes.items() if name >= at.segment) - at.position
    return rest > 0 and all(look.is_settled(place) for place in segments if name_of(place) >= at.segment)


def _is_as_it_was(place: LogFile, at: Cursor) -> bool:
    """Returns whether the batch before the cursor still lies at the same bytes, with the same offsets and epoch."""
    if at.last < 0:
        return True
    with files.opened(place.path, place.access, start=at.last, end=at.position) as data:
        head = data[at.last : at.position]
    try:
        header = peek_header(head)
    except Corrupt:
        return False
    return (header.next_offset, header.epoch, header.size) == (at.offset, at.epoch, at.position - at.last) and (
        header.size <= len(head)
    )


def _found_again(directory: Directory, at: Cursor) -> Cursor | None:
    """Finds the cursor from which to continue in a log whose segments were removed or whose end was replaced.

    Returns None if the log does not reach `at` yet. Raises EpochWentBack.
    """
    start = _start(directory, at)
    if start.offset >= at.offset:
        return at._replace(segment=start.segment, position=0, last=-1, is_torn=False)
    known = _Epochs(at)
    end = same = start
    parts, covering = False, None
    for end in walk(directory.segments, start, TailSettings(lambda _: True)):
        parts = parts or (covering is None and known.differ(end))
        if not parts and end.offset <= at.offset:
            same = end
        if covering is None and end.offset >= at.offset:
            covering = end
    if end.epoch > at.epoch and parts:
        return same if known.reach(same) else start
    if covering is None:
        return None
    if covering.epoch < at.epoch:
        raise EpochWentBack(
            f"cluster {directory.cluster_id}: epoch went back at offset {at.offset - 1}: {directory.path} has it of "
            f"epoch {covering.epoch}, and it was given out of epoch {at.epoch}"
        )
    return covering if covering.offset == at.offset else start


class _Epochs:
    """The epochs of what was returned up to a cursor. Equal epoch and offset are the same record (KIP-595)."""

    def __init__(self, at: Cursor) -> None:
        pairs = [tuple(map(int, each.split("@"))) for each in at.epochs.split(",") if each]
        self._epochs = [epoch for epoch, _ in pairs] or [at.epoch]
        self._starts = [start for _, start in pairs] or [at.offset - 1]

    def differ(self, behind: Cursor) -> bool:
        """Returns whether the last batch before a cursor is of another epoch than what was returned of its offsets."""
        place = bisect_right(self._starts, behind.offset - 1) - 1
        return place >= 0 and behind.epoch != self._epochs[place]

    def reach(self, same: Cursor) -> bool:
        """Returns whether a record before this cursor was compared: else the logs may part at an earlier one."""
        return same.offset > self._starts[0]


def _with_epoch(at: Cursor, epoch: Epoch, offset: Offset) -> str:
    if epoch == at.epoch and at.epochs:
        return at.epochs
    return ",".join([*(each for each in at.epochs.split(",") if each), f"{epoch}@{offset}"][-EPOCHS_MAX:])


def _record_count(place: LogFile, look: TailSettings) -> int | None:
    """Counts the records of a checkpoint from its batch headers; None if it may not be complete yet."""
    count = position = 0
    ends_well = False
    with opened(place, look) as data:
        size = len(data)
        try:
            while position < size:
                header = peek_header(data, position)
                count, position, ends_well = header.next_offset, position + header.size, header.is_control
        except Corrupt:
            ends_well = False
    if ends_well and position == size:
        return max(1, count)
    return max(1, count) if look.is_settled(place) else None
