"""The storage of one node behind its driver: log, checkpoints and quorum-state, in the types of the Raft core."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from quorate.epochs import EpochCache
from quorate.errors import Corrupt
from quorate.metadata.scram_lost import Credential, ScramHistory, credentials_in
from quorate.nouns import EPOCHS_END, Offset, OffsetAndEpoch
from quorate.raft.history import History
from quorate.raft.log import LogView, SnapshotRead
from quorate.raft.ready import SnapshotChunk
from quorate.raft.roles import ElectionState
from quorate.raft.voters import VoterSet
from quorate.storage.disk_log import DiskLog, Flush
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.files import free_bytes, make_directory
from quorate.storage.names import BOOTSTRAP_ID, PARTITION_DIRECTORY
from quorate.storage.salvage import PromiseFile, Salvage, salvage
from quorate.storage.snapshots import SnapshotReader, remove_leftovers
from quorate.wire.batch import BatchHeader, batches
from services.quorum.batches import kraft_version_of, voters_of
from services.quorum.checkpoints import Checkpoints, CheckpointVoters, Retired, StateSnapshot
from services.quorum.feature_levels import FeatureLevels
from services.quorum.last_known import Memory

__all__ = ["CheckpointVoters", "Disk"]

T = TypeVar("T")

OFFSET_MAX: Final = 2**63 - 1


class Disk:
    """One node's log directory, open for writing: the log, its checkpoints and quorum-state, in the core's types.

    Opening it checks all files, and raises Corrupt for damage, as `__init__` says. `static` is the configured voter
    set, without directory ids.
    """

    def __init__(
        self,
        directory: Path,
        *,
        static: VoterSet,
        segment_bytes: int,
        segment_ms: int,
        recovers: bool = False,
    ) -> None:
        """Opens and checks all files of the directory. Raises Corrupt for damage, with file and position.

        With `recovers`, and if there are other voters, a damaged log is opened up to the damage (log salvage):
        `salvaged` lists the files put aside; until the log reaches `damaged_to` again, the node may not vote or lead,
        and does not count for the high watermark.
        """
        self._directory = directory / PARTITION_DIRECTORY
        make_directory(self._directory)
        self._election = ElectionFile(self._directory, voters=tuple(sorted(static.ids)))
        stored = self._election.read()  # raises Corrupt for a damaged file, before anything is changed
        self.removed = remove_leftovers(self._directory)
        self._checkpoints = Checkpoints(self._directory)
        self.damaged = self._checkpoints.damaged
        self.making: set[OffsetAndEpoch] = set()
        """Ids of the checkpoints that are being written from the controller's state."""
        self.salvaged: list[Salvage] = []
        self._promise = PromiseFile(self._directory)
        self._static = static
        self._open_log = partial(DiskLog, directory, segment_bytes=segment_bytes, segment_ms=segment_ms)
        self.log, seen = self._opened(recovers=recovers)
        if self.log.epochs.last_epoch >= EPOCHS_END:
            why = f"the log ends in epoch {self.log.epochs.last_epoch}, and none can follow it: nobody can lead again"
            raise Corrupt(why, path=self._directory)
        self._checkpoints.retire_before(self.log.start).remove()  # left by a crash before their removal
        _, base = self._checkpoints.quorum_at(self.log.start)
        # A salvaged log may end before the checkpoint at which the log restarts, and that one has later voters.
        self._voters = History(static if base.voters is None else base.voters, _from(self.log.start, seen.voters))
        self._kraft_versions = History(base.kraft_version or 0, _from(self.log.start, seen.versions))
        self.levels = seen.levels
        if self.log.start:
            self.levels.begin_with(self._checkpoints.values_at(self.log.start))
        self.damaged_to = self._promise.read()
        self._keep_promise()
        self._memory = self._remembered(directory, stored, recovers=recovers)
        self.doubts = tuple(self._memory.doubts)
        """Signs that the directory is not as its node left it, each a sentence for the log."""
        self.lost_credentials = self._lost_credentials(seen.scram)
        """SCRAM credentials that the log has and the latest checkpoint lacks, a defect of Kafka's (ScramDelta)."""

    def view(self) -> LogView:
        """Returns the view of the log with which the core starts."""
        return LogView(
            voters=self._voters,
            kraft_versions=self._kraft_versions,
            epochs=EpochCache(self.log.epochs.entries[1:], floor=self.log.epochs.floor),
            leo=self.log.leo,
            flushed=self.log.flushed,
            snapshots=self._checkpoints.sizes,
        )

    def election(self) -> ElectionState | None:
        """Returns the stored epoch, vote and leader; None before the first epoch. Raises Corrupt."""
        stored = self._election.read()
        if stored is None:
            return None
        return ElectionState(epoch=stored.epoch, leader_id=stored.leader_id, voted=stored.voted)

    def persist(self, election: ElectionState) -> None:
        """Writes epoch, vote and leader to quorum-state and fsyncs it."""
        stored = StoredElection(epoch=election.epoch, leader_id=election.leader_id, voted=election.voted)
        self._election.write(stored, version=self._kraft_versions.latest)
        self._memory.note_election(stored)

    def append(self, data: bytes) -> None:
        """Appends one encoded batch at the log's end, without a flush; warns of unknown feature levels in it.

        Raises OSError, NoSpace if the disk is full; then nothing is added.
        """
        self.log.append(data)
        if self.levels.note(data):
            self.levels.warn()

    def begin_flush(self) -> Flush | None:
        """Begins a flush of the appended batches, which the caller waits for and ends; None if all is flushed."""
        return self.log.begin_flush()

    def fail_flush(self, error: Exception) -> None:
        """Marks the log as failed after a failed flush: it refuses all use, as the content of the disk is unknown."""
        self.log.fail_flush(error)

    def end_flush(self, flush: Flush) -> Offset:
        """Ends a flush whose wait has succeeded; returns the offset (exclusive) below which the log is flushed.

        The node may vote again if the log has reached `damaged_to` by that.
        """
        end = self.log.end_flush(flush)
        if self.damaged_to is not None:
            self._keep_promise()
        self._memory.note_end(self._end)
        return end

    def reserve(self, size: int) -> None:
        """Reserves disk space for `size` bytes of batches. Raises NoSpace."""
        self.log.reserve(size)

    def truncate_to(self, offset: Offset) -> None:
        """Removes the log from `offset` on, durably; that is the first of a batch, or the log end. Raises Corrupt."""
        self._memory.shorten(self._end_at(offset))
        self.log.truncate_to(offset)

    def read(self, offset: Offset, max_bytes: int, *, below: Offset | None = None) -> bytes:
        """Returns whole batches from the one with `offset` on, up to `max_bytes` but at least one; none at the end.

        With `below`, it is only those whose base offset is below that. They may be fewer, as all are from one segment.
        Raises Corrupt.
        """
        data = self.log.read(offset, max_bytes)
        if below is None:
            return data
        return data[: next((position for position, header in batches(data) if header.base_offset >= below), None)]

    def read_snapshot(self, read: SnapshotRead) -> bytes:
        """Returns the bytes of one chunk of a checkpoint file, fewer at its end. Raises Corrupt."""
        return self._checkpoints.read(read.snapshot_id, read.position, read.max_bytes)

    def snapshot_bytes(self, snapshot: OffsetAndEpoch) -> bytes:
        """Reads a whole checkpoint file. Raises Corrupt."""
        return self._checkpoints.read(snapshot, 0, self._checkpoints.size_of(snapshot))

    def store_chunk(self, chunk: SnapshotChunk) -> None:
        """Writes one chunk of a snapshot download, which must follow the last one. Raises OSError.

        A chunk at position 0 begins a download, and deletes an incomplete one.
        """
        self._checkpoints.store_chunk(chunk)

    def complete_download(self, snapshot: OffsetAndEpoch) -> CheckpointVoters:
        """Checks a complete download, renames it into place, and returns the voter set and kraft.version in it.

        Raises Corrupt, and deletes the file, if it is damaged. The log is replaced only by `install`.
        """
        return self._checkpoints.complete_download(snapshot)

    def install(self, snapshot: OffsetAndEpoch) -> None:
        """Replaces the whole log by a checkpoint that is in place, durably, and deletes the older checkpoints.

        The log then starts and ends at the checkpoint's end. Warns of its feature levels that are not known.
        """
        assert snapshot in self._checkpoints.sizes, snapshot  # else nothing of the log would be left
        self._memory.shorten(snapshot)
        self.log.restart_at(snapshot)
        self._memory.note_end(snapshot)
        self.levels.restart_with(self._checkpoints.values(snapshot))
        self._checkpoints.retire_before(snapshot.offset).remove()
        self._keep_promise()

    def begin_snapshot(self, snapshot: OffsetAndEpoch, last_timestamp_ms: int) -> StateSnapshot:
        """Begins a checkpoint with the voters and kraft.version in force at its end, and returns its writer.

        The caller writes the controller's records, finishes it, and gives it to `add_snapshot`. `last_timestamp_ms` (ms
        since 1970) is the append time of the last record before its end.
        """
        level = self._kraft_versions.before(snapshot.offset)
        quorum = CheckpointVoters(self._voters.before(snapshot.offset), level) if level else CheckpointVoters()
        return self._checkpoints.begin(snapshot, last_timestamp_ms, quorum)

    def add_snapshot(self, snapshot: OffsetAndEpoch, reader: SnapshotReader) -> int:
        """Takes in a finished checkpoint, so that it can be read and the log start at it; returns its size in bytes."""
        self._checkpoints.add(snapshot, reader)
        return reader.size

    @property
    def size(self) -> int:
        """The size of the log and its checkpoints, in bytes."""
        return self.log.size + sum(self._checkpoints.sizes.values())

    @property
    def free_bytes(self) -> int:
        """The free bytes of the file system that the log is on."""
        return free_bytes(self._directory)

    def last_timestamp_ms(self, snapshot: OffsetAndEpoch) -> int:
        """Returns the append time of the last record in a checkpoint, in ms since 1970. Raises Corrupt."""
        return self._checkpoints.last_timestamp_ms(snapshot)

    def start_at(self, snapshot: OffsetAndEpoch) -> Retired:
        """Moves the log start to the end of a checkpoint; returns the renamed older files, for later removal.

        The log start moves before the checkpoints are renamed, so that there is always a checkpoint for it. The
        bootstrap checkpoint stays as long as the segment at offset 0, with which the log may return to 0.
        """
        segments = self.log.start_at(snapshot)
        older = self._checkpoints.retire_before(snapshot.offset, but=None if self.log.first_base else BOOTSTRAP_ID)
        # With it everything below the log start is there (KIP-630).
        assert snapshot in self._checkpoints.sizes, snapshot
        return replace(older, segments=tuple(segments))

    def close(self) -> None:
        """Flushes the log, closes all files, and deletes an incomplete download. Raises OSError."""
        self.log.close()
        self._memory.note_end(self._end)
        self._memory.close()
        self._checkpoints.close()

    def _opened(self, *, recovers: bool) -> tuple[DiskLog, _Seen]:
        """Opens the log, salvaging damage if `recovers`, and collects its voter and SCRAM records. Raises Corrupt."""
        while True:
            seen = _Seen()
            try:
                return self._open_log(seen=seen.note), seen
            except Corrupt as damage:
                if not recovers or len(self._voters_known(seen).ids) == 1 or self._is_hopeless(damage):
                    raise
                self.salvaged.append(salvage(self._directory, damage))

    def _is_hopeless(self, damage: Corrupt) -> bool:
        """Whether the same damage was found again after a salvage."""
        return any(str(damage) == str(each.damage) for each in self.salvaged)

    def _voters_known(self, seen: _Seen) -> VoterSet:
        """Returns the latest voter set in the checkpoints and in the part of the log that could be read."""
        offset, base = self._checkpoints.quorum_at(OFFSET_MAX)
        found = [] if base.voters is None else [(offset, base.voters)]
        return max([*found, *seen.voters], key=lambda each: each[0], default=(0, self._static))[1]

    def _lost_credentials(self, history: ScramHistory) -> list[Credential]:
        """Returns the SCRAM credentials that the latest checkpoint lacks and the log before it has.

        It runs at each start, since users who cannot log in are else the first sign. It costs little: the start reads
        all batches anyway, and checkpoints are read only if the log has SCRAM records below the latest one.
        """
        start, latest = self.log.start, max(self._checkpoints.sizes, default=BOOTSTRAP_ID)
        if not start < latest.offset <= self.log.leo or not history.changes_below(latest.offset):
            return []
        first = [key for key in self._checkpoints.sizes if key.offset == start]
        try:
            begin = [each for key in first for each in credentials_in(self._checkpoints.values(key))]
            return history.lost(latest.offset, begin=begin, checkpoint=credentials_in(self._checkpoints.values(latest)))
        except Corrupt:
            return []  # loading such a checkpoint reports its damage

    def _keep_promise(self) -> None:
        """Clears `damaged_to` once the flushed log is as long again as it was before the damage.

        Where the log starts at a snapshot, everything below is on disk with that.
        """
        if self.damaged_to is not None and self._end >= self.damaged_to:
            self._promise.clear()
            self.damaged_to = None

    @property
    def _end(self) -> OffsetAndEpoch:
        """The end of what is on disk, in the log or in the snapshot at which it starts."""
        return self._end_at(max(self.log.flushed, self.log.start))

    def _end_at(self, offset: Offset) -> OffsetAndEpoch:
        return OffsetAndEpoch(epoch=self.log.epochs.epoch_at(offset - 1), offset=offset)

    def _remembered(self, directory: Path, stored: StoredElection | None, *, recovers: bool) -> Memory:
        """Compares the directory with what its node last knew. A missing part of the log is promised, as after damage.

        A sole voter goes on with what it has: nobody else could have the rest.
        """
        memory = Memory(directory, end=self._end, stored=stored)
        if recovers and memory.lost is not None and len(self._voters.latest.ids) != 1:
            self.damaged_to = max(memory.lost, self.damaged_to or memory.lost)
            self._promise.write(self.damaged_to)
        if memory.election is not None and memory.election != stored:
            self._election.write(memory.election, version=self._kraft_versions.latest)
        memory.begin()
        return memory


def _from(start: Offset, changes: list[tuple[Offset, T]]) -> list[tuple[Offset, T]]:
    return [(offset, value) for offset, value in changes if offset >= start]


@dataclass(slots=True)
class _Seen:
    """Voter sets, kraft.versions and SCRAM records in the log, by offset, and feature levels, of the recovery scan."""

    voters: list[tuple[Offset, VoterSet]] = field(default_factory=list)
    versions: list[tuple[Offset, int]] = field(default_factory=list)
    scram: ScramHistory = field(default_factory=ScramHistory)
    levels: FeatureLevels = field(default_factory=FeatureLevels)

    def note(self, header: BatchHeader, data: bytes) -> None:
        """Collects what one batch has of these. Raises Corrupt."""
        if not header.is_control:
            self.scram.note(header, data)
            self.levels.note(data, header)
            return
        if (voters := voters_of(data, 0, header)) is not None:
            self.voters.append((header.base_offset, voters))
        if (level := kraft_version_of(data, 0, header)) is not None:
            self.versions.append((header.base_offset, level))
