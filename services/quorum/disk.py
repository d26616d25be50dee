"""What the driver has written: the log, the checkpoints and quorum-state of one node, in the core's terms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from quorate.epochs import EpochCache
from quorate.nouns import Offset, OffsetAndEpoch
from quorate.raft.log import LogView
from quorate.raft.messages import SnapshotRead
from quorate.raft.ready import SnapshotChunk
from quorate.raft.roles import ElectionState
from quorate.raft.voters import VoterHistory, VoterSet
from quorate.records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from quorate.storage.disk_log import DiskLog
from quorate.storage.election_file import ElectionFile, StoredElection
from quorate.storage.names import PARTITION_DIRECTORY, checkpoint_file
from quorate.storage.snapshots import Download, SnapshotReader, SnapshotWriter, open_checkpoints, remove_leftovers
from quorate.wire.batch import BatchHeader, ControlType
from quorate.wire.codec import decode, encode
from services.quorum.batches import voter_set, voters_of

BOOTSTRAP_ID: Final = OffsetAndEpoch(epoch=0, offset=0)
"""The checkpoint that only brings the first voters; it is never replicated (KIP-853)."""


class Disk:
    """One node's directory, opened. `static` are the voters of the configuration, without directory ids."""

    def __init__(self, directory: Path, *, static: VoterSet, segment_bytes: int, segment_ms: int) -> None:
        """Read everything that is there. Raises Corrupt for damage, naming file and position."""
        self._directory = directory / PARTITION_DIRECTORY
        self._directory.mkdir(exist_ok=True)
        self.removed = remove_leftovers(self._directory)
        self._snapshots, self.damaged = open_checkpoints(self._directory)
        changes: list[tuple[Offset, VoterSet]] = []

        def seen(header: BatchHeader, data: bytes) -> None:
            if header.is_control and (voters := voters_of(data, 0, header)) is not None:
                changes.append((header.base_offset, voters))

        self.log = DiskLog(directory, segment_bytes=segment_bytes, segment_ms=segment_ms, seen=seen)
        base = self._voters_before_the_log()
        self.is_dynamic = base is not None or bool(changes)
        self._history = VoterHistory(base or static, changes)
        self._election = ElectionFile(
            self._directory,
            version=1 if self.is_dynamic else 0,
            voters=tuple(sorted(static.ids)),
        )
        self._download: Download | None = None

    def view(self) -> LogView:
        """What the core has to know of the log at start."""
        return LogView(
            voters=self._history,
            epochs=EpochCache(self.log.epochs.entries[1:], floor=self.log.epochs.floor),
            leo=self.log.leo,
            flushed=self.log.flushed,
            snapshots={key: reader.size for key, reader in self._snapshots.items() if key != BOOTSTRAP_ID},
        )

    def election(self) -> ElectionState | None:
        """What was persisted last. Raises Corrupt."""
        stored = self._election.read()
        if stored is None:
            return None
        return ElectionState(epoch=stored.epoch, leader_id=stored.leader_id, voted=stored.voted)

    def persist(self, election: ElectionState) -> None:
        """Durably, before anybody learns of it."""
        self._election.write(StoredElection(epoch=election.epoch, leader_id=election.leader_id, voted=election.voted))

    def append(self, data: bytes) -> None:
        """One batch at the end."""
        self.log.append(data)

    def flush(self) -> Offset:
        """Everything below the answer is on the disk."""
        return self.log.flush()

    def truncate_to(self, offset: Offset) -> None:
        """Durably."""
        self.log.truncate_to(offset)

    def read(self, offset: Offset, max_bytes: int) -> bytes:
        """Whole batches."""
        return self.log.read(offset, max_bytes)

    def read_snapshot(self, read: SnapshotRead) -> bytes:
        """A piece of a checkpoint."""
        return self._snapshots[read.snapshot_id].read(read.position, read.max_bytes)

    def snapshot_bytes(self, snapshot: OffsetAndEpoch) -> bytes:
        """A whole checkpoint."""
        reader = self._snapshots[snapshot]
        return reader.read(0, reader.size)

    def store_chunk(self, chunk: SnapshotChunk) -> None:
        """A piece of a download; position 0 begins it anew."""
        if chunk.position == 0:
            if self._download is not None:
                self._download.abandon()
            self._download = Download(self._directory, chunk.snapshot_id)
        assert self._download is not None, chunk
        self._download.write(chunk.position, chunk.data)

    def complete_download(self, snapshot: OffsetAndEpoch) -> VoterSet | None:
        """Check the download and put it in place; the answer is the voter set in it. Raises Corrupt."""
        assert self._download is not None, snapshot
        assert self._download.id == snapshot, (self._download.id, snapshot)
        reader = self._download.finish()
        self._download = None
        self._snapshots[snapshot] = reader
        return _voters_in(reader)

    def install(self, snapshot: OffsetAndEpoch) -> None:
        """The log gives way to a checkpoint that is in place; older ones go."""
        self.log.restart_at(snapshot)
        for older in [key for key in self._snapshots if key not in (snapshot, BOOTSTRAP_ID)]:
            self._snapshots.pop(older).close()
            checkpoint_file(self._directory, older).unlink(missing_ok=True)

    def begin_snapshot(self, snapshot: OffsetAndEpoch, last_timestamp_ms: int, voters: VoterSet) -> StateSnapshot:
        """A checkpoint of the controller's state, to be filled and finished."""
        return StateSnapshot(self, self._directory, snapshot, last_timestamp_ms, voters if self.is_dynamic else None)

    def add_snapshot(self, snapshot: OffsetAndEpoch) -> int:
        """A checkpoint was put in place; the answer is its size."""
        reader = self._snapshots[snapshot] = SnapshotReader(checkpoint_file(self._directory, snapshot))
        return reader.size

    def close(self) -> None:
        """Flush, and close every file."""
        self.log.close()
        for reader in self._snapshots.values():
            reader.close()

    def _voters_before_the_log(self) -> VoterSet | None:
        """The voters in the checkpoint from which the log goes on, or in the one that the format left."""
        known = [key for key in self._snapshots if key.offset <= self.log.start]
        latest = max(known, key=lambda key: key.offset, default=None)
        return None if latest is None else _voters_in(self._snapshots[latest])


class StateSnapshot:
    """One checkpoint in the making: header, the state's records, footer."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        snapshot: OffsetAndEpoch,
        last_timestamp_ms: int,
        voters: VoterSet | None,
    ) -> None:
        self.id = snapshot
        self._disk = disk
        self._writer = SnapshotWriter(directory, snapshot, timestamp_ms=last_timestamp_ms)
        header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
        first = [(ControlType.SNAPSHOT_HEADER, encode(header, 0))]
        if voters is not None:
            first.append((ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=1), 0)))
            first.append((ControlType.KRAFT_VOTERS, encode(_voters_record(voters), 0)))
        self._writer.control(first)

    def write(self, values: Sequence[bytes]) -> None:
        """Records of the state."""
        self._writer.data(values)

    def finish(self) -> int:
        """Put it in place; the answer is its size in bytes."""
        self._writer.finish(encode(SnapshotFooterRecord(), 0))
        return self._disk.add_snapshot(self.id)


def _voters_in(reader: SnapshotReader) -> VoterSet | None:
    found = None
    for kind, value in reader.control_records():
        if kind is ControlType.KRAFT_VOTERS:
            found = voter_set(decode(VotersRecord, value, 0))
    return found


def _voters_record(voters: VoterSet) -> VotersRecord:
    return VotersRecord(
        voters=tuple(
            VotersRecord.Voter(
                voter_id=voter.key.id,
                voter_directory_id=voter.key.directory_id,
                endpoints=tuple(
                    VotersRecord.Voter.Endpoint(name=name, host=host, port=port)
                    for name, host, port in voter.endpoints  # type: ignore[attr-defined]  # as `voter_set` made them
                ),
                k_raft_version_feature=VotersRecord.Voter.KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=1
                ),
            )
            for voter in voters.voters
        )
    )
