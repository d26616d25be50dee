"""Durable file writes: write a temporary file, fsync, rename, fsync the directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from quorate.errors import Corrupt
from quorate.storage.failpoints import reach
from quorate.storage.names import TEMPORARY

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
"""Permissions of files and directories: owner only, since the log holds password hashes and ACLs.

A JVM of the same user can read and write them.
"""

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers for no room: the disk is full, the user's quota is used up, or the file would be too large."""


class NoSpace(OSError):
    """Raised when there is no room for a write. Nothing of it is left behind, and a later try may succeed."""


def replace_whole(path: Path, data: bytes, *, mode: int = FILE_MODE, failpoints: str = "file") -> None:
    """Replaces the content of `path` atomically: a power loss leaves the old content or the new, never a part.

    Raises OSError; then the old content is still there. `failpoints` is the prefix of the failpoints that are reached.
    """
    with _aside(path) as aside:
        write_synced(aside, data, mode=mode, failpoints=failpoints)
        reach(f"{failpoints}.before_rename")
    sync_directory(path.parent)
    reach(f"{failpoints}.after_rename")


def replace_unsynced(path: Path, data: bytes) -> None:
    """Replaces the content of `path` without a sync: it outlives a kill of the process; a power loss may damage it.

    Raises OSError; then the old content is still there.
    """
    with _aside(path) as aside:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        try:
            with naming(aside):
                write_all(descriptor, data, 0)
        finally:
            os.close(descriptor)


@contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Has a file written beside `path`, and puts it in its place."""
    aside = path.with_name(path.name + TEMPORARY)
    try:
        yield aside
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds `path` to an OSError of the block that names no file, so that the operator knows which disk to look at."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_synced(path: Path, data: bytes, *, mode: int = FILE_MODE, failpoints: str = "file") -> None:
    """Writes `data` as the whole content of a new or existing file, and syncs it; not its directory. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with naming(path):
            write_all(descriptor, data, 0)
            reach(f"{failpoints}.before_tmp_fsync")
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview, position: int) -> None:
    """Writes all bytes at `position`, and continues after a short write."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        position += written
        view = view[written:]


def read_at(descriptor: int, size: int, position: int, *, path: Path) -> bytes:
    """Returns up to `size` bytes at `position`, fewer at the end. Raises Corrupt for a read error of the disk (EIO)."""
    try:
        reach("file.before_read")
        return os.pread(descriptor, size, position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Corrupt(f"it cannot be read from the disk: {error}", path=path, position=position) from error


def free_bytes(directory: Path) -> int:
    """Returns the free bytes of the file system for ordinary users."""
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


def room_for(size: int, directory: Path) -> int:
    """Returns the free bytes of the file system for ordinary users. Raises NoSpace if they are fewer than `size`."""
    room = free_bytes(directory)
    if size > room:
        raise NoSpace(
            errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {size} bytes are needed, {room} are free", str(directory)
        )
    return room


def make_directory(path: Path) -> None:
    """Creates a directory and its parents, durably, unless they exist."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes creations, renames and removals in a directory durable (fsync)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


assert os.name == "posix", "the lock and the directory syncs are POSIX's"
