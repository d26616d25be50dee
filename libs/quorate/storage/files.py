"""Writing so that it stays written: aside, synced, renamed, and the directory synced too."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from quorate.errors import Corrupt
from quorate.storage.failpoints import reach
from quorate.storage.names import TEMPORARY

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
"""The log holds password hashes and ACLs: it is its owner's alone. A JVM of the same user is not hindered."""

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The disk, the owner's share of it, or the size that a file may have, is used up."""


class NoSpace(OSError):
    """There is no room for what was to be written; nothing of it is left behind, and it may go better later."""


def replace_whole(path: Path, data: bytes, *, mode: int = FILE_MODE, failpoints: str = "file") -> None:
    """Make `data` the content of `path`, now and after a power cut: the old content or the new one, never a part.

    Raises OSError; then the old content is still there, and nothing else is. `failpoints` names the places on the way.
    """
    aside = path.with_name(path.name + TEMPORARY)
    try:
        write_synced(aside, data, mode=mode, failpoints=failpoints)
        reach(f"{failpoints}.before_rename")
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
    reach(f"{failpoints}.after_rename")


def write_synced(path: Path, data: bytes, *, mode: int = FILE_MODE, failpoints: str = "file") -> None:
    """Write a new file and wait for the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        write_all(descriptor, data, 0)
        reach(f"{failpoints}.before_tmp_fsync")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes | memoryview, position: int) -> None:
    """Write every byte at `position`; a short write is gone on with."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, position)
        position += written
        view = view[written:]


def read_at(descriptor: int, size: int, position: int, *, path: Path) -> bytes:
    """What the file has there, `size` bytes at most. Raises Corrupt where the disk does not give it back."""
    try:
        reach("file.before_read")
        return os.pread(descriptor, size, position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Corrupt(f"the disk does not give it back: {error}", path=path, position=position) from error


def room_for(size: int, directory: Path) -> int:
    """How many bytes the file system has left for its ordinary users, at least `size`. Raises NoSpace."""
    disk = os.statvfs(directory)
    room = disk.f_bavail * disk.f_frsize
    if size > room:
        raise NoSpace(
            errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {size} bytes are wanted, {room} left", str(directory)
        )
    return room


def make_directory(path: Path) -> None:
    """Make a directory, durably, if it is not there."""
    if not path.is_dir():
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make creations, renames and removals in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


assert os.name == "posix", "the lock and the directory syncs are POSIX's"
