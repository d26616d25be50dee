"""The lock file `.lock` of a log directory, compatible with Kafka's: one process at a time opens the directory."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType

from quorate.storage.files import FILE_MODE
from quorate.storage.names import LOCK

_held: set[tuple[int, int]] = set()
"""Device and inode of each lock that this process holds.

POSIX grants a process its own lock again, and releases it when *any* descriptor of the file is closed. So this
process must not even open the file a second time.
"""


class Locked(Exception):
    """Raised if another process, or another part of this one, has locked the log directory."""


class DirectoryLock:
    """The lock on a log directory, as a context manager. It excludes Java's FileLock as well."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / LOCK
        self._descriptor: int | None = None
        self._key = (0, 0)

    def acquire(self) -> DirectoryLock:
        """Takes the lock, without waiting. Raises Locked, naming the directory, if it is taken."""
        if self._path.exists() and _key(os.stat(self._path)) in _held:
            raise self._locked("this process")
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise self._locked("another process") from None
        self._descriptor, self._key = descriptor, _key(os.fstat(descriptor))
        _held.add(self._key)
        return self

    def release(self) -> None:
        """Releases the lock; the file stays, as Kafka's does."""
        if self._descriptor is not None:
            _held.discard(self._key)
            os.close(self._descriptor)
            self._descriptor = None

    def _locked(self, by: str) -> Locked:
        return Locked(f"{self._path.parent} is locked by {by}; a log directory is opened by one at a time")

    def __enter__(self) -> DirectoryLock:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
