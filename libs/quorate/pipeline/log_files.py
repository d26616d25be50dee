"""Finds the segments and checkpoints of metadata logs below a path, their cluster id, and cuts them into parts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset, OffsetAndEpoch
from quorate.pipeline.files import Buffer, files_at, modified_ms, opened, size_of, written
from quorate.pipeline.stores import S3Access
from quorate.storage.meta_properties import MetaProperties, parse_meta_properties, read_meta_properties
from quorate.storage.names import (
    BOOTSTRAP,
    CHECKPOINT,
    LOG,
    META_PROPERTIES,
    PART,
    PARTITION_DIRECTORY,
    checkpoint_id,
)
from quorate.wire.batch import HEADER_BYTES, peek_header

__all__ = [
    "CHECKPOINT_KIND",
    "HALF",
    "LOG_KIND",
    "PART_BYTES",
    "FilePart",
    "LogFile",
    "bundled",
    "find",
    "fingerprint",
    "has_settled",
    "is_being_written",
    "meta_properties",
    "named",
    "parse_endpoints",
    "parts",
]

AnyPath = Path | PurePosixPath
"""A path of this machine, or the path of a URL."""
NO_ACCESS: Final = S3Access()
LOG_KIND: Final = "log"
CHECKPOINT_KIND: Final = "checkpoint"
PART_BYTES: Final = 32 << 20
"""Target size of a part, the input of one task, in bytes. Parts end at batch boundaries, so a part may be larger."""
_HALF: Final = PART.removeprefix(CHECKPOINT)
_PART_NAME: Final = re.compile(rf"(\d{{20}}-\d{{10}})(?:-\w+)?{re.escape(PART)}")
"""Name of an unfinished checkpoint: Kafka and Quorate put a random suffix behind the id; a copying tool may not."""
HALF: Final = "a checkpoint that is not whole: it is still being written, or was left so"


class LogFile(NamedTuple):
    """A segment or checkpoint file, and the cluster that it belongs to.

    A segment begins at `base_offset`; `following` is the base offset of the next segment, None for the last one.
    A checkpoint holds the state at `base_offset` (exclusive), and `epoch` is that of the last record in it.
    `problem` says why the file is not read; None if it is. `path` is a path of this machine, or a URL that `access`
    reaches.
    """

    path: str
    cluster_id: str
    kind: str
    base_offset: Offset
    epoch: Epoch | None = None
    following: Offset | None = None
    problem: str | None = None
    access: S3Access = NO_ACCESS


class FilePart(NamedTuple):
    """A range of bytes of a file that begins and ends at batch boundaries; `end` is exclusive.

    `offset` is the offset of the first record, None if it is not known. `is_last` is set for the last part of a file.
    `fingerprint` is the digest of a checkpoint's content; a renamed copy has the same one. `epoch` is the epoch of
    the batch before the part; -1 if it is not known.
    """

    place: LogFile
    start: int
    end: int
    offset: Offset | None
    is_last: bool
    fingerprint: str | None = None
    epoch: Epoch = -1


def parse_endpoints(text: str) -> tuple[str, ...]:
    """Parses "host:port,…", the addresses of quorum nodes or observers. Raises ValueError for a bad address."""
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    for each in found:
        host, _, port = each.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            raise ValueError(f"endpoints has {each!r}; it lists host:port,..., with ports from 1 to 65535")
    return found


def find(patterns: Iterable[str], *, cluster_id: str | None = None, access: S3Access = NO_ACCESS) -> list[LogFile]:
    """Lists every segment and checkpoint at or below the paths or globs, once each, by directory and name.

    The cluster id comes from the meta.properties beside the files or one directory above; else it is `cluster_id`,
    else the name of the folder. bootstrap.checkpoint is not part of a log: it is listed only if a pattern names the
    file itself. A file is listed with a `problem` if it is an unfinished checkpoint (`.part`), or its meta.properties
    are damaged, disagree, or name another cluster than `cluster_id`. Raises FileNotFoundError, naming the pattern, if a
    pattern matches no segment and no checkpoint.
    """
    found = {pattern: _matching(pattern, access) for pattern in patterns}
    for pattern, paths in found.items():
        if all(path.suffix == _HALF for path in paths):
            raise FileNotFoundError(f"{pattern}: there is no segment (*{LOG}) and no checkpoint (*{CHECKPOINT}) there")
    return _places(found, cluster_id, access)


def named(patterns: Iterable[str], *, cluster_id: str | None = None, access: S3Access = NO_ACCESS) -> list[LogFile]:
    """Like `find`, but a directory may be empty: raises FileNotFoundError only if the path itself does not exist."""
    return _places({pattern: _matching(pattern, access) for pattern in patterns}, cluster_id, access)


def parts(place: LogFile, *, part_bytes: int = PART_BYTES) -> Iterator[FilePart]:
    """Yields the parts of one file, cut at batch boundaries: each has at least `part_bytes`, the last one what remains.

    A segment of up to `part_bytes` is one part and is not opened; so is a file that is empty or has a `problem`. Of all
    other files, checkpoints of any size included, only the batch headers are read.
    """
    size = size_of(place.path, place.access)
    first = 0 if place.kind == CHECKPOINT_KIND else place.base_offset
    if place.problem is not None or size == 0:
        yield FilePart(place, 0, size, first, True)
        return
    if place.kind == LOG_KIND and size <= part_bytes:
        yield FilePart(place, 0, size, first, True)
        return
    starts, fingerprint = _boundaries(place, part_bytes)
    ends = [*(at for at, _ in starts[1:]), size]
    for index, ((start, offset), end) in enumerate(zip(starts, ends, strict=True)):
        known = first if index == 0 else offset
        yield FilePart(place, start, end, known, end == size, fingerprint if place.kind == CHECKPOINT_KIND else None)


def bundled(every: Iterable[FilePart], *, part_bytes: int = PART_BYTES) -> list[tuple[FilePart, ...]]:
    """Groups parts, in order, into bundles of about `part_bytes`, so that one task reads many small files."""
    bundles: list[tuple[FilePart, ...]] = []
    held: list[FilePart] = []
    size = 0
    whole = list(every)
    for part in whole:
        if held and size + part.end - part.start > part_bytes:
            bundles.append(tuple(held))
            held, size = [], 0
        held.append(part)
        size += part.end - part.start
    bundles += [tuple(held)] if held else []
    assert len(whole) == sum(map(len, bundles)), (len(whole), [*map(len, bundles)])
    return bundles


def has_settled(place: LogFile, by_ms: int) -> bool:
    """Returns whether the file was last modified at or before `by_ms` (ms since 1970); False if it no longer exists."""
    try:
        return modified_ms(place.path, place.access) <= by_ms
    except FileNotFoundError:
        return False


def is_being_written(place: LogFile, by_ms: int) -> bool:
    """Returns whether the file is an unfinished checkpoint modified after `by_ms`: a node may still be writing it."""
    return place.problem == HALF and not has_settled(place, by_ms)


def _places(found: Mapping[str, Sequence[AnyPath]], cluster_id: str | None, access: S3Access) -> list[LogFile]:
    # A directory's files stand together, also where the name of another one below it lies between theirs.
    every = sorted({path for paths in found.values() for path in paths}, key=lambda path: (path.parent, path.name))
    places: list[LogFile] = []
    for directory, group in groupby(every, key=lambda path: path.parent):
        owner, problem = _cluster_of(directory, cluster_id, access)
        places += [place._replace(access=access) for place in _of_directory(sorted(group), owner, problem)]
    return places


def _matching(pattern: str, access: S3Access) -> list[AnyPath]:
    found = files_at(pattern, access)
    return [path for path, is_named in found if _is_log_file(path) or (is_named and path.suffix in (LOG, CHECKPOINT))]


def _is_log_file(path: AnyPath) -> bool:
    if path.name == BOOTSTRAP:
        return False
    return (path.suffix == LOG and path.stem.isdecimal()) or _snapshot(path) is not None


def meta_properties(directory: AnyPath, access: S3Access) -> MetaProperties | None:
    """Reads a directory's meta.properties; None if there is none. Raises Corrupt."""
    if isinstance(directory, Path):
        return read_meta_properties(directory)
    path = directory / META_PROPERTIES
    try:
        with opened(written(path), access) as data:
            return parse_meta_properties(data[:], Path(path))
    except FileNotFoundError:
        return None


def _snapshot(path: AnyPath) -> OffsetAndEpoch | None:
    """Parses the end offset and epoch from the name of a checkpoint, finished or not; None for other files.

    >>> _snapshot(Path("00000000000000000058-0000000001-4711260935.checkpoint.part"))
    OffsetAndEpoch(epoch=1, offset=58)

    """
    part = _PART_NAME.fullmatch(path.name)
    return checkpoint_id(Path(path.name if part is None else f"{part[1]}{CHECKPOINT}"))


def _cluster_of(directory: AnyPath, given: str | None, access: S3Access) -> tuple[str, str | None]:
    """Returns the cluster id of a directory's files, and the reason why they are not read, None if they are."""
    clusters: dict[str, AnyPath] = {}
    home = directory.parent if directory.name == PARTITION_DIRECTORY else directory
    fallback = given or home.name
    try:
        for place in (directory, directory.parent):
            meta = meta_properties(place, access)
            if meta is not None:
                clusters.setdefault(meta.cluster_id, place)
    except Corrupt as damage:
        return fallback, str(damage)
    if len(clusters) > 1:
        claims = " and ".join(
            f"{written(place / META_PROPERTIES)} says {cluster}" for cluster, place in clusters.items()
        )
        return fallback, f"two clusters in one place: {claims}"
    for cluster in clusters:
        if given is not None and cluster != given:
            return (
                given,
                f"{written(clusters[cluster] / META_PROPERTIES)} says cluster {cluster}, the option clusterId {given}",
            )
        return cluster, None
    return fallback, None


def _of_directory(paths: Sequence[AnyPath], cluster_id: str, problem: str | None) -> Iterator[LogFile]:
    segments = [path for path in paths if path.suffix == LOG]
    bases = [int(path.stem) if path.stem.isdecimal() else 0 for path in segments]
    following = [*bases[1:], None] if bases else []
    for path, base, after in zip(segments, bases, following, strict=True):
        yield LogFile(written(path), cluster_id, LOG_KIND, base, following=after, problem=problem)
    for path in paths:
        if path.suffix != LOG:
            snapshot = _snapshot(path) or OffsetAndEpoch(epoch=0, offset=0)
            why = problem or (HALF if path.suffix == _HALF else None)
            yield LogFile(written(path), cluster_id, CHECKPOINT_KIND, snapshot.offset, snapshot.epoch, problem=why)


def fingerprint(content: bytes) -> str:
    """Computes a checkpoint's fingerprint, the same that `parts` puts into each FilePart of the file."""
    return _cut(content, len(content) + 1)[1]


def _boundaries(place: LogFile, part_bytes: int) -> tuple[list[tuple[int, Offset | None]], str]:
    """Returns the start of each part as (byte position, base offset), and the fingerprint of the content."""
    with opened(place.path, place.access) as data:
        return _cut(data, part_bytes)


def _cut(data: Buffer, part_bytes: int) -> tuple[list[tuple[int, Offset | None]], str]:
    """Scans batch headers, starts a part at each `part_bytes`, and hashes the headers. Stops at the first bad header.

    The bytes from a bad header on stay in the last part, so that the reader reports them as damage.
    """
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
