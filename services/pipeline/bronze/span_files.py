"""Which files hold spans, or which database; of which kind they are, and whose."""

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
"""What every SQLite file begins with."""
STORE_SUFFIXES: Final = (".db", ".sqlite", ".sqlite3")
PACKED: Final = ".gz"
LINE_SUFFIXES: Final = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")


class SpanFile(NamedTuple):
    """A trace store of the observer's, or lines of OTLP, and the cluster that it is of unless a span says another."""

    path: str
    cluster_id: str
    is_store: bool
    size: int
    modified_ns: int
    url: str | None = None
    """Of a database, whose `path` is what may be told of it: then `size` is its last number, `modified_ns` a count."""

    @property
    def version(self) -> tuple[str, str, int, int]:
        """What tells whether it has changed: cluster, path, size, and ns since 1970."""
        return self.cluster_id, self.path, self.size, self.modified_ns

    @property
    def is_in_use(self) -> bool:
        """Has a store a journal beside it? What is written lies there before it changes the file."""
        return self.is_store and Path(f"{self.path}-wal").exists()

    def may_grow(self, by_ms: int) -> bool:
        """May it end in half a line, or half a packed stream? It has changed since `by_ms` (ms since 1970) then."""
        if self.is_store or self.size == 0 or self.modified_ns // 1_000_000 <= by_ms:
            return False
        return self.path.endswith(PACKED) or not _ends_a_line(self.path, self.size)


def find_spans(pattern: str, *, cluster_id: str | None = None) -> list[SpanFile]:
    """The trace stores and OTLP files at or below a path or glob, or the one at a database's URL.

    In a directory files are known by their suffix; a file that is named is a store if it is SQLite's, else lines.
    Raises FileNotFoundError, naming it, and OSError for a database that cannot be read.
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
    # Here, as who reads files needs no SQLAlchemy.
    from services.pipeline.bronze.span_database import look, place_of

    try:
        place = place_of(url)
    except ValueError as problem:
        raise OSError(str(problem)) from None
    extent = look(url)
    return SpanFile(place, cluster_id or place.rpartition("/")[2], True, extent.high, extent.spans, url)


def _file(path: Path, cluster_id: str) -> Iterator[SpanFile]:
    with suppress(FileNotFoundError):  # a collector gives its files other names, and packs them
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
    """The cluster that meta.properties says: here, above, or one below, as a control plane on one machine has it."""
    for places in ((directory,), (directory.parent,), sorted(directory.iterdir())):
        said = set(_clusters(places))
        if said:
            return said.pop() if len(said) == 1 else directory.name
    return directory.name


def _clusters(places: Sequence[Path]) -> Iterator[str]:
    for place in places:
        try:
            meta = read_meta_properties(place) if place.is_dir() else None
        except Corrupt:
            continue  # no word on whose it is; who reads the log tells of it
        if meta is not None:
            yield meta.cluster_id
