"""Files of logs on this machine or in a store: lists them, and maps their bytes into memory.

A path is a path of this machine, or a URL such as `s3a://bucket/logs`, of a store that `stores` has.
"""

from __future__ import annotations

import glob
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from quorate.pipeline.stores import Entry, S3Access, Store, store_of

__all__ = ["Buffer", "files_at", "is_url", "local_path", "modified_ms", "opened", "size_of", "written"]

Buffer = mmap.mmap | bytes
COPIED_MAX: Final = 64 << 20
"""Longest stretch of a local file that is copied into memory, in bytes: a task's part is; longer ones are mapped."""
_URL: Final = re.compile(r"(?!file:)(\w[\w+.-]*)://")
_FILE_URL: Final = re.compile(r"file:/+")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_WILD: Final = re.compile(r"[*?\[]")


class _Place(NamedTuple):
    """A store, and a path in it."""

    store: Store
    path: str

    def entry(self) -> Entry:
        """Returns what the store has about the file. Raises FileNotFoundError."""
        found = self.store.entry(self.path)
        if found is None:
            raise FileNotFoundError(f"{self.path}: there is no such file")
        return found


def is_url(path: str) -> bool:
    """Returns whether a path is a URL of a store, and no path of this machine.

    >>> [is_url(path) for path in ("s3a://logs/one", "file:///logs/one", "/logs/one")]
    [True, False, False]

    """
    return _URL.match(path) is not None


def local_path(path: str) -> str:
    """Returns the path that a file URL names; any other path stays as it is.

    >>> [local_path(path) for path in ("file:/logs", "file:///logs", "s3a://logs", "logs")]
    ['/logs', '/logs', 's3a://logs', 'logs']

    """
    return _FILE_URL.sub("/", path, count=1) if _FILE_URL.match(path) else path


def written(path: PurePosixPath | Path) -> str:
    """Returns the text of a path: pathlib makes one slash of the two in a URL.

    >>> written(PurePosixPath("s3a://logs/one"))
    's3a://logs/one'

    """
    return str(path) if isinstance(path, Path) else str(path).replace(":/", "://", 1)


def files_at(pattern: str, access: S3Access) -> Iterator[tuple[PurePosixPath | Path, bool]]:
    """Yields the files that a path or a glob names (True), and those below the directories that it names (False).

    `{a,b}` in a glob stands for each of these, as in Hadoop's paths. In a store `*` does not match a `/`, and `**` is
    the same as `*`. Raises FileNotFoundError.
    """
    yield from _remote_files(pattern, access) if is_url(pattern) else _local_files(local_path(pattern))


def size_of(path: str, access: S3Access) -> int:
    """Returns a file's size in bytes. Raises FileNotFoundError."""
    return _place(path, access).entry().size if is_url(path) else Path(path).stat().st_size


def modified_ms(path: str, access: S3Access) -> int:
    """Returns when a file was last modified, in ms since 1970. Raises FileNotFoundError."""
    return _place(path, access).entry().modified_ms if is_url(path) else Path(path).stat().st_mtime_ns // 1_000_000


@contextmanager
def opened(
    path: str, access: S3Access, *, start: int = 0, end: int | None = None, size_max: int | None = None
) -> Iterator[Buffer]:
    """Opens a file as a context manager and yields its bytes, at most the first `size_max`; empty if it has none.

    Only the bytes from `start` to `end` are certain: of a file elsewhere, or a short stretch of a local one, only these
    are read, and all others are zeros, so that a byte has the same position everywhere. Raises OSError, also if the
    file was truncated since its size was read.
    """
    size = size_of(path, access)
    length = size if size_max is None else min(size, size_max)
    if length == 0:
        yield b""
    elif is_url(path):
        stop = length if end is None else min(end, length)
        with mmap.mmap(-1, length) as data:
            if start < stop:
                place = _place(path, access)
                data[start:stop] = place.store.read(place.path, start, stop)
            yield data
    elif end is None or end - start > COPIED_MAX:
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ) as data:
            yield data
    else:
        # A replica may truncate its log meanwhile: beyond the end of a mapping a read is a SIGBUS.
        stop = min(end, length)
        with Path(path).open("rb") as file, mmap.mmap(-1, length) as data:
            file.seek(start)
            found = file.read(max(0, stop - start))
            if len(found) < stop - start:
                raise OSError(f"{path} was cut to {start + len(found)} bytes while {stop} were to be read: start again")
            data[start : start + len(found)] = found
            yield data


def _alternatives(pattern: str) -> list[str]:
    """Returns the globs that a glob with braces stands for, each once.

    >>> _alternatives("logs/{one,t{wo,hree}}/*")
    ['logs/one/*', 'logs/two/*', 'logs/three/*']
    >>> _alternatives("logs/one")
    ['logs/one']

    """
    innermost = _BRACES.search(pattern)
    if innermost is None:
        return [pattern]
    before, after = pattern[: innermost.start()], pattern[innermost.end() :]
    every = (each for choice in innermost[1].split(",") for each in _alternatives(f"{before}{choice}{after}"))
    return list(dict.fromkeys(every))


def _local_files(pattern: str) -> Iterator[tuple[Path, bool]]:
    # Path.glob refuses absolute ones.
    tops = [Path(each) for one in _alternatives(pattern) for each in sorted(glob.glob(one, recursive=True))]
    if Path(pattern).exists() and not tops:
        tops = [Path(pattern)]  # an existing path whose name contains brackets or braces
    if not tops:
        raise FileNotFoundError(f"{pattern}: there is no such file or directory")
    for top in tops:
        if top.is_file():
            yield top.absolute(), True
        elif top.is_dir():
            yield from ((path.absolute(), False) for path in top.rglob("*") if path.is_file())


def _remote_files(pattern: str, access: S3Access) -> Iterator[tuple[PurePosixPath, bool]]:
    whole = pattern.rstrip("/")
    # A path that is there may have braces in its name.
    found = [top for one in _alternatives(whole) for top in _tops(one, access)] or list(_tops(whole, access))
    if not found:
        raise FileNotFoundError(f"{pattern}: there is no such file or directory")
    for store, prefix, top in found:
        below = [top] if top.is_file else store.descendants(top.path)
        yield from ((PurePosixPath(prefix + each.path), top.is_file) for each in below if each.is_file)


def _tops(pattern: str, access: S3Access) -> Iterator[tuple[Store, str, Entry]]:
    """Yields what a glob names in a store, with what the store's paths lack to be URLs."""
    store, path = place = _place(pattern, access)
    yield from ((store, pattern.removesuffix(path), top) for top in map(store.entry, _expanded(place)) if top)


def _expanded(place: _Place) -> list[str]:
    """Lists the paths that a glob may name, level by level; without wildcards the path itself."""
    absolute = "/" if place.path.startswith("/") else ""
    tops = [absolute]
    for name in place.path.strip("/").split("/"):
        if _WILD.search(name):
            below = [each for top in tops for each in place.store.children(top)]
            tops = [each.path for each in below if fnmatchcase(PurePosixPath(each.path).name, name)]
        else:
            tops = [f"{top.rstrip('/')}/{name}" if top.strip("/") else f"{absolute}{name}" for top in tops]
    return tops


def _place(url: str, access: S3Access) -> _Place:
    found = _URL.match(url)
    assert found is not None, url
    return _Place(*store_of(found[1], url[found.end() :], access))
