"""Files of logs on this machine or in an object store: lists them, and maps their bytes into memory.

A path is a path of this machine, or a URL such as `s3a://bucket/logs`, which is read by PyArrow's file systems: `s3`
and `s3a`, `gs`, `abfs` and `abfss`, and `hdfs`, which also needs Hadoop's native client (libhdfs).
"""

from __future__ import annotations

import glob
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

__all__ = ["Buffer", "S3Access", "files_at", "is_url", "local_path", "modified_ms", "opened", "size_of", "written"]

Buffer = mmap.mmap | bytes
COPIED_MAX: Final = 64 << 20
"""Longest stretch of a local file that is copied into memory, in bytes: a task's part is; longer ones are mapped."""
_URL: Final = re.compile(r"(?!file:)(\w[\w+.-]*)://")
_FILE_URL: Final = re.compile(r"file:/+")
_S3: Final = ("s3", "s3a", "s3n")
_WILD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """How an S3 server is reached; what is None comes from the environment, as for any client of AWS."""

    endpoint: str | None = None
    """`host:port`, or a URL; None for Amazon's own."""
    region: str | None = None
    is_encrypted: bool = True
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)


class _Place(NamedTuple):
    """A file system of PyArrow, and a path in it."""

    system: FileSystem
    path: str

    def info(self) -> FileInfo:
        """Returns what the store has about the file. Raises FileNotFoundError."""
        found = self.system.get_file_info(self.path)
        if found.type.name == "NotFound":
            raise FileNotFoundError(f"{self.path}: there is no such file")
        return found


def is_url(path: str) -> bool:
    """Returns whether a path is a URL of an object store, and no path of this machine.

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

    In an object store `*` does not match a `/`, and `**` is the same as `*`. Raises FileNotFoundError.
    """
    yield from _remote_files(pattern, access) if is_url(pattern) else _local_files(local_path(pattern))


def size_of(path: str, access: S3Access) -> int:
    """Returns a file's size in bytes. Raises FileNotFoundError."""
    return int(_place(path, access).info().size) if is_url(path) else Path(path).stat().st_size


def modified_ms(path: str, access: S3Access) -> int:
    """Returns when a file was last modified, in ms since 1970. Raises FileNotFoundError."""
    found = _place(path, access).info().mtime_ns if is_url(path) else Path(path).stat().st_mtime_ns
    return 0 if found is None else int(found) // 1_000_000


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
                with place.system.open_input_file(place.path) as file:
                    data[start:stop] = file.read_at(stop - start, start)
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


def _local_files(pattern: str) -> Iterator[tuple[Path, bool]]:
    tops = [Path(each) for each in sorted(glob.glob(pattern, recursive=True))]  # Path.glob refuses absolute ones
    if Path(pattern).exists() and not tops:
        tops = [Path(pattern)]  # an existing path whose name contains brackets
    if not tops:
        raise FileNotFoundError(f"{pattern}: there is no such file or directory")
    for top in tops:
        if top.is_file():
            yield top.absolute(), True
        elif top.is_dir():
            yield from ((path.absolute(), False) for path in top.rglob("*") if path.is_file())


def _remote_files(pattern: str, access: S3Access) -> Iterator[tuple[PurePosixPath, bool]]:
    from pyarrow.fs import FileSelector

    place = _place(pattern.rstrip("/"), access)
    prefix = pattern.rstrip("/").removesuffix(place.path)
    tops = [info for path in _expanded(place) if (info := place.system.get_file_info(path)).type.name != "NotFound"]
    if not tops:
        raise FileNotFoundError(f"{pattern}: there is no such file or directory")
    for top in tops:
        if top.is_file:
            yield PurePosixPath(prefix + top.path), True
        else:
            below = place.system.get_file_info(FileSelector(top.path, recursive=True))
            yield from ((PurePosixPath(prefix + each.path), False) for each in below if each.is_file)


def _expanded(place: _Place) -> list[str]:
    """Lists the paths that a glob may name, level by level; without wildcards the path itself."""
    from pyarrow.fs import FileSelector

    absolute = "/" if place.path.startswith("/") else ""
    tops = [absolute]
    for name in place.path.strip("/").split("/"):
        if _WILD.search(name):
            levels = [FileSelector(top, allow_not_found=True) for top in tops]
            below = [each for level in levels for each in place.system.get_file_info(level)]
            tops = [each.path for each in below if fnmatchcase(each.base_name, name)]
        else:
            tops = [f"{top.rstrip('/')}/{name}" if top.strip("/") else f"{absolute}{name}" for top in tops]
    return tops


def _place(url: str, access: S3Access) -> _Place:
    from pyarrow.fs import FileSystem

    found = _URL.match(url)
    assert found is not None, url
    if found[1] in _S3:
        return _Place(_s3(access), url[found.end() :])
    return _Place(*FileSystem.from_uri(url))


@cache
def _s3(access: S3Access) -> FileSystem:
    from pyarrow.fs import S3FileSystem

    given = {
        "endpoint_override": access.endpoint,
        "region": access.region,
        "access_key": access.access_key,
        "secret_key": access.secret_key,
        "session_token": access.session_token,
    }
    scheme = "https" if access.is_encrypted else "http"
    return S3FileSystem(scheme=scheme, **{name: value for name, value in given.items() if value is not None})
