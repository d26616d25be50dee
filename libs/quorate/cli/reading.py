"""Read-only access to metadata files: finds them, maps them into memory, and splits them into batches."""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from quorate.cli.failures import Failed
from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.names import (
    BOOTSTRAP,
    CHECKPOINT,
    DURABLE_MARK,
    ELECTION_MARK,
    INDEX,
    LAST_KNOWN,
    LEADER_EPOCHS,
    LOG,
    META_PROPERTIES,
    OWNER,
    PARTITION_DIRECTORY,
    PARTITION_METADATA,
    PROMISE,
    QUORUM_STATE,
    TIME_INDEX,
)
from quorate.wire.batch import BatchHeader, check_batch, read_header

__all__ = [
    "FileBatch",
    "FileKind",
    "MetadataDirectory",
    "OffsetRange",
    "batches_of",
    "check_regular",
    "files_below",
    "first_offset_of",
    "kind_of",
    "map_file",
    "metadata_directory",
]


class FileKind(Enum):
    """The kind of a metadata file; the value is its file name or suffix."""

    LOG = LOG
    CHECKPOINT = CHECKPOINT
    INDEX = INDEX
    TIME_INDEX = TIME_INDEX
    QUORUM_STATE = QUORUM_STATE
    LEADER_EPOCHS = LEADER_EPOCHS
    PARTITION_METADATA = PARTITION_METADATA
    META_PROPERTIES = META_PROPERTIES


_OFFSET: Final = re.compile(r"[0-9]{1,20}")
_BY_SUFFIX: Final = {kind.value: kind for kind in FileKind if kind.value.startswith(".")}
_OURS: Final = frozenset({DURABLE_MARK, ELECTION_MARK, LAST_KNOWN, OWNER, PROMISE})
_BY_NAME: Final = {kind.value: kind for kind in FileKind if not kind.value.startswith(".")}

_SPECIAL: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileBatch(NamedTuple):
    """One batch of a file; `problem` is its damage, such as a wrong checksum, None if it is sound."""

    position: int
    header: BatchHeader
    problem: Corrupt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """A range of offsets from `start` (inclusive) to `end` (exclusive); None for no end."""

    start: Offset = 0
    end: Offset | None = None

    def holds(self, offset: Offset) -> bool:
        """Whether `offset` is in this range of offsets."""
        return self.start <= offset and (self.end is None or offset < self.end)

    def meets(self, batch: FileBatch) -> bool:
        """Whether any offset of the batch is in this range."""
        header = batch.header
        return header.last_offset >= self.start and (self.end is None or header.base_offset < self.end)


class MetadataDirectory(NamedTuple):
    """A node's log directory (`owner`), which has meta.properties, and its metadata `partition`.

    `owner` is None if only a partition was given, without a meta.properties above it.
    """

    owner: Path | None
    partition: Path


def kind_of(path: Path) -> FileKind | None:
    """Returns a file's kind by its name; None if it is not a metadata file."""
    return _BY_NAME.get(path.name) or _BY_SUFFIX.get(path.suffix)


def files_below(path: Path) -> list[Path]:
    """Returns `path` itself, or the metadata files of a directory and of the metadata partition in it, by name.

    Raises Failed if there are none, for a name that no such file has, and for what is no regular file; OSError.
    """
    mode = path.stat().st_mode  # a missing file raises FileNotFoundError, not an error about its name
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise Failed(f"{path} is neither a file nor a directory")  # opening a FIFO would block until it has a writer
    if not path.is_dir():
        if kind_of(path) is None:
            known = ", ".join(f"*{kind.value}" if kind.value.startswith(".") else kind.value for kind in FileKind)
            raise Failed(f"{path} is not named like a file of a metadata log: {known}")
        return [path]
    partition = path / PARTITION_DIRECTORY
    places = (path, partition) if partition.is_dir() else (path,)
    check_regular(*places)
    found = [each for place in places for each in sorted(place.iterdir()) if each.is_file() and kind_of(each)]
    if not found:
        raise Failed(f"{path} holds no file of a metadata log")
    return found


def check_regular(*directories: Path) -> None:
    """Checks that what is named like a file of a metadata log in these directories is a regular file.

    Raises Failed, OSError.

    Opening a FIFO would block until it has a writer, and a device may have no end. Links are followed.
    """
    for directory in directories:
        for path in sorted(directory.iterdir()):
            if kind_of(path) is not None or path.name in _OURS:
                _check_regular(path)


def _check_regular(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.is_symlink():
            return  # removed meanwhile, as a running node does it
        raise
    if not stat.S_ISREG(mode):
        what = next((what for kind, what in _SPECIAL.items() if stat.S_IFMT(mode) == kind), "no regular file")
        raise Failed(f"{path} is {what}; what has such a name is a regular file")


def metadata_directory(path: Path) -> MetadataDirectory:
    """Finds a node's log directory and its metadata partition from `path`, which is either of the two.

    Raises Failed for another directory, or if a file in them is no regular file; OSError.
    """
    found = _metadata_directory(path)
    check_regular(*(place for place in found if place is not None and place.is_dir()))
    return found


def _metadata_directory(path: Path) -> MetadataDirectory:
    if (path / PARTITION_DIRECTORY).is_dir() or (path / META_PROPERTIES).exists() or (path / BOOTSTRAP).exists():
        return MetadataDirectory(path, path / PARTITION_DIRECTORY)
    if path.resolve().name == PARTITION_DIRECTORY:
        parent = path.resolve().parent
        return MetadataDirectory(parent if (parent / META_PROPERTIES).exists() else None, path)
    if any(_is_of_a_log(each) for each in path.iterdir()):
        return MetadataDirectory(None, path)
    neither = f"neither {META_PROPERTIES} nor {PARTITION_DIRECTORY}"
    raise Failed(f"{path} is no metadata directory: it has {neither}, and no segment ({0:020}.log) or checkpoint")


def _is_of_a_log(path: Path) -> bool:
    """Returns whether a file of a directory is a segment or a checkpoint by its name; server.log is neither."""
    kind = kind_of(path)
    return kind is FileKind.CHECKPOINT or (kind is FileKind.LOG and _OFFSET.fullmatch(path.stem) is not None)


def first_offset_of(path: Path) -> Offset:
    """Returns the base offset of a segment from its file name; 0 if the name has none."""
    return int(path.stem) if _OFFSET.fullmatch(path.stem) else 0


def map_file(path: Path) -> memoryview:
    """Maps a file read-only into memory (mmap); empty for an empty file. Raises OSError."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def batches_of(data: memoryview) -> Iterator[FileBatch]:
    """Yields every batch of a log or checkpoint, also those with a wrong checksum: `problem` is set then.

    Raises Corrupt where a batch header cannot be read.
    """
    position = 0
    while position < len(data):
        header, problem = read_header(data, position), None
        try:
            check_batch(data, position)
        except Corrupt as damage:
            problem = damage
        yield FileBatch(position, header, problem)
        position += header.size
