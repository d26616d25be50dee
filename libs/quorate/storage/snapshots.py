"""Checkpoint files (KIP-630): written to a temporary file, synced and renamed; a reader checks the whole file first.

A checkpoint is a file of batches. The first holds control records and begins with a SnapshotHeader; then come the
records of the state; the last one is a SnapshotFooter, so that a truncated file is detected. Batch offsets count
from 0, and all batches have the snapshot's epoch.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from quorate.errors import Corrupt
from quorate.nouns import OffsetAndEpoch
from quorate.storage.failpoints import reach
from quorate.storage.files import FILE_MODE, read_at, sync_directory, write_all
from quorate.storage.names import (
    BOOTSTRAP_ID,
    CHECKPOINT,
    DAMAGED,
    DELETED,
    INDEX,
    LOG,
    PART,
    TEMPORARY,
    TIME_INDEX,
    checkpoint_file,
    checkpoint_id,
    checkpoint_ids,
)
from quorate.wire.batch import (
    HEADER_BYTES,
    RECORD_OVERHEAD_BYTES_MAX,
    BatchHeader,
    ControlType,
    check_batch,
    control_batch,
    data_batch,
    data_values,
    peek_header,
    read_header,
    records,
)

T = TypeVar("T")

BATCH_BYTES_MAX: Final = 8 << 20
"""Kafka's largest metadata batch in bytes, header included."""
BATCH_RECORDS_MAX: Final = 8192
"""Records of one batch: few enough to decode at once, many enough to make the header's cost small."""

READ_ONLY: Final = 0o400
_CONTROL_KEY: Final = {kind.to_bytes(4, "big"): kind for kind in ControlType}
"""The key of a control record: version 0 and the type, two bytes each."""


class SnapshotWriter:
    """Writes one checkpoint. No file has the checkpoint's name before `finish`.

    `path` may name another file of the same format, such as bootstrap.checkpoint. After an OSError the writer has
    removed its temporary file and cannot be used any more.
    """

    def __init__(
        self, directory: Path, snapshot: OffsetAndEpoch, *, timestamp_ms: int, path: Path | None = None
    ) -> None:
        self.id = snapshot
        self._file = _TemporaryFile(path or checkpoint_file(directory, snapshot))
        self._timestamp_ms = timestamp_ms
        self._next = 0
        self._values: list[bytes] = []
        self._values_bytes = HEADER_BYTES

    def control(self, content: Sequence[tuple[ControlType, bytes]]) -> None:
        """Writes one batch of control records. The first batch must begin with the SnapshotHeader."""
        self._write_values()
        batch = control_batch(
            base_offset=self._next, epoch=self.id.epoch, timestamp_ms=self._timestamp_ms, records=content
        )
        self._write(batch, len(content))

    def data(self, values: Iterable[bytes]) -> None:
        """Adds records of the state, encoded. They are grouped into batches of at most BATCH_BYTES_MAX."""
        for value in values:
            size = len(value) + RECORD_OVERHEAD_BYTES_MAX
            assert HEADER_BYTES + size <= BATCH_BYTES_MAX, size
            if len(self._values) == BATCH_RECORDS_MAX or self._values_bytes + size > BATCH_BYTES_MAX:
                self._write_values()
            self._values.append(value)
            self._values_bytes += size

    def finish(self, footer: bytes) -> int:
        """Writes the SnapshotFooter and renames the file to its name, durably. Returns its size in bytes."""
        self.control([(ControlType.SNAPSHOT_FOOTER, footer)])
        reach("snapshot.before_freeze")
        self._file.freeze()
        self._file.put_in_place()
        return self._file.size

    def abandon(self) -> None:
        """Removes the temporary file, so that no checkpoint comes of it. Does nothing after `finish`."""
        self._file.abandon()

    def _write_values(self) -> None:
        if self._values:
            batch = data_batch(
                base_offset=self._next, epoch=self.id.epoch, timestamp_ms=self._timestamp_ms, values=self._values
            )
            self._write(batch, len(self._values))
            self._values, self._values_bytes = [], HEADER_BYTES

    def _write(self, batch: bytes, count: int) -> None:
        assert count > 0, (self.id, self._next)
        self._file.append(batch)
        self._next += count


class SnapshotReader:
    """An open checkpoint, which was checked completely when it was opened."""

    def __init__(self, path: Path, snapshot: OffsetAndEpoch | None = None) -> None:
        """Opens a checkpoint and checks every batch, its header and its footer. Raises Corrupt, naming the file.

        `snapshot` is the expected offset and epoch; by default they are taken from the file's name.
        """
        self.path = path
        snapshot = snapshot or checkpoint_id(path)
        self._descriptor: int | None = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self._descriptor).st_size
        try:
            if self.size == 0:
                raise Corrupt("a checkpoint of no bytes", path=path, position=0)
            self._check(None if snapshot is None else snapshot.epoch)
        except BaseException:
            self.close()
            raise

    def control_records(self) -> Iterator[tuple[ControlType, bytes]]:
        """Yields every control record: the SnapshotHeader first, the SnapshotFooter last. Raises Corrupt."""
        for position, header, data in self._batches():
            yield from self._controls(position, header, data)

    def values(self) -> Iterator[bytes]:
        """Yields the encoded records of the state, in order. Raises Corrupt, naming the file."""
        for position, header, data in self._batches():
            if not header.is_control:
                try:
                    yield from data_values(data, 0, header)
                except Corrupt as damage:
                    raise damage.at(self.path, position) from None

    def read(self, position: int, max_bytes: int) -> bytes:
        """Returns up to `max_bytes` of the file from `position` on, for FetchSnapshot. Raises Corrupt, naming the file.

        The file is read and not mapped: a disk error under a mapping would kill the process without a message. The
        file may have been renamed or removed in the meantime; the open descriptor still reads it.
        """
        assert self._descriptor is not None, self.path
        assert 0 <= position <= self.size, (position, self.size, self.path)
        return read_at(self._descriptor, max_bytes, position, path=self.path)

    def retire(self) -> None:
        """Renames the file to `.deleted`, as Kafka does; it may still be read, until `remove`.

        The caller syncs the directory.
        """
        assert self.path.suffix == CHECKPOINT, self.path
        aside = self.path.with_name(self.path.name + DELETED)
        reach("snapshot.before_retire")
        os.replace(self.path, aside)
        self.path = aside

    def remove(self) -> None:
        """Closes and deletes the file; the directory is not synced."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _batches(self) -> Iterator[tuple[int, BatchHeader, bytes]]:
        """Yields each batch with its position in the file. It checks no checksum; `_check` does, at opening."""
        position = 0
        while position < self.size:
            try:
                size = peek_header(self.read(position, HEADER_BYTES)).size
                data = self.read(position, size)
                header = read_header(data)
            except Corrupt as damage:
                raise damage if damage.path else damage.at(self.path, position) from None
            yield position, header, data
            position += size

    def _check(self, epoch: int | None) -> None:
        """Checks all batches, also base offset and epoch, which a checksum does not cover. Raises Corrupt."""
        first: ControlType | None = None
        last: ControlType | None = None
        offset = 0
        for position, header, data in self._batches():
            try:
                check_batch(data)
            except Corrupt as damage:
                raise damage.at(self.path, position) from None
            epoch = header.epoch if epoch is None else epoch
            if header.base_offset != offset or header.epoch != epoch:
                why = f"batch at offset {header.base_offset} of epoch {header.epoch}, where {offset} of {epoch} follows"
                raise Corrupt(why, path=self.path, position=position)
            kinds = [kind for kind, _ in self._controls(position, header, data)]
            if offset == 0:
                first = kinds[0] if kinds else None
            last = kinds[-1] if kinds else None
            offset = header.next_offset
            if ControlType.SNAPSHOT_FOOTER in kinds and position + header.size != self.size:
                raise Corrupt("a SnapshotFooter that is not at the end", path=self.path, position=position)
        if first is not ControlType.SNAPSHOT_HEADER:
            raise Corrupt("a checkpoint begins with a SnapshotHeader, this one does not", path=self.path, position=0)
        if last is not ControlType.SNAPSHOT_FOOTER:
            why = "no SnapshotFooter: the checkpoint was not written to its end"
            raise Corrupt(why, path=self.path, position=self.size)

    def _controls(self, position: int, header: BatchHeader, data: bytes) -> Iterator[tuple[ControlType, bytes]]:
        try:
            yield from control_records(data, header) if header.is_control else ()
        except Corrupt as damage:
            raise damage.at(self.path, position) from None


def control_records(data: bytes, header: BatchHeader) -> Iterator[tuple[ControlType, bytes]]:
    """Yields (type, value) of each record of a control batch. Raises Corrupt."""
    for record in records(data, 0, header):
        kind = _CONTROL_KEY.get(record.key or b"")
        if kind is None:
            why = f"control record {record.offset} has the key {record.key!r}, which is none that is known"
            raise Corrupt(why, position=0)
        if not record.value:
            raise Corrupt(f"control record {record.offset} has no value", position=0)
        yield kind, record.value


class DownloadFile:
    """A download of a checkpoint from the leader, in chunks; the file gets its name when it is complete (KIP-630)."""

    def __init__(self, directory: Path, snapshot: OffsetAndEpoch) -> None:
        self.id = snapshot
        self._file = _TemporaryFile(checkpoint_file(directory, snapshot))

    @property
    def position(self) -> int:
        """The number of bytes received, which is the position of the next chunk."""
        return self._file.size

    def write(self, position: int, data: bytes) -> None:
        """Writes the next chunk of the download, which must begin at `position`."""
        assert position == self.position, (position, self.position)
        self._file.append(data)
        reach("snapshot.chunk_received")

    def finish(self, check: Callable[[SnapshotReader], T]) -> tuple[SnapshotReader, T]:
        """Checks the downloaded file, lets `check` read it, and then renames it, durably.

        Returns the open reader of it and what `check` returned. Raises Corrupt, also from `check`, and removes the
        file, if it is not a valid one.
        """
        self._file.freeze()
        reader = None
        try:
            reader = SnapshotReader(self._file.aside, self.id)
            found = check(reader)
        except Corrupt:
            if reader is not None:
                reader.close()
            self._file.abandon()
            raise
        self._file.put_in_place()
        reader.path = self._file.path
        return reader, found

    def abandon(self) -> None:
        """Removes the temporary file."""
        self._file.abandon()


class _TemporaryFile:
    """A temporary file that is renamed when it is complete. After an OSError it is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.aside = path.with_name(f"{path.name.removesuffix(CHECKPOINT)}-{secrets.token_hex(8)}{PART}")
        self.size = 0
        self._descriptor: int | None = os.open(self.aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)

    def append(self, data: bytes) -> None:
        """Appends data. Raises OSError, after removing the file."""
        assert self._descriptor is not None, self.path
        try:
            write_all(self._descriptor, data, self.size)
        except OSError:
            self.abandon()
            raise
        self.size += len(data)

    def freeze(self) -> None:
        """Syncs the file and makes it read-only."""
        assert self._descriptor is not None, self.path
        try:
            os.fsync(self._descriptor)
            os.fchmod(self._descriptor, READ_ONLY)
        except OSError:
            self.abandon()
            raise
        os.close(self._descriptor)
        self._descriptor = None

    def put_in_place(self) -> None:
        """Renames the file to its final name, durably."""
        assert self._descriptor is None, self.path
        reach("snapshot.before_rename")
        os.replace(self.aside, self.path)
        sync_directory(self.path.parent)
        reach("snapshot.after_rename")

    def abandon(self) -> None:
        """Closes and removes the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self.aside.unlink(missing_ok=True)


def open_checkpoints(
    directory: Path, check: Callable[[SnapshotReader], object] | None = None
) -> tuple[dict[OffsetAndEpoch, SnapshotReader], tuple[Corrupt, ...]]:
    """Opens every checkpoint of a partition directory. Returns the valid ones, open, and the errors of the others.

    `check` reads a checkpoint whose form is valid, and raises Corrupt for a content that the caller cannot use.

    A damaged checkpoint is renamed to `.damaged`, so that the log continues from another one or from none. The
    bootstrap checkpoint is not, since no other node has its voters and first records: damage there raises Corrupt.
    """
    sound: dict[OffsetAndEpoch, SnapshotReader] = {}
    damaged = []
    for snapshot in checkpoint_ids(directory):
        path = checkpoint_file(directory, snapshot)
        reader = None
        try:
            reader = SnapshotReader(path)
            if check is not None:
                check(reader)
            sound[snapshot] = reader
        except Corrupt as damage:
            if reader is not None:
                reader.close()
            if snapshot == BOOTSTRAP_ID:
                raise
            os.replace(path, path.with_name(path.name + DAMAGED))
            damaged.append(damage)
    if damaged:
        sync_directory(directory)
    return sound, tuple(damaged)


def remove_leftovers(directory: Path) -> list[Path]:
    """Removes leftover files at start: temporary and `.deleted` files, and index files without a segment.

    Returns the removed paths.
    """
    found = sorted(directory.iterdir())
    left = [path for path in found if path.name.endswith((PART, DELETED, TEMPORARY))]
    left += [path for path in found if path.suffix in (INDEX, TIME_INDEX) and not path.with_suffix(LOG).exists()]
    for path in left:
        path.unlink()
    return left
