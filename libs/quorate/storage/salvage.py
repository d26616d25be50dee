"""Log salvage: the node keeps the sound prefix of a damaged log, puts the rest aside and fetches it from the leader.

A node that has lost records which it had acknowledged must not vote or count for a majority until it has them again,
also after a restart (protocol-aware recovery, FAST '18). So the acknowledged end offset is written to a file first;
then the log's files change, in such an order that a crash between two steps leaves the damage to be found, or none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path
from typing import BinaryIO, Final

from crc32c import crc32c

from quorate.errors import Corrupt
from quorate.nouns import EPOCHS_END, Epoch, Offset, OffsetAndEpoch
from quorate.storage.durable_mark import DurableMark
from quorate.storage.election_file import ElectionFile
from quorate.storage.epochs_file import EpochsFile
from quorate.storage.failpoints import reach
from quorate.storage.files import FILE_MODE, replace_whole, sync_directory
from quorate.storage.names import (
    DAMAGED,
    INDEX,
    LOG,
    PROMISE,
    TEMPORARY,
    TIME_INDEX,
    checkpoint_id,
    segment_bases,
    segment_file,
)
from quorate.storage.recovery import sound_batch_after
from quorate.storage.segment import Segment
from quorate.wire.batch import check_batch

__all__ = ["PromiseFile", "Salvage", "salvage"]

NOTHING: Final = OffsetAndEpoch(epoch=0, offset=0)
COPY_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """The result of a salvage: the damage, the files put aside, and the offset and epoch for the log to reach again."""

    damage: Corrupt
    aside: tuple[Path, ...]
    promised: OffsetAndEpoch


class PromiseFile:
    """A file with the offset and epoch that the log must reach before its node may vote again."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / PROMISE

    def read(self) -> OffsetAndEpoch | None:
        """Returns the offset and epoch that the log must reach; None if nothing is missing. Raises Corrupt."""
        try:
            words = self._path.read_text("ascii").split()
            offset, epoch, crc = int(words[0]), int(words[1]), int(words[2], 16)
        except FileNotFoundError:
            return None
        except (ValueError, IndexError) as problem:
            raise Corrupt(f"this does not say what was promised: {problem}", path=self._path) from None
        if len(words) != 3 or crc != _crc(offset, epoch):
            raise Corrupt("the checksum of what was promised does not fit", path=self._path)
        return OffsetAndEpoch(offset=offset, epoch=epoch)

    def write(self, promised: OffsetAndEpoch) -> None:
        """Writes the offset and epoch that the log must reach before the node may vote again, durably."""
        crc = _crc(promised.offset, promised.epoch)
        replace_whole(self._path, f"{promised.offset} {promised.epoch} {crc:08x}\n".encode("ascii"))

    def clear(self) -> None:
        """Removes the file, durably, when the log has reached the offset again."""
        self._path.unlink(missing_ok=True)
        sync_directory(self._path.parent)


def salvage(directory: Path, damage: Corrupt) -> Salvage:
    """Puts aside the bytes from `damage` on in a partition directory, so that the log can be opened again.

    First a `PromiseFile` is written with the end that the log had, which it must reach before the node may vote again.
    Then the damaged segment and all later ones are renamed; of the damaged one, the batches before the damage stay.
    Raises `damage` itself if it is not in a log segment: other nodes cannot replace anything else.
    """
    path = damage.path
    if path is None or path.suffix != LOG or path.parent != directory or damage.position is None:
        raise damage
    bases = segment_bases(directory)
    at = bases.index(int(path.stem)) if path.exists() else len(bases)
    promised = _promised(directory, bases[at:], damage.position)
    PromiseFile(directory).write(promised)
    reach("salvage.after_promise")
    aside = [_put_aside(segment_file(directory, base, LOG)) for base in reversed(bases[at + 1 :])]
    # An unusable segment is put aside even if it is empty: the next start would find it again.
    if at < len(bases) and (damage.position == 0 or damage.position < path.stat().st_size):
        reach("salvage.before_cut")
        aside.append(_cut(path, damage.position))
        reach("salvage.after_cut")
    mark = DurableMark(directory)
    mark.lower(0)  # the promise file now records what the mark stood for
    mark.close()
    sync_directory(directory)
    return Salvage(damage=damage, aside=tuple(aside), promised=promised)


def _promised(directory: Path, damaged: list[Offset], position: int) -> OffsetAndEpoch:
    """Returns the furthest offset and epoch that the log is known to have had.

    The durable mark, an earlier promise file, checkpoints and sound batches show it. All records before a segment were
    flushed when it was created, so its base offset counts, too. A batch's checksum does not cover its epoch, so the
    epoch comes from leader-epoch-checkpoint, which is written before the batch; and without that file, it is no higher
    than the epoch in quorum-state, which is written before any batch of it. An epoch that never was is never reached.
    """
    ends = [_last_sound(directory, base, position if base == damaged[0] else -1) for base in damaged]
    known = [*ends, *_checkpoints(directory), PromiseFile(directory).read() or NOTHING]
    offset = max([DurableMark(directory).read(), *damaged, *(each.offset for each in known)])
    listed = EpochsFile(directory).read()
    highest = _stored_epoch(directory)
    epochs = [epoch for epoch, start in listed if start < offset] or [min(each.epoch, highest) for each in ends]
    return OffsetAndEpoch(offset=offset, epoch=max([*epochs, *(each.epoch for each in known[len(ends) :])]))


def _stored_epoch(directory: Path) -> Epoch:
    """Returns the epoch in quorum-state; the highest that there is if the file is missing or damaged."""
    try:
        stored = ElectionFile(directory).stored()
    except Corrupt:
        stored = None
    return EPOCHS_END if stored is None else stored.epoch


def _checkpoints(directory: Path) -> list[OffsetAndEpoch]:
    """Returns offset and epoch of each checkpoint as its file name has them; damaged checkpoints are included."""
    names = (path.with_name(path.name.removesuffix(DAMAGED)) for path in directory.iterdir())
    return [found for found in map(checkpoint_id, names) if found is not None]


def _last_sound(directory: Path, base: Offset, position: int) -> OffsetAndEpoch:
    """Returns the end offset and epoch of the last valid batch after `position`; NOTHING if there is none."""
    segment = Segment(directory, base)
    data: bytes | mmap = b""
    try:
        data, _ = segment.read_all()
        last, later = NOTHING, sound_batch_after(data, position, base)
        while later is not None:
            at, header = later
            last, at = OffsetAndEpoch(offset=header.next_offset, epoch=header.epoch), at + header.size
            try:
                later = at, check_batch(data, at)
            except Corrupt:
                later = sound_batch_after(data, at, last.offset)
        return last
    finally:
        segment.close()
        if isinstance(data, mmap):
            data.close()


def _cut(path: Path, position: int) -> Path:
    """Renames a whole segment, and leaves a copy of the bytes before `position` under its name."""
    if position == 0:
        return _put_aside(path)
    aside = _free_name(path)
    os.link(path, aside)
    shorter = path.with_name(path.name + TEMPORARY)
    with path.open("rb") as whole, shorter.open("wb") as sound:
        os.fchmod(sound.fileno(), FILE_MODE)
        _copy(whole, sound, position)
        sound.flush()
        os.fsync(sound.fileno())
    os.replace(shorter, path)
    _remove_indexes(path)
    return aside


def _copy(source: BinaryIO, target: BinaryIO, size: int) -> None:
    """Copies `size` bytes, COPY_BYTES at a time."""
    while size:
        data = source.read(min(size, COPY_BYTES))
        assert data, (source.name, size)
        target.write(data)
        size -= len(data)


def _put_aside(path: Path) -> Path:
    aside = _free_name(path)
    os.replace(path, aside)
    _remove_indexes(path)
    sync_directory(path.parent)
    return aside


def _remove_indexes(path: Path) -> None:
    for suffix in (INDEX, TIME_INDEX):
        path.with_suffix(suffix).unlink(missing_ok=True)


def _free_name(path: Path) -> Path:
    """Returns an unused name for a damaged file: with a number if the segment was damaged before."""
    name, count = path.with_name(path.name + DAMAGED), 1
    while name.exists():
        count += 1
        name = path.with_name(f"{path.name}{DAMAGED}-{count}")
    return name


def _crc(offset: Offset, epoch: int) -> int:
    return crc32c(f"{offset} {epoch}".encode("ascii"))
