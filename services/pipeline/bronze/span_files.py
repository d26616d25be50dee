"""Finds the files and databases that hold spans, their kind, and the cluster that each belongs to."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.storage.meta_properties import read_meta_properties

__all__ = ["PACKED", "SpanFile", "find_spans"]

MAGIC: Final = b"SQLite format 3\0"
"""The first bytes of every SQLite file."""
STORE_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
PACKED: Final = ".gz"
LINE_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")


class SpanFile(NamedTuple):
    """A trace store of the observer, or a file of OTLP lines; `cluster_id` is for spans that do not name a cluster."""

    path: str
    cluster_id: str
    is_store: bool
    size: int
    modified_ns: int
    url: str | None = None
    """A database's URL.

    Its `path` then has no secrets, `size` is its highest `seq`, `modified_ns` its number of spans.
    """

    @property
    def version(self) -> tuple[str, str, int, int]:
        """Returns a key that changes with the file: cluster, path, size in bytes, mtime in ns since 1970."""
        return self.cluster_id, self.path, self.size, self.modified_ns

    @property
    def is_in_use(self) -> bool:
        """Returns whether a store has a write-ahead log beside it: writes appear there before they change the file."""
        return self.is_store and Path(f"{self.path}-wal").exists()

    def may_grow(self, by_ms: int) -> bool:
        """Returns whether the file may end in an incomplete line or gzip stream.

        That is so if it was modified after `by_ms` (ms since 1970) and is gzip or does not end in a newline.
        """
        if self.is_store or self.size == 0 or self.modified_ns // 1_000_000 <= by_ms:
            return False
        return self.path.endswith(PACKED) or not _ends_a_line(self.path, self.size)


def find_spans(pattern: str, *, cluster_id: str | None = None) -> list[SpanFile]:
    """Finds the trace stores and OTLP files at or below a path or glob, or the database at a URL.

    In a directory the suffix decides the kind of a file. A file whose path is given is a store if its content is
    SQLite, else OTLP lines. Raises FileNotFoundError, naming the pattern, and OSError for a database that cannot be
    read.
    """
    if "://" in pattern and not pattern.startswith("file:"):
        return [_database(pattern, cluster_id)]
    named = [Path(pattern)] if Path(pattern).exists() else [Path(each) for each in glob.glob(pattern, recursive=True)]
    if not named:
        raise FileNotFoundError(f"{pattern}: there is no such file or directory")
    below = {path.absolute() for top in named if top.is_dir() for path in top.rglob("*") if _may_hold_spans(path)}
    found = below | {path.absolute() for path in named if path.is_file()}
    if not found:
        known = ", ".join((*STORE_SUFFIXES, *LINE_SUFFIXES))
        raise FileNotFoundError(f"{pattern}: there is no trace store and no OTLP file ({known}) there")
    owners = {directory: cluster_id or _owner(directory) for directory in {path.parent for path in found}}
    return [file for path in sorted(found) for file in _file(path, owners[path.parent])]


def _database(url: str, cluster_id: str | None) -> SpanFile:
    # Imported here, so that reading files alone does not need SQLAlchemy.
    from services.pipeline.bronze.span_database import look, place_of

    try:
        place = place_of(url)
    except ValueError as problem:
        raise OSError(str(problem)) from None
    extent = look(url)
    return SpanFile(place, cluster_id or place.rpartition("/")[2], True, extent.high, extent.spans, url)


def _file(path: Path, cluster_id: str) -> Iterator[SpanFile]:
    with suppress(FileNotFoundError):  # a collector renames and packs its files
        about = path.stat()
        yield SpanFile(str(path), cluster_id, _is_store(path), about.st_size, about.st_mtime_ns)


def _may_hold_spans(path: Path) -> bool:
    return path.name.lower().endswith((*STORE_SUFFIXES, *LINE_SUFFIXES)) and path.is_file()


def _is_store(path: Path) -> bool:
    if path.suffix.lower() in STORE_SUFFIXES:
        return True
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _ends_a_line(path: str, size: int) -> bool:
    with suppress(FileNotFoundError), Path(path).open("rb") as file:
        file.seek(size - 1)
        return file.read(1) == b"\n"
    return False


def _owner(directory: Path) -> str:
    """Returns the cluster id of the nearest meta.properties; else the folder's name.

    It looks here, then one directory above, then in all directories one level below. If those disagree, it returns the
    folder's name.
    """
    for places in ((directory,), (directory.parent,), sorted(directory.iterdir())):
        cluster_ids = set(_clusters(places))
        if cluster_ids:
            return cluster_ids.pop() if len(cluster_ids) == 1 else directory.name
    return directory.name


def _clusters(places: Sequence[Path]) -> Iterator[str]:
    for place in places:
        try:
            meta = read_meta_properties(place) if place.is_dir() else None
        except Corrupt:
            continue  # the cluster id cannot be read from it; the log's reader reports the damage
        if meta is not None:
            yield meta.cluster_id
