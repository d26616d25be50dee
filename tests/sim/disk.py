"""One node's disk: the log, the checkpoints and quorum-state, each write in steps between which the power may go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from random import Random

from kraft import Uuid
from quorate.epochs import EpochCache
from quorate.nouns import OffsetAndEpoch
from quorate.raft import ElectionState, LogView, SnapshotChunk, VoterHistory, VoterSet
from quorate.raft.history import History
from quorate.raft.log import SnapshotRead
from tests.sim.content import Damaged, Snapshot, decode_election, encode_election
from tests.sim.files import Files
from tests.sim.log_file import LogFile

STATE, MARK = "quorum-state", "quorate-election-written"
CHECKPOINT, PART, TEMPORARY = ".checkpoint", ".part", ".tmp"

NAMES_MAX = 1_024

by_offset = attrgetter("offset")

Steps = Iterator[str]
"""Names each write when it is done; a crash may come between any two."""


class FsyncFailed(Exception):
    """The disk did not confirm; what it was to keep may be lost, and must not be asked for again."""


class DiskFull(Exception):
    """A write found no room."""


@dataclass
class Disk:
    """What a process leaves behind. `voters` and `kraft_version` are what the directory was formatted with."""

    directory_id: Uuid
    voters: VoterSet
    kraft_version: int
    log: LogFile = field(default_factory=LogFile)
    files: Files = field(default_factory=Files)
    is_full: bool = False

    # quorum-state.

    def persist(self, state: ElectionState) -> Steps:
        """Durably replaced, whole, before anybody may learn of it."""
        self._require_room()
        self.files.write(STATE + TEMPORARY, encode_election(state))
        yield "state.write"
        self.files.sync(STATE + TEMPORARY)
        yield "state.fsync"
        self.files.rename(STATE + TEMPORARY, STATE)
        yield "state.rename"
        if self.files.read(MARK) is None:
            self.files.write(MARK, b"written")
            self.files.sync(MARK)
        self.files.sync_directory()
        yield "state.dirsync"

    def election(self) -> ElectionState | None:
        """What was persisted last. Raises Damaged."""
        data = self.files.read(STATE)
        if data is None and self.files.read(MARK) is not None:
            raise Damaged("quorum-state was written and is missing")
        return None if data is None else decode_election(data)

    def stable_election(self) -> ElectionState | None:
        """What a power cut now would leave; None if there is none, or none that checks."""
        content = self.files.durable.get(STATE)
        return None if content is None or content.synced is None else decode_election(content.synced)

    # Checkpoints.

    def write_snapshot(self, snapshot: Snapshot) -> Steps:
        """The controller's state, complete under its name or not there."""
        name = name_of(snapshot.id)
        self._require_room()
        self.files.write(name + PART, snapshot.encode())
        yield "snapshot.write"
        yield from self.freeze(snapshot.id)

    def store_chunk(self, chunk: SnapshotChunk) -> Steps:
        """A piece of a download."""
        part = name_of(chunk.snapshot_id) + PART
        self._require_room()
        if chunk.position == 0:
            for old in [name for name in self.files.seen if name.endswith(PART)]:
                self.files.remove(old)
            self.files.write(part, b"")
        held = self.files.read(part)
        assert held is not None, chunk
        assert chunk.position == len(held), (chunk, len(held))
        self.files.extend(part, chunk.data)
        yield "snapshot.chunk"

    def freeze(self, snapshot: OffsetAndEpoch) -> Steps:
        """Every byte is synced before it has its name, and then the name."""
        name = name_of(snapshot)
        self.files.sync(name + PART)
        yield "snapshot.fsync"
        self.files.rename(name + PART, name)
        yield "snapshot.rename"
        self.files.sync_directory()
        yield "snapshot.dirsync"

    def snapshot(self, id: OffsetAndEpoch) -> Snapshot:
        """Raises Damaged."""
        data = self.files.read(name_of(id))
        assert data is not None, id
        return Snapshot.decode(data)

    def snapshot_ids(self) -> list[OffsetAndEpoch]:
        """Those with their name, oldest first."""
        ids = [id_of(name) for name in self.files.seen if name.endswith(CHECKPOINT)]
        ids.sort(key=by_offset)
        return ids

    def read_snapshot(self, read: SnapshotRead) -> bytes:
        """A piece of a checkpoint."""
        data = self.files.read(name_of(read.snapshot_id))
        assert data is not None, read
        return data[read.position : read.position + read.max_bytes]

    def install(self, id: OffsetAndEpoch) -> None:
        """The log gives way to a checkpoint that is in place; older ones go."""
        self.log.restart_at(id)
        self.remove_snapshots(lambda kept: kept != id)

    def cut_prefix(self, id: OffsetAndEpoch) -> None:
        """The log begins at a checkpoint that is in place; older ones go."""
        self.log.start_at(id)
        self.remove_snapshots(lambda kept: kept.offset < id.offset)

    def remove_snapshots(self, is_old: Callable[[OffsetAndEpoch], bool]) -> None:
        """Durably."""
        for id in self.snapshot_ids():
            if is_old(id):
                self.files.remove(name_of(id))
        self.files.sync_directory()

    # The start.

    def boot(self) -> tuple[LogView, ElectionState | None]:
        """What the core has to know at start: leftovers removed, all that is there checked. Raises Damaged."""
        for name in [name for name in self.files.seen if name.endswith((TEMPORARY, PART))]:
            self.files.remove(name)
        election = self.election()
        self._put_damaged_snapshots_aside()
        self.log.drop_from(self.log.scan())
        self.log.flushed = self.log.leo  # what a killed process left in memory is synced before it is claimed
        self._find_floor()
        self.files.sync_directory()
        return self.view(), election

    def view(self) -> LogView:
        """The log in the core's terms."""
        log = self.log
        base, version = self.voters, self.kraft_version
        if log.floor.offset:
            header = self.snapshot(log.floor)
            base = base if header.voters is None else header.voters
            version = version if header.kraft_version is None else header.kraft_version
        levels = [(batch.base_offset, batch.kraft_version) for batch in log.batches if batch.kraft_version is not None]
        return LogView(
            voters=VoterHistory(base, log.voters),
            kraft_versions=History(version, levels),
            epochs=EpochCache(((batch.epoch, batch.base_offset) for batch in log.batches), floor=log.floor),
            leo=log.leo,
            flushed=log.flushed,
            snapshots={id: len(self.files.seen[name_of(id)].data) for id in self.snapshot_ids()},
        )

    def _put_damaged_snapshots_aside(self) -> None:
        for id in self.snapshot_ids():
            try:
                self.snapshot(id)
            except Damaged:
                self.files.remove(name_of(id))

    def _find_floor(self) -> None:
        """A snapshot must stand before a log that does not begin at the beginning; one ahead of the log replaces it."""
        ids, log = self.snapshot_ids(), self.log
        last_epoch = log.cells[-1][0] if log.cells else log.floor.epoch
        if ids and max(ids) > OffsetAndEpoch(epoch=last_epoch, offset=log.leo):
            self.install(max(ids))
        if log.floor.offset and log.floor not in ids:
            later = [id for id in ids if log.floor.offset < id.offset <= log.leo]
            if not later:
                raise Damaged(f"no sound checkpoint at {log.floor}, where the log begins")
            self.cut_prefix(later[0])

    # Faults.

    def power_cut(self, random: Random, *, keeps_all: bool, may_destroy: bool) -> list[str]:
        """All that was not synced is lost, in part or whole; the answer says what.

        "entries": names or bytes of files. "suffix", "torn": the end of the log. "hole": an earlier batch, and a later
        one was kept; that looks like rot, so the disk is destroyed.
        """
        log = self.log
        if log.phantom is not None:
            log.drop_from(log.phantom)
            log.flushed = min(log.flushed, log.leo)
        if keeps_all:
            self.files.keep_all()
            return []
        lost = ["entries"] if self.files.power_cut(random) else []
        unflushed = [batch for batch in log.batches if batch.end_offset > log.flushed]
        if not unflushed:
            return lost
        if may_destroy and len(unflushed) > 1 and random.random() < 0.2:
            log.rotten.add(random.choice(unflushed[:-1]).base_offset)
            return [*lost, "hole"]
        kept = random.randrange(len(unflushed) + 1)
        dropped = log.drop_from(unflushed[kept].base_offset) if kept < len(unflushed) else []
        if dropped and random.random() < 0.5:
            log.append(dropped[0])
            log.rotten.add(dropped[0].base_offset)
            return [*lost, "torn"]
        return [*lost, "suffix"] if dropped else lost

    def _require_room(self) -> None:
        if self.is_full:
            raise DiskFull


@lru_cache(maxsize=NAMES_MAX)
def name_of(id: OffsetAndEpoch) -> str:
    return f"{id.offset:020d}-{id.epoch:010d}{CHECKPOINT}"


@lru_cache(maxsize=NAMES_MAX)
def id_of(name: str) -> OffsetAndEpoch:
    offset, epoch = name.removesuffix(CHECKPOINT).split("-")
    return OffsetAndEpoch(epoch=int(epoch), offset=int(offset))
