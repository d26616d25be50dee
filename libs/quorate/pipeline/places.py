"""The files of metadata logs below a path, whose cluster each belongs to, and how they are cut into parts."""

from __future__ import annotations

import glob
import hashlib
import mmap
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.storage.meta_properties import read_meta_properties
from quorate.storage.names import BOOTSTRAP, CHECKPOINT, LOG, PART, PARTITION_DIRECTORY, checkpoint_id
from quorate.wire.batch import HEADER_BYTES, peek_header

__all__ = [
    "CHECKPOINT_KIND",
    "HALF",
    "LOG_KIND",
    "PART_BYTES",
    "Part",
    "Place",
    "bundled",
    "find",
    "fingerprint",
    "has_settled",
    "is_being_written",
    "named",
    "parse_endpoints",
    "parts",
]

LOG_KIND: Final = "log"
CHECKPOINT_KIND: Final = "checkpoint"
PART_BYTES: Final = 32 << 20
"""How much one task reads, about; a batch is never cut."""
_HALF: Final = PART.removeprefix(CHECKPOINT)
_PART_NAME: Final = re.compile(rf"(\d{{20}}-\d{{10}})(?:-\w+)?{re.escape(PART)}")
"""A checkpoint while it comes: Kafka and our nodes put a word of chance behind its id, a copying tool may not."""
HALF: Final = "a checkpoint that is not whole: it is still being written, or was left so"


class Place(NamedTuple):
    """One file. A segment begins at `base_offset`, and the next one there is at `following`; None for the last.

    A checkpoint is the state at `base_offset`, after records of `epoch`. `problem` says why the file is not read.
    """

    path: str
    cluster_id: str
    kind: str
    base_offset: Offset
    epoch: Epoch | None = None
    following: Offset | None = None
    problem: str | None = None


class Part(NamedTuple):
    """Bytes of a file from batch boundary to batch boundary, which begin with `offset`; None if that is not known.

    `fingerprint` names a checkpoint by its content, so that a copy under another name is known for one. `epoch` is that
    of the batch before; -1 if that is not known.
    """

    place: Place
    start: int
    end: int
    offset: Offset | None
    is_last: bool
    fingerprint: str | None = None
    epoch: Epoch = -1


def parse_endpoints(text: str) -> tuple[str, ...]:
    """Nodes of a running quorum, or observers, as "host:port,…". Raises ValueError."""
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    for each in found:
        host, _, port = each.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            raise ValueError(f"endpoints has {each!r}; it lists host:port,..., with ports from 1 to 65535")
    return found


def find(patterns: Iterable[str], *, cluster_id: str | None = None) -> list[Place]:
    """Every segment and checkpoint at or below the paths or globs, by directory and name; each once.

    The cluster is what meta.properties says, beside the files or a directory above; else `cluster_id`; else the name
    of the folder. bootstrap.checkpoint is no part of a log, and is read only if it is named itself. A checkpoint that
    is not whole (`.part`) is not read, and says so. Raises FileNotFoundError, naming the pattern, for one that there
    is nothing of.
    """
    found = {pattern: _matching(pattern) for pattern in patterns}
    for pattern, paths in found.items():
        if all(path.suffix == _HALF for path in paths):
            raise FileNotFoundError(f"{pattern}: there is no segment (*{LOG}) and no checkpoint (*{CHECKPOINT}) there")
    return _places(found, cluster_id)


def named(patterns: Iterable[str], *, cluster_id: str | None = None) -> list[Place]:
    """The same, where there may be nothing yet: raises FileNotFoundError only if a path itself is not there."""
    return _places({pattern: _matching(pattern) for pattern in patterns}, cluster_id)


def parts(place: Place, *, part_bytes: int = PART_BYTES) -> Iterator[Part]:
    """The parts of one file. Only the headers of its batches are read, and of a small segment none."""
    size = Path(place.path).stat().st_size
    first = 0 if place.kind == CHECKPOINT_KIND else place.base_offset
    if place.problem is not None or size == 0:
        yield Part(place, 0, size, first, True)
        return
    if place.kind == LOG_KIND and size <= part_bytes:
        yield Part(place, 0, size, first, True)
        return
    starts, fingerprint = _boundaries(Path(place.path), part_bytes)
    ends = [*(at for at, _ in starts[1:]), size]
    for index, ((start, offset), end) in enumerate(zip(starts, ends, strict=True)):
        known = first if index == 0 else offset
        yield Part(place, start, end, known, end == size, fingerprint if place.kind == CHECKPOINT_KIND else None)


def bundled(every: Iterable[Part], *, part_bytes: int = PART_BYTES) -> list[tuple[Part, ...]]:
    """Parts in bundles of about one size, in order: a hundred small files are one task."""
    bundles: list[tuple[Part, ...]] = []
    held: list[Part] = []
    size = 0
    for part in every:
        if held and size + part.end - part.start > part_bytes:
            bundles.append(tuple(held))
            held, size = [], 0
        held.append(part)
        size += part.end - part.start
    return [*bundles, tuple(held)] if held else bundles


def has_settled(place: Place, by_ms: int) -> bool:
    """Has the file stood still since `by_ms` (ms since 1970)? One that is gone has not."""
    try:
        return Path(place.path).stat().st_mtime_ns // 1_000_000 <= by_ms
    except FileNotFoundError:
        return False


def is_being_written(place: Place, by_ms: int) -> bool:
    """Is it half a checkpoint that has changed since `by_ms`? A node that runs may be downloading or making it."""
    return place.problem == HALF and not has_settled(place, by_ms)


def _places(found: Mapping[str, Sequence[Path]], cluster_id: str | None) -> list[Place]:
    every = sorted({path for paths in found.values() for path in paths})
    places: list[Place] = []
    for directory, group in groupby(every, key=lambda path: path.parent):
        owner, problem = _owner(directory, cluster_id)
        places += _of_directory(sorted(group), owner, problem)
    return places


def _matching(pattern: str) -> list[Path]:
    tops = [Path(each) for each in sorted(glob.glob(pattern, recursive=True))]  # absolute patterns too
    if Path(pattern).exists() and not tops:
        tops = [Path(pattern)]  # a name with brackets in it
    if not tops:
        raise FileNotFoundError(f"{pattern}: there is no such file or directory")
    files = [path for path in tops if path.is_file() and path.suffix in (LOG, CHECKPOINT)]
    below = [path for top in tops if top.is_dir() for path in top.rglob("*") if _is_ours(path)]
    return [path.absolute() for path in (*files, *below)]


def _is_ours(path: Path) -> bool:
    if path.name == BOOTSTRAP or not path.is_file():
        return False
    return (path.suffix == LOG and path.stem.isdecimal()) or _snapshot(path) is not None


def _snapshot(path: Path) -> OffsetAndEpoch | None:
    """What the name of a checkpoint says, whole or not.

    >>> _snapshot(Path("00000000000000000058-0000000001-4711260935.checkpoint.part"))
    OffsetAndEpoch(epoch=1, offset=58)
    """
    part = _PART_NAME.fullmatch(path.name)
    return checkpoint_id(path if part is None else Path(f"{part[1]}{CHECKPOINT}"))


def _owner(directory: Path, given: str | None) -> tuple[str, str | None]:
    """Whose the files of a directory are, and why they are not read, if so."""
    said: dict[str, Path] = {}
    home = directory.parent if directory.name == PARTITION_DIRECTORY else directory
    fallback = given or home.name
    try:
        for place in (directory, directory.parent):
            meta = read_meta_properties(place)
            if meta is not None:
                said.setdefault(meta.cluster_id, place)
    except Corrupt as damage:
        return fallback, str(damage)
    if len(said) > 1:
        told = " and ".join(f"{place / 'meta.properties'} says {cluster}" for cluster, place in said.items())
        return fallback, f"two clusters in one place: {told}"
    for cluster in said:
        if given is not None and cluster != given:
            return given, f"{said[cluster] / 'meta.properties'} says cluster {cluster}, the option clusterId {given}"
        return cluster, None
    return fallback, None


def _of_directory(paths: Sequence[Path], cluster_id: str, problem: str | None) -> Iterator[Place]:
    segments = [path for path in paths if path.suffix == LOG]
    bases = [int(path.stem) if path.stem.isdecimal() else 0 for path in segments]
    following = [*bases[1:], None] if bases else []
    for path, base, after in zip(segments, bases, following, strict=True):
        yield Place(str(path), cluster_id, LOG_KIND, base, following=after, problem=problem)
    for path in paths:
        if path.suffix != LOG:
            snapshot = _snapshot(path) or OffsetAndEpoch(epoch=0, offset=0)
            why = problem or (HALF if path.suffix == _HALF else None)
            yield Place(str(path), cluster_id, CHECKPOINT_KIND, snapshot.offset, snapshot.epoch, problem=why)


def fingerprint(content: bytes) -> str:
    """What names a checkpoint by its content, as `parts` tells it."""
    return _cut(content, len(content) + 1)[1]


def _boundaries(path: Path, part_bytes: int) -> tuple[list[tuple[int, Offset | None]], str]:
    """Where the parts begin and with which offset, and the content's fingerprint."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _cut(data, part_bytes)


def _cut(data: mmap.mmap | bytes, part_bytes: int) -> tuple[list[tuple[int, Offset | None]], str]:
    """What is no batch is left to who reads it: the bytes before and behind go into one part with it."""
    starts: list[tuple[int, Offset | None]] = [(0, None)]
    digest = hashlib.sha256()
    position, size = 0, len(data)
    while position < size:
        try:
            header = peek_header(data, position)
        except Corrupt:
            break
        if position - starts[-1][0] >= part_bytes:
            starts.append((position, header.base_offset))
        digest.update(data[position : position + min(HEADER_BYTES, header.size)])
        position += header.size
    digest.update(size.to_bytes(8, "big"))
    return starts, digest.hexdigest()
