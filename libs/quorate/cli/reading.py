"""Opens metadata files to read, and nothing else: nothing here can change a directory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from quorate.cli.failures import Failed
from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.names import (
    BOOTSTRAP,
    CHECKPOINT,
    INDEX,
    LEADER_EPOCHS,
    LOG,
    META_PROPERTIES,
    PARTITION_DIRECTORY,
    PARTITION_METADATA,
    QUORUM_STATE,
    TIME_INDEX,
)
from quorate.wire.batch import BatchHeader, check_batch, read_header

__all__ = [
    "Batch",
    "FileKind",
    "MetadataDirectory",
    "batches_of",
    "files_below",
    "first_offset_of",
    "kind_of",
    "map_file",
    "metadata_directory",
]


class FileKind(Enum):
    """What a file is by its name."""

    LOG = LOG
    CHECKPOINT = CHECKPOINT
    INDEX = INDEX
    TIME_INDEX = TIME_INDEX
    QUORUM_STATE = QUORUM_STATE
    LEADER_EPOCHS = LEADER_EPOCHS
    PARTITION_METADATA = PARTITION_METADATA
    META_PROPERTIES = META_PROPERTIES


_BY_SUFFIX: Final = {kind.value: kind for kind in FileKind if kind.value.startswith(".")}
_BY_NAME: Final = {kind.value: kind for kind in FileKind if not kind.value.startswith(".")}


class Batch(NamedTuple):
    """One batch of a file; `problem` says why its bytes are not what was written, if they are not."""

    position: int
    header: BatchHeader
    problem: Corrupt | None


class MetadataDirectory(NamedTuple):
    """Where a node's metadata lies: `owner` has meta.properties and bootstrap.checkpoint, and may not be there."""

    owner: Path | None
    partition: Path


def kind_of(path: Path) -> FileKind | None:
    """What a file is by its name; None for what is no part of a metadata log."""
    return _BY_NAME.get(path.name) or _BY_SUFFIX.get(path.suffix)


def files_below(path: Path) -> list[Path]:
    """The files of a metadata log at `path`: itself, or all of a directory by name. Raises Failed for none, OSError."""
    path.stat()  # what does not exist has no wrong name
    if not path.is_dir():
        if kind_of(path) is None:
            known = ", ".join(f"*{kind.value}" if kind.value.startswith(".") else kind.value for kind in FileKind)
            raise Failed(f"{path} is not named like a file of a metadata log: {known}")
        return [path]
    partition = path / PARTITION_DIRECTORY
    places = (path, partition) if partition.is_dir() else (path,)
    found = [each for place in places for each in sorted(place.iterdir()) if each.is_file() and kind_of(each)]
    if not found:
        raise Failed(f"{path} holds no file of a metadata log")
    return found


def metadata_directory(path: Path) -> MetadataDirectory:
    """The metadata directory that `path` is, or is the partition of. Raises Failed for another directory."""
    if (path / PARTITION_DIRECTORY).is_dir() or (path / META_PROPERTIES).exists() or (path / BOOTSTRAP).exists():
        return MetadataDirectory(path, path / PARTITION_DIRECTORY)
    if path.resolve().name == PARTITION_DIRECTORY:
        parent = path.resolve().parent
        return MetadataDirectory(parent if (parent / META_PROPERTIES).exists() else None, path)
    if any(kind_of(each) in (FileKind.LOG, FileKind.CHECKPOINT) for each in path.iterdir()):
        return MetadataDirectory(None, path)
    raise Failed(f"{path} is no metadata directory: it has neither {META_PROPERTIES} nor {PARTITION_DIRECTORY}")


def first_offset_of(path: Path) -> Offset:
    """The offset with which the segment of this file begins, from its name; 0 for a name without one."""
    return int(path.stem) if path.stem.isdecimal() else 0


def map_file(path: Path) -> memoryview:
    """The bytes of a file, read as they are looked at."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def batches_of(data: memoryview) -> Iterator[Batch]:
    """Every batch, those whose checksum is wrong too. Raises Corrupt where no further batch can be found."""
    position = 0
    while position < len(data):
        header, problem = read_header(data, position), None
        try:
            check_batch(data, position)
        except Corrupt as damage:
            problem = damage
        yield Batch(position, header, problem)
        position += header.size
