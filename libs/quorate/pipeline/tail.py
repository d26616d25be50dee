"""How far a directory's log has been given out, and how far it can be: files that grow, roll, are cut and removed.

A cursor stands behind a batch that checks and follows the one before. So damage never lies on both sides of one, and
is told once; what lies behind the last sound batch is waited for, until it has stood still for long enough.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset
from quorate.pipeline.places import HALF, LOG_KIND, Place
from quorate.storage.recovery import sound_batch_after
from quorate.wire.batch import check_batch, peek_header

__all__ = ["Cursor", "Directory", "EpochWentBack", "Look", "advance", "directories", "resume", "walk"]


class EpochWentBack(Exception):
    """A record that was given out has been replaced by one of an earlier epoch: this is not the log that it was."""


class Cursor(NamedTuple):
    """All below `offset` has been given out, the last of it of `epoch`; -1 before any.

    That ends at byte `position` of `segment`, and its last batch begins at byte `last`; -1 if none was read of this
    segment. With `is_torn` what lies behind was told as damage. `checkpoint` is the name of the last checkpoint that
    was given, `half` of the last one that was told to be half.
    """

    offset: Offset = 0
    epoch: Epoch = -1
    segment: str = ""
    position: int = 0
    last: int = -1
    is_torn: bool = False
    checkpoint: str = ""
    half: str = ""


class Directory(NamedTuple):
    """One replica's files of one cluster, each kind in the order of the names."""

    path: str
    cluster_id: str
    segments: tuple[Place, ...]
    checkpoints: tuple[Place, ...]
    halves: tuple[Place, ...]


class Look(NamedTuple):
    """What a look at the files takes into account.

    `is_settled` says whether a file has stood still for so long that nothing more will come. Where `sizes` are given,
    nothing else is there: the files as they were at some moment.
    """

    is_settled: Callable[[Place], bool]
    sizes: Mapping[str, int] | None = None


def directories(places: Iterable[Place]) -> list[Directory]:
    """The files by directory, as `find` lists them."""
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
    return found


def name_of(place: Place) -> str:
    """The file's name. Names of one directory are in the order of their offsets."""
    return Path(place.path).name


def advance(directory: Directory, at: Cursor, look: Look, *, limit: int) -> Cursor:
    """Where the next `limit` offsets end, about: a batch is not cut, a checkpoint neither, and one at least is given.

    Raises EpochWentBack, naming cluster, offset and both epochs.
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
            break  # to go past it would be never to tell of it
        reached = reached._replace(half=name_of(place))
    return reached


def resume(directory: Directory, at: Cursor) -> Cursor | None:
    """Where reading goes on behind `at`, by the files that there are now; None if what follows is not there yet.

    What a later leader has replaced is read again from the log's start. Raises EpochWentBack.
    """
    if not directory.segments:
        return None
    if not at.segment:
        return _start(directory, at)
    place = next((each for each in directory.segments if name_of(each) == at.segment), None)
    return at if place is not None and _is_as_it_was(place, at) else _found_again(directory, at)


def walk(segments: Sequence[Place], at: Cursor, look: Look) -> Iterator[Cursor]:
    """The cursor behind each batch that checks and follows, from `at` on.

    Before offsets that are missing between two segments it waits until these have settled.
    """
    for place in segments:
        name = name_of(place)
        if name < at.segment:
            continue
        if name > at.segment and place.base_offset > at.offset and not look.is_settled(place):
            return
        position = at.position if name == at.segment else 0
        with opened(place, look) as data:
            while position < len(data):
                try:
                    header = check_batch(data, position)
                except Corrupt:
                    found = sound_batch_after(data, position, at.offset + 1)
                    position = len(data) if found is None else found[0]
                    continue
                if header.base_offset >= at.offset and header.epoch >= at.epoch:
                    at = at._replace(
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
def opened(place: Place, look: Look) -> Iterator[mmap.mmap | bytes]:
    """The bytes of a file, as far as they count."""
    with Path(place.path).open("rb") as file:
        size = _size(place, look, os.fstat(file.fileno()).st_size)
        if size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            yield data


def _size(place: Place, look: Look, size: int) -> int:
    return size if look.sizes is None else min(size, look.sizes.get(place.path, 0))


def _start(directory: Directory, at: Cursor) -> Cursor:
    first = directory.segments[0]
    return Cursor(first.base_offset, segment=name_of(first), checkpoint=at.checkpoint, half=at.half)


def _log_end(directory: Directory, at: Cursor, look: Look, limit: int) -> Cursor:
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


def _has_rest(segments: Sequence[Place], at: Cursor, look: Look) -> bool:
    """Do bytes lie behind the last sound batch, and will nothing more come that makes sense of them?"""
    sizes = {name_of(place): _size(place, look, Path(place.path).stat().st_size) for place in segments}
    rest = sum(size for name, size in sizes.items() if name >= at.segment) - at.position
    return rest > 0 and all(look.is_settled(place) for place in segments if name_of(place) >= at.segment)


def _is_as_it_was(place: Place, at: Cursor) -> bool:
    """Does the batch that was given last lie where it did?"""
    if at.last < 0:
        return True
    with Path(place.path).open("rb") as file:
        file.seek(at.last)
        head = file.read(at.position - at.last)
    try:
        header = peek_header(head)
    except Corrupt:
        return False
    return (header.next_offset, header.epoch, header.size) == (at.offset, at.epoch, at.position - at.last) and (
        header.size <= len(head)
    )


def _found_again(directory: Directory, at: Cursor) -> Cursor | None:
    """Where the log goes on that is cut otherwise now: its segments were removed, or its end was replaced."""
    start = _start(directory, at)
    if start.offset >= at.offset:
        return at._replace(segment=start.segment, position=0, last=-1, is_torn=False)
    end, covering = start, None
    for end in walk(directory.segments, start, Look(lambda _: True)):
        if covering is None and end.offset >= at.offset:
            covering = end
    if end.epoch > at.epoch:
        return start
    if covering is None:
        return None
    if covering.epoch < at.epoch:
        raise EpochWentBack(
            f"cluster {directory.cluster_id}: epoch went back at offset {at.offset - 1}: {directory.path} has it of "
            f"epoch {covering.epoch}, and it was given out of epoch {at.epoch}"
        )
    return covering if covering.offset == at.offset else start


def _record_count(place: Place, look: Look) -> int | None:
    """How many records a checkpoint has; None if it may not be whole yet. Only headers are read."""
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
