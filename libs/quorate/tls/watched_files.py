"""Whether files have changed since they were last taken, without reading them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["LOOK_AGAIN_S", "WatchedFiles"]

LOOK_AGAIN_S: Final = 1.0
"""How often (s) files are looked at: a stat call each, and a new certificate is in use soon after it is there."""

_Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""The signature of a state of files: for each its inode, size and time of change in ns."""


class WatchedFiles:
    """Detects that files have changed since they were last taken, by inode, size and time of modification."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Notes their state; the caller reads them afterwards."""
        self._files = files
        self._taken = _stamp_of(files)
        self._refused: _Stamp | None = None

    def look(self, take: Callable[[], None]) -> str | None:
        """Calls `take` if the files are not those in use. Returns why it refused them (its ValueError), else None.

        Refused files are tried at each look, since what was wrong may be their mode or owner, which the state does not
        show; the reason is returned once for each state.
        """
        stamp = _stamp_of(self._files)
        if stamp == self._taken:
            return None
        try:
            take()
        except ValueError as problem:
            is_told, self._refused = stamp == self._refused, stamp
            return None if is_told else str(problem)
        self._taken, self._refused = stamp, None
        return None


def _stamp_of(files: Sequence[Path]) -> _Stamp:
    """Returns the state of the files; None for one that is not there. Links are followed."""

    def of(file: Path) -> tuple[int, int, int] | None:
        try:
            found = os.stat(file)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    return tuple(map(of, files))
