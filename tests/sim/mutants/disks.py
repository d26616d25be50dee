"""Planted in the driver and under it: M17 … M19, M30, M31."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.nouns import Offset, OffsetAndEpoch
from tests.seeds.planting import Mutant, Patch
from tests.sim.disk import PART, Disk, name_of
from tests.sim.driver import Driver
from tests.sim.faults import SNAPSHOTS, STORAGE
from tests.sim.files import Files
from tests.sim.log_file import LogFile


def _m17(patch: Patch) -> None:
    def cut_prefix(disk: Disk, id: OffsetAndEpoch) -> None:
        """Takes the batch after the snapshot with it."""
        log = disk.log
        ends = [batch for batch in log.batches if batch.end_offset > id.offset]
        floor = OffsetAndEpoch(epoch=ends[0].epoch, offset=ends[0].end_offset) if ends else id
        log.start_at(floor)
        log.flushed = max(log.flushed, floor.offset)
        disk.remove_snapshots(lambda kept: kept.offset < id.offset)

    patch.setattr(Disk, "cut_prefix", cut_prefix)


def _m18(patch: Patch) -> None:
    def freeze(disk: Disk, snapshot: OffsetAndEpoch) -> Iterator[str]:
        name = name_of(snapshot)
        disk.files.rename(name + PART, name)
        yield "snapshot.rename"
        disk.files.sync_directory()
        yield "snapshot.dirsync"

    patch.setattr(Disk, "freeze", freeze)


def _m19(patch: Patch) -> None:
    patch.setattr(Files, "sync_directory", lambda files: None)


def _m30(patch: Patch) -> None:
    def retry(driver: Driver, end: Offset) -> bool:
        """The second call gets the answer that all is well: the kernel has forgotten the first."""
        log = driver.node.disk.log
        lost = [batch for batch in log.batches if log.flushed <= batch.base_offset and batch.end_offset <= end]
        if lost and log.phantom is None:
            log.phantom = lost[0].base_offset
        return True

    patch.setattr(Driver, "retry_flush", retry)


def _m31(patch: Patch) -> None:
    def scan(log: LogFile) -> Offset:
        bad = [batch.base_offset for batch in log.batches if batch.base_offset in log.rotten]
        return min(bad, default=log.leo)

    patch.setattr(LogFile, "scan", scan)


MUTANTS = (
    Mutant("M17", "the log is cut beyond its snapshot", _m17, SNAPSHOTS),
    Mutant("M18", "a snapshot has its name before its bytes are synced", _m18, SNAPSHOTS),
    Mutant("M19", "a rename without fsync of the directory", _m19),
    Mutant("M30", "a failed fsync is asked for again", _m30, STORAGE),
    Mutant("M31", "rot in the middle is cut like a torn tail", _m31, STORAGE),
)
