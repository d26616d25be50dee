"""Segments that are written, and may not be on the disk yet: a thread waits for them beside appends and reads.

With the batches go the indexes and the leader epochs, as in Kafka: below the recovery point a start trusts all files.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.nouns import Offset
from quorate.partition_log.names import ABORTED
from quorate.storage.files import naming, sync_directory
from quorate.storage.names import INDEX, LEADER_EPOCHS, LOG, TIME_INDEX

OF_A_SEGMENT: Final = (LOG, INDEX, TIME_INDEX, ABORTED)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unflushed:
    """Segments of one log by their `.log` files, and its recovery point (exclusive) once they are flushed."""

    directory: Path
    segments: tuple[Path, ...]
    end: Offset

    def flush(self) -> None:
        """Waits until all is on the disk. Raises OSError: the log directory then counts as failed (KIP-112).

        A file that is gone has nothing to lose: it was deleted, truncated away, or went with its whole directory.
        """
        for segment in self.segments:
            for suffix in OF_A_SEGMENT:
                _flush(segment.with_suffix(suffix))
        _flush(self.directory / LEADER_EPOCHS)
        with suppress(FileNotFoundError):
            sync_directory(self.directory)


def _flush(path: Path) -> None:
    """Linux syncs a file by whichever descriptor, and tells an error that nobody has heard of to the next that asks."""
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        with naming(path):
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
