"""The checkpoints of one node: opened, made, downloaded, and put aside when the log has no more need of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from quorate.nouns import Offset, OffsetAndEpoch
from quorate.raft.ready import SnapshotChunk
from quorate.raft.voters import VoterSet
from quorate.records import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from quorate.storage.failpoints import reach
from quorate.storage.files import sync_directory
from quorate.storage.names import DELETED, checkpoint_file
from quorate.storage.segment import Segment
from quorate.storage.snapshots import Download, SnapshotReader, SnapshotWriter, open_checkpoints
from quorate.wire.batch import ControlType
from quorate.wire.codec import decode, encode
from services.quorum.batches import voter_set, voters_record

BOOTSTRAP_ID: Final = OffsetAndEpoch(epoch=0, offset=0)
"""The checkpoint that only brings the first voters; it is never replicated (KIP-853)."""


class Quorum(NamedTuple):
    """What a checkpoint's header says of the quorum; None for what it does not (kraft.version 0)."""

    voters: VoterSet | None = None
    kraft_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """Files under names by which nobody finds them any more; they are still open."""

    paths: tuple[Path, ...] = ()
    readers: tuple[SnapshotReader, ...] = ()
    segments: tuple[Segment, ...] = ()

    def remove(self) -> None:
        """Nobody reads them any longer. This may take the disk a while."""
        for segment in self.segments:
            segment.remove()
        for reader in self.readers:
            reader.close()
        for path in self.paths:
            path.unlink(missing_ok=True)


class Checkpoints:
    """What lies in a partition's directory beside the log. `damaged` is what was put aside at the start."""

    def __init__(self, directory: Path) -> None:
        """Open what is there and sound. Raises Corrupt if it is the first voters that are not."""
        self._directory = directory
        self._readers, self.damaged = open_checkpoints(directory)
        self._download: Download | None = None

    @property
    def sizes(self) -> dict[OffsetAndEpoch, int]:
        """Those of the state, with their bytes: without the first voters."""
        return {key: reader.size for key, reader in self._readers.items() if key != BOOTSTRAP_ID}

    def quorum_at(self, offset: Offset) -> tuple[Offset, Quorum]:
        """The latest at `offset` or before, and what it says of the quorum; (-1, nothing) if there is none."""
        known = [key for key in self._readers if key.offset <= offset]
        latest = max(known, key=lambda key: key.offset, default=None)
        return (-1, Quorum()) if latest is None else (latest.offset, _quorum_in(self._readers[latest]))

    def last_timestamp_ms(self, snapshot: OffsetAndEpoch) -> int:
        """When the last record in it was appended, by its header; in ms since 1970."""
        _, value = next(self._readers[snapshot].control_records())
        return decode(SnapshotHeaderRecord, value, 0).last_contained_log_timestamp

    def read(self, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """A piece. Raises Corrupt."""
        return self._readers[snapshot].read(position, max_bytes)

    def size_of(self, snapshot: OffsetAndEpoch) -> int:
        """In bytes."""
        return self._readers[snapshot].size

    # From the leader.

    def store_chunk(self, chunk: SnapshotChunk) -> None:
        """A piece of a download; position 0 begins it anew."""
        if chunk.position == 0:
            if self._download is not None:
                self._download.abandon()
            self._download = Download(self._directory, chunk.snapshot_id)
        assert self._download is not None, chunk
        self._download.write(chunk.position, chunk.data)

    def complete_download(self, snapshot: OffsetAndEpoch) -> Quorum:
        """Check the download and put it in place; the answer is what its header says of the quorum. Raises Corrupt."""
        assert self._download is not None, snapshot
        assert self._download.id == snapshot, (self._download.id, snapshot)
        download, self._download = self._download, None
        reader = download.finish()
        self._put(snapshot, reader)
        return _quorum_in(reader)

    # From the controller.

    def begin(self, snapshot: OffsetAndEpoch, last_timestamp_ms: int, quorum: Quorum) -> StateSnapshot:
        """One of the controller's state, to be filled and finished."""
        return StateSnapshot(self._directory, snapshot, last_timestamp_ms, quorum)

    def add(self, snapshot: OffsetAndEpoch, reader: SnapshotReader) -> None:
        """One was put in place."""
        self._put(snapshot, reader)

    # No longer wanted.

    def retire_before(self, offset: Offset, *, but: OffsetAndEpoch | None = None) -> Retired:
        """Rename those that end before `offset` out of the way, durably, all `but` one; who reads one may go on."""
        older = sorted(key for key in self._readers if key.offset < offset and key != but)
        paths = []
        for key in older:
            path = checkpoint_file(self._directory, key)
            aside = path.with_name(path.name + DELETED)
            reach("snapshot.before_retire")
            os.replace(path, aside)
            paths.append(aside)
        if older:
            sync_directory(self._directory)
        return Retired(paths=tuple(paths), readers=tuple(self._readers.pop(key) for key in older))

    def close(self) -> None:
        """Close every file; a download that is not whole leaves nothing."""
        if self._download is not None:
            self._download.abandon()
        for reader in self._readers.values():
            reader.close()

    def _put(self, snapshot: OffsetAndEpoch, reader: SnapshotReader) -> None:
        if (before := self._readers.get(snapshot)) is not None:
            before.close()
        self._readers[snapshot] = reader


class StateSnapshot:
    """One checkpoint in the making: header, the state's records, footer."""

    def __init__(self, directory: Path, snapshot: OffsetAndEpoch, last_timestamp_ms: int, quorum: Quorum) -> None:
        self.id = snapshot
        self.is_finishing = False
        """Is it too late to abandon it?"""
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
        """Records of the state."""
        self._writer.data(values)

    def finish(self) -> SnapshotReader:
        """Put it in place, and check it. This waits for the disk: it may be called in another thread."""
        self._writer.finish(encode(SnapshotFooterRecord(), 0))
        return SnapshotReader(self._path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.abandon()


def _quorum_in(reader: SnapshotReader) -> Quorum:
    voters, level = None, None
    for kind, value in reader.control_records():
        if kind is ControlType.KRAFT_VOTERS:
            voters = voter_set(decode(VotersRecord, value, 0))
        elif kind is ControlType.KRAFT_VERSION:
            level = decode(KRaftVersionRecord, value, 0).k_raft_version
    return Quorum(voters, level)
