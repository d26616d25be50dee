"""The real disk of one node, on files in memory: what of it outlives a power cut, and what damage is done to it.

A killed process leaves all that it wrote. A power cut also takes what was not flushed of the log: all of it, or
from any byte on. That files which are replaced whole are synced before they are renamed is tried in `tests/storage`.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from quorate.errors import Corrupt
from quorate.nouns import Offset, OffsetAndEpoch
from quorate.storage.disk_log import Flush
from quorate.storage.durable_mark import DurableMark
from quorate.storage.names import LOG, PARTITION_DIRECTORY, segment_bases, segment_file
from quorate.wire.batch import BatchHeader, batches, check_batch
from services.quorum.checkpoints import Retired
from services.quorum.disk import Disk
from services.quorum.flusher import Done, Flusher
from tests.sim_driver.loop import Loop

SEGMENT_BYTES: Final = 8_000
SEGMENT_MS: Final = 1 << 40
NEVER_MS: Final = 3_600_000


class Injected(OSError):
    """A fault of the disk that the simulator has put there. Any other OSError is a bug of the code under test."""


class WatchedDisk(Disk):
    """The disk, and up to where its log is known to be flushed by who waited for it, not by what it says itself."""

    durable: Offset = 0
    clean_count = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.durable = self.log.leo  # it is flushed when it is opened

    def truncate_to(self, offset: Offset) -> None:
        super().truncate_to(offset)
        self.durable = min(self.durable, offset)

    def start_at(self, snapshot: OffsetAndEpoch) -> Retired:
        self.clean_count += 1
        return super().start_at(snapshot)

    def install(self, snapshot: OffsetAndEpoch) -> None:
        super().install(snapshot)
        self.durable = snapshot.offset

    def abandon(self) -> None:
        """Closes the files of a process that is gone; it may have been at closing them."""
        self.log.abandon()
        self._memory.abandon()
        self._checkpoints.close()

    def end_at(self, offset: Offset) -> OffsetAndEpoch:
        """How much it reports to others, where its core takes everything below `offset` for flushed."""
        offset = min(offset, self.durable)
        if offset <= self.log.start:
            return self.log.epochs.floor
        return OffsetAndEpoch(epoch=self.log.epochs.epoch_at(offset - 1), offset=offset)

    @property
    def last(self) -> OffsetAndEpoch:
        """How far it is durable what this node has: in its log, or by the checkpoint with which that begins."""
        return self.end_at(self.durable)


class VirtualFlusher(Flusher):
    """Waits for no thread: the disk has it after a while of the loop's time, and the caller learns that a while
    later."""

    def __init__(self, loop: Loop, disk: WatchedDisk, flush_ms: Callable[[], int], fails: Callable[[], bool]) -> None:
        self._loop = loop
        self._disk = disk
        self._flush_ms = flush_ms
        self._fails = fails
        self._waited_for: tuple[Flush, Done] | None = None
        self.is_flushing = False

    def start(self) -> None:
        """There is no thread."""

    def wait_for(self, flush: Flush, done: Done) -> None:
        assert self._waited_for is None, (self._waited_for, flush)
        self._waited_for = flush, done
        self._loop.call_later(self._flush_ms() / 1000, self._end)

    def stop(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._waited_for is None:
            return
        (flush, done), self._waited_for = self._waited_for, None
        error: OSError | None = None
        self.is_flushing = True
        try:
            if self._fails():
                raise Injected(errno.EIO, "the disk has lost it")
            flush.wait()
            self._disk.durable = max(self._disk.durable, flush.end)
        except OSError as failure:
            error = failure
        finally:
            self.is_flushing = False
        self._loop.call_later(self._flush_ms() // 4 / 1000, done, error)


def copy_of(directory: Path, target: Path, random: Random, *, durable: Offset | None) -> str:
    """What is left in another place, for the next life; and a word on what is lost. `durable` if the power went."""
    shutil.copytree(directory, target)
    partition = target / PARTITION_DIRECTORY
    bases = segment_bases(partition) if partition.is_dir() else []
    if durable is None or not bases:
        return ""
    path = segment_file(partition, bases[-1], LOG)
    data = path.read_bytes()
    kept = next((at for at, header in _sound(data) if header.next_offset > durable), len(data))
    cut = kept + random.randrange(len(data) - kept + 1)
    if cut == len(data):
        return ""
    torn = data[:cut] + (bytes(len(data) - cut) if random.randrange(3) == 0 else b"")
    path.write_bytes(torn)
    return f"lost {len(data) - cut} of {len(data)} bytes of {path.name}, {len(data) - kept} unflushed"


def put_back(older: Path, directory: Path) -> None:
    """The partition directory of another directory takes the place of this one's; what is beside that stays."""
    shutil.rmtree(directory / PARTITION_DIRECTORY)
    shutil.copytree(older / PARTITION_DIRECTORY, directory / PARTITION_DIRECTORY)


def _sound(data: bytes) -> list[tuple[int, BatchHeader]]:
    """The whole batches from the start on: the process may have ended in the middle of one, or a page of it be lost."""
    found = []
    try:
        for at, header in batches(data):
            check_batch(data, at)
            found.append((at, header))
    except Corrupt:
        pass
    return found


ROWS: Final = {"flip": "S-19", "zeros": "S-19", "elsewhere": "S-20", "cut": "S-21", "gone": "S-21"}
"""An older image of the disk is met as a log that is shorter than it was, or lacks a segment: else nobody can tell."""


def damage(directory: Path, random: Random) -> tuple[str, str]:
    """Spoil a log at rest so that it differs from a torn tail: the row and how, or nothing if there is too little.

    Bits flipped, a batch of zeros, another batch written over it, the rest cut off, a whole segment gone.
    """
    partition = directory / PARTITION_DIRECTORY
    bases = segment_bases(partition)
    base = random.choice(bases)
    path = segment_file(partition, base, LOG)
    data = path.read_bytes()
    found = _sound(data)
    mark = DurableMark(partition).read()
    is_last = base == bases[-1]
    # Of the last segment only what the mark vouches for, or what a sound batch follows: the rest may be a torn tail.
    known = [
        (at, header)
        for number, (at, header) in enumerate(found)
        if not is_last or header.next_offset <= mark or number < len(found) - 1
    ]
    if not known:
        return "", ""
    at, header = random.choice(known)
    kind = random.choice(("flip", "flip", "zeros", "elsewhere", "cut", "gone"))
    if kind == "cut" and (not is_last or found[-1][1].next_offset <= mark):  # or nobody could tell how much is gone
        path.write_bytes(data[: at + random.randrange(header.size)])
    elif kind == "gone" and not is_last:
        path.unlink()
    elif kind == "elsewhere" and len(found) > 1:
        other_at, other = random.choice([each for each in found if each[0] != at])
        size = min(header.size, other.size)
        path.write_bytes(data[:at] + data[other_at : other_at + size] + data[at + size :])
    elif kind == "zeros":
        path.write_bytes(data[:at] + bytes(header.size) + data[at + header.size :])
    else:
        kind, bit = "flip", random.randrange(8 * header.size)
        spoilt = bytearray(data)
        spoilt[at + bit // 8] ^= 1 << bit % 8
        path.write_bytes(spoilt)
    return ROWS[kind], f"{kind} in {path.name} at {at}, offset {header.base_offset}"
