"""What the driver has written: the log, the checkpoints and quorum-state of one node, in the core's terms."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from quorate.epochs import EpochCache
from quorate.errors import Corrupt
from quorate.nouns import Offset, OffsetAndEpoch
from quorate.raft.history import History
from quorate.raft.log import LogView
from quorate.raft.messages import SnapshotRead
from quorate.raft.ready import SnapshotChunk
from quorate.raft.roles import ElectionState
from quorate.raft.voters import VoterSet
from quorate.storage.disk_log import DiskLog, Flush
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.names import PARTITION_DIRECTORY
from quorate.storage.salvage import Promise, Salvage, salvage
from quorate.storage.snapshots import SnapshotReader, remove_leftovers
from quorate.wire.batch import BatchHeader, batches
from services.quorum.batches import kraft_version_of, voters_of
from services.quorum.checkpoints import BOOTSTRAP_ID, Checkpoints, Quorum, Retired, StateSnapshot

__all__ = ["Disk", "Quorum"]

T = TypeVar("T")

OFFSET_MAX: Final = 2**63 - 1


class Disk:
    """One node's directory, opened. `static` are the voters of the configuration, without directory ids."""

    def __init__(
        self,
        directory: Path,
        *,
        static: VoterSet,
        segment_bytes: int,
        segment_ms: int,
        recovers: bool = False,
    ) -> None:
        """Read everything that is there. Raises Corrupt for damage, naming file and position.

        If it `recovers`, and others vote too, a damaged log is opened up to the damage: `salvaged` says what was put
        aside, `damaged_to` how far the log must come again before this node may vote, lead or be counted.
        """
        self._directory = directory / PARTITION_DIRECTORY
        self._directory.mkdir(exist_ok=True)
        self._election = ElectionFile(self._directory, voters=tuple(sorted(static.ids)))
        self._election.read()  # there is no way around a broken one: nothing is touched then
        self.removed = remove_leftovers(self._directory)
        self._checkpoints = Checkpoints(self._directory)
        self.damaged = self._checkpoints.damaged
        self.making: set[OffsetAndEpoch] = set()
        """The checkpoints that the controller is writing."""
        self.salvaged: list[Salvage] = []
        self._promise = Promise(self._directory)
        self._static = static
        self._open_log = partial(DiskLog, directory, segment_bytes=segment_bytes, segment_ms=segment_ms)
        self.log, seen = self._opened(recovers=recovers)
        self._checkpoints.retire_before(self.log.start).remove()  # a crash came before they were
        _, base = self._checkpoints.quorum_at(self.log.start)
        # What was salvaged may end before the checkpoint with which the log begins anew: that knows of later voters.
        self._voters = History(static if base.voters is None else base.voters, _from(self.log.start, seen.voters))
        self._kraft_versions = History(base.kraft_version or 0, _from(self.log.start, seen.versions))
        self.damaged_to = self._promise.read()
        self._keep_promise()

    def view(self) -> LogView:
        """What the core has to know of the log at start."""
        return LogView(
            voters=self._voters,
            kraft_versions=self._kraft_versions,
            epochs=EpochCache(self.log.epochs.entries[1:], floor=self.log.epochs.floor),
            leo=self.log.leo,
            flushed=self.log.flushed,
            snapshots=self._checkpoints.sizes,
        )

    def election(self) -> ElectionState | None:
        """What was persisted last. Raises Corrupt."""
        stored = self._election.read()
        if stored is None:
            return None
        return ElectionState(epoch=stored.epoch, leader_id=stored.leader_id, voted=stored.voted)

    def persist(self, election: ElectionState) -> None:
        """Durably, before anybody learns of it."""
        stored = StoredElection(epoch=election.epoch, leader_id=election.leader_id, voted=election.voted)
        self._election.write(stored, version=self._kraft_versions.latest)

    def append(self, data: bytes) -> None:
        """One batch at the end."""
        self.log.append(data)

    def begin_flush(self) -> Flush | None:
        """A flush of what was appended, to be waited for and ended; None if nothing is unflushed."""
        return self.log.begin_flush()

    def fail_flush(self, error: OSError) -> None:
        """Nobody knows what is on the disk: the log refuses everything from now on."""
        self.log.fail_flush(error)

    def end_flush(self, flush: Flush) -> Offset:
        """Everything below the answer is on the disk."""
        end = self.log.end_flush(flush)
        if self.damaged_to is not None:
            self._keep_promise()
        return end

    def reserve(self, size: int) -> None:
        """See to it that there is room for `size` bytes of batches. Raises NoSpace."""
        self.log.reserve(size)

    def truncate_to(self, offset: Offset) -> None:
        """Durably."""
        self.log.truncate_to(offset)

    def read(self, offset: Offset, max_bytes: int, *, below: Offset | None = None) -> bytes:
        """Whole batches from `offset` on, and none that begins at `below` or after."""
        data = self.log.read(offset, max_bytes)
        if below is None:
            return data
        return data[: next((position for position, header in batches(data) if header.base_offset >= below), None)]

    def read_snapshot(self, read: SnapshotRead) -> bytes:
        """A piece of a checkpoint. Raises Corrupt."""
        return self._checkpoints.read(read.snapshot_id, read.position, read.max_bytes)

    def snapshot_bytes(self, snapshot: OffsetAndEpoch) -> bytes:
        """A whole checkpoint. Raises Corrupt."""
        return self._checkpoints.read(snapshot, 0, self._checkpoints.size_of(snapshot))

    def store_chunk(self, chunk: SnapshotChunk) -> None:
        """A piece of a download; position 0 begins it anew."""
        self._checkpoints.store_chunk(chunk)

    def complete_download(self, snapshot: OffsetAndEpoch) -> Quorum:
        """Check the download and put it in place; the answer is what its header says of the quorum. Raises Corrupt."""
        return self._checkpoints.complete_download(snapshot)

    def install(self, snapshot: OffsetAndEpoch) -> None:
        """The log gives way to a checkpoint that is in place; older ones go."""
        self.log.restart_at(snapshot)
        self._checkpoints.retire_before(snapshot.offset).remove()
        self._keep_promise()

    def begin_snapshot(self, snapshot: OffsetAndEpoch, last_timestamp_ms: int) -> StateSnapshot:
        """A checkpoint of the controller's state, to be filled, finished and added."""
        level = self._kraft_versions.before(snapshot.offset)
        quorum = Quorum(self._voters.before(snapshot.offset), level) if level else Quorum()
        return self._checkpoints.begin(snapshot, last_timestamp_ms, quorum)

    def add_snapshot(self, snapshot: OffsetAndEpoch, reader: SnapshotReader) -> int:
        """A checkpoint was put in place; the answer is its size."""
        self._checkpoints.add(snapshot, reader)
        return reader.size

    def drop_snapshot(self, reader: SnapshotReader) -> None:
        """A checkpoint was put in place, and is not wanted any more."""
        reader.close()
        reader.path.unlink()

    @property
    def size(self) -> int:
        """The log and its checkpoints, in bytes."""
        return self.log.size + sum(self._checkpoints.sizes.values())

    def last_timestamp_ms(self, snapshot: OffsetAndEpoch) -> int:
        """When the last record in a checkpoint was appended, in ms since 1970. Raises Corrupt."""
        return self._checkpoints.last_timestamp_ms(snapshot)

    def start_at(self, snapshot: OffsetAndEpoch) -> Retired:
        """The log begins at the end of a checkpoint. The answer is what was before: out of the way, to be removed.

        First the log, then the checkpoints: it never begins where none ends. The first voters stay as long as the
        segment that begins at 0, with which the log may come back to 0.
        """
        segments = self.log.start_at(snapshot)
        older = self._checkpoints.retire_before(snapshot.offset, but=None if self.log.first_base else BOOTSTRAP_ID)
        return replace(older, segments=tuple(segments))

    def close(self) -> None:
        """Flush, and close every file."""
        self.log.close()
        self._checkpoints.close()

    def _opened(self, *, recovers: bool) -> tuple[DiskLog, _Seen]:
        """The log, and the quorum's records in it; if it `recovers`, of what is left of it. Raises Corrupt."""
        while True:
            seen = _Seen()
            try:
                return self._open_log(seen=seen.note), seen
            except Corrupt as damage:
                if not recovers or len(self._voters_known(seen).ids) == 1 or self._is_hopeless(damage):
                    raise
                self.salvaged.append(salvage(self._directory, damage))

    def _is_hopeless(self, damage: Corrupt) -> bool:
        """Has the same been found after everything that could help was done?"""
        return any(str(damage) == str(each.damage) for each in self.salvaged)

    def _voters_known(self, seen: _Seen) -> VoterSet:
        """The latest voters in the checkpoints and in as much of the log as was read."""
        offset, base = self._checkpoints.quorum_at(OFFSET_MAX)
        found = [] if base.voters is None else [(offset, base.voters)]
        return max([*found, *seen.voters], key=lambda each: each[0], default=(0, self._static))[1]

    def _keep_promise(self) -> None:
        """Damage is over once the log has come as far on the disk as it had been."""
        last = OffsetAndEpoch(epoch=self.log.epochs.epoch_at(self.log.flushed - 1), offset=self.log.flushed)
        if self.damaged_to is not None and last >= self.damaged_to:
            self._promise.clear()
            self.damaged_to = None


def _from(start: Offset, changes: list[tuple[Offset, T]]) -> list[tuple[Offset, T]]:
    return [(offset, value) for offset, value in changes if offset >= start]


@dataclass(slots=True)
class _Seen:
    """What the control records of the log set, by offset."""

    voters: list[tuple[Offset, VoterSet]] = field(default_factory=list)
    versions: list[tuple[Offset, int]] = field(default_factory=list)

    def note(self, header: BatchHeader, data: bytes) -> None:
        """One batch of the log."""
        if not header.is_control:
            return
        if (voters := voters_of(data, 0, header)) is not None:
            self.voters.append((header.base_offset, voters))
        if (level := kraft_version_of(data, 0, header)) is not None:
            self.versions.append((header.base_offset, level))
