"""Whether files have changed since they were last read, without reading them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, TypeAlias

__all__ = ["LOOK_AGAIN_S", "Stamp", "stamp_of"]

LOOK_AGAIN_S: Final = 1.0
"""How often (s) files are looked at: a stat call each, and a new certificate is in use soon after it is there."""

Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""What tells one state of files from another: for each its inode, size and time of change in ns."""


def stamp_of(*files: Path) -> Stamp:
    """Returns the state of the files; None for one that is not there. Links are followed."""

    def of(file: Path) -> tuple[int, int, int] | None:
        try:
            found = os.stat(file)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    return tuple(map(of, files))
