"""The checkpoints (snapshots) of one node: opens, writes, downloads and retires them. KIP-630."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Offset, OffsetAndEpoch
from quorate.raft.ready import SnapshotChunk
from quorate.raft.voters import VoterSet
from quorate.records import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from quorate.storage.files import sync_directory
from quorate.storage.names import BOOTSTRAP_ID, checkpoint_file
from quorate.storage.segment import Segment
from quorate.storage.snapshots import DownloadFile, SnapshotReader, SnapshotWriter, open_checkpoints
from quorate.wire.batch import ControlType
from quorate.wire.codec import decode, encode
from services.quorum.batches import kraft_level, voter_set, voters_record


class CheckpointVoters(NamedTuple):
    """The voter set and kraft.version in a checkpoint's control records; None if absent (kraft.version 0)."""

    voters: VoterSet | None = None
    kraft_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """Files that were renamed to `….deleted` and are still open, so that readers may finish."""

    readers: tuple[SnapshotReader, ...] = ()
    segments: tuple[Segment, ...] = ()

    def remove(self) -> None:
        """Closes and deletes the files, which nobody may read any more. It may block for some time."""
        for segment in self.segments:
            segment.remove()
        for reader in self.readers:
            reader.remove()


class Checkpoints:
    """The checkpoints in a partition's directory; `damaged` has those that were renamed aside at start."""

    def __init__(self, directory: Path) -> None:
        """Opens all sound checkpoints. Raises Corrupt if the one with the first voters is damaged."""
        self._directory = directory
        self._readers, self.damaged = open_checkpoints(directory, _quorum_in)
        self._download: DownloadFile | None = None

    @property
    def sizes(self) -> dict[OffsetAndEpoch, int]:
        """The size of each checkpoint in bytes, without the bootstrap checkpoint that a format writes."""
        return {key: reader.size for key, reader in self._readers.items() if key != BOOTSTRAP_ID}

    def quorum_at(self, offset: Offset) -> tuple[Offset, CheckpointVoters]:
        """Returns end offset, and voter set and kraft.version, of the latest checkpoint that ends at or below `offset`.

        Without one it is (-1, CheckpointVoters()). The bootstrap checkpoint counts. Raises Corrupt.
        """
        known = [key for key in self._readers if key.offset <= offset]
        latest = max(known, key=lambda key: key.offset, default=None)
        return (-1, CheckpointVoters()) if latest is None else (latest.offset, _quorum_in(self._readers[latest]))

    def values(self, snapshot: OffsetAndEpoch) -> Iterator[bytes]:
        """Yields the data records of a checkpoint, encoded. Raises Corrupt."""
        return self._readers[snapshot].values()

    def values_at(self, offset: Offset) -> Iterator[bytes]:
        """Yields the encoded data records of the checkpoint that ends at `offset`, if there is one. Raises Corrupt."""
        for key, reader in self._readers.items():
            if key.offset == offset:
                yield from reader.values()

    def last_timestamp_ms(self, snapshot: OffsetAndEpoch) -> int:
        """Returns the append time of a checkpoint's last record, from its header, in ms since 1970. Raises Corrupt."""
        _, value = next(self._readers[snapshot].control_records())
        return decode(SnapshotHeaderRecord, value, 0).last_contained_log_timestamp

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Reads up to `max_bytes` of a checkpoint from `position` on. Raises Corrupt."""
        return self._readers[snapshot].read(position, max_bytes)

    def size_of(self, snapshot: OffsetAndEpoch) -> int:
        """Returns the size of a checkpoint in bytes."""
        return self._readers[snapshot].size

    # From the leader.

    def store_chunk(self, chunk: SnapshotChunk) -> None:
        """Writes one chunk of a snapshot download, which must follow the last one. Raises OSError.

        A chunk at position 0 begins a download, and deletes an incomplete one.
        """
        if chunk.position == 0:
            if self._download is not None:
                self._download.abandon()
            self._download = DownloadFile(self._directory, chunk.snapshot_id)
        assert self._download is not None, chunk
        self._download.write(chunk.position, chunk.data)

    def complete_download(self, snapshot: OffsetAndEpoch) -> CheckpointVoters:
        """Checks a complete download, renames it into place, and returns the voter set and kraft.version in it.

        Raises Corrupt, and deletes the file, if it is damaged.
        """
        assert self._download is not None, snapshot
        assert self._download.id == snapshot, (self._download.id, snapshot)
        download, self._download = self._download, None
        reader, quorum = download.finish(_quorum_in)
        self._put(snapshot, reader)
        return quorum

    # From the controller.

    def begin(self, snapshot: OffsetAndEpoch, last_timestamp_ms: int, quorum: CheckpointVoters) -> StateSnapshot:
        """Begins a checkpoint of the controller's state; the caller writes its records, finishes it and calls `add`."""
        return StateSnapshot(self._directory, snapshot, last_timestamp_ms, quorum)

    def add(self, snapshot: OffsetAndEpoch, reader: SnapshotReader) -> None:
        """Takes a finished checkpoint in, so that it can be read; an earlier one of the same id is closed."""
        self._put(snapshot, reader)

    # Retention.

    def retire_before(self, offset: Offset, *, but: OffsetAndEpoch | None = None) -> Retired:
        """Renames the checkpoints before `offset` (except `but`) to `….deleted`, durably; open readers may finish."""
        older = sorted(key for key in self._readers if key.offset < offset and key != but)
        for key in older:
            self._readers[key].retire()
        if older:
            sync_directory(self._directory)
        return Retired(readers=tuple(self._readers.pop(key) for key in older))

    def close(self) -> None:
        """Closes all files, and deletes an incomplete download."""
        if self._download is not None:
            self._download.abandon()
        for reader in self._readers.values():
            reader.close()

    def _put(self, snapshot: OffsetAndEpoch, reader: SnapshotReader) -> None:
        if (before := self._readers.get(snapshot)) is not None:
            before.close()
        self._readers[snapshot] = reader


class StateSnapshot:
    """Writes a checkpoint of the controller's state: first its header with kraft.version and voters, last a footer.

    The file has a temporary name until `finish`. Either that or `abandon` must be called.
    """

    def __init__(
        self, directory: Path, snapshot: OffsetAndEpoch, last_timestamp_ms: int, quorum: CheckpointVoters
    ) -> None:
        self.id = snapshot
        self.is_finishing = False
        """Whether it is being finished, and so can no longer be abandoned."""
        self._path = checkpoint_file(directory, snapshot)
        self._writer = SnapshotWriter(directory, snapshot, timestamp_ms=last_timestamp_ms)
        header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
        first = [(ControlType.SNAPSHOT_HEADER, encode(header, 0))]
        if quorum.kraft_version is not None:
            level = KRaftVersionRecord(k_raft_version=quorum.kraft_version)
            first.append((ControlType.KRAFT_VERSION, encode(level, 0)))
        if quorum.voters is not None:
            first.append((ControlType.KRAFT_VOTERS, encode(voters_record(quorum.voters), 0)))
        self._writer.control(first)

    def write(self, values: Sequence[bytes]) -> None:
        """Adds encoded data records to the checkpoint. Raises OSError, after which the file is deleted."""
        assert not self.is_finishing, self.id  # after the footer nobody reads them
        self._writer.data(values)

    def finish(self) -> SnapshotReader:
        """Writes the footer, syncs and renames the file, and opens and checks it. Blocks: call it in a thread.

        Raises OSError, Corrupt.
        """
        self._writer.finish(encode(SnapshotFooterRecord(), 0))
        return SnapshotReader(self._path)

    def abandon(self) -> None:
        """Deletes the file of an unfinished checkpoint."""
        self._writer.abandon()


def _quorum_in(reader: SnapshotReader) -> CheckpointVoters:
    """Returns the quorum data of a checkpoint. Raises Corrupt for voters or a level that cannot be."""
    voters, level = None, None
    try:
        for kind, value in reader.control_records():
            if kind is ControlType.KRAFT_VOTERS:
                voters = voter_set(decode(VotersRecord, value, 0))
            elif kind is ControlType.KRAFT_VERSION:
                level = kraft_level(decode(KRaftVersionRecord, value, 0))
    except Corrupt as damage:
        raise damage if damage.path else damage.at(reader.path) from None
    return CheckpointVoters(voters, level)
