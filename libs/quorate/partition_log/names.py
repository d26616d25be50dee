"""The names of the files of a data partition and of a log directory with many of them, as Kafka spells them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from quorate.nouns import Offset
from quorate.storage.names import segment_file

PRODUCERS: Final = ".snapshot"
"""The suffix of a producer snapshot: the producers' states below the offset in its name (KIP-98)."""
ABORTED: Final = ".txnindex"
"""The suffix of a segment's index of aborted transactions (KIP-98)."""
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
"""The file that a broker leaves when it stops in order; a start without it scans what was not flushed for certain."""

_PRODUCERS: Final = re.compile(r"(\d{20})\.snapshot")


def producers_file(directory: Path, offset: Offset) -> Path:
    """Returns the path of the producer snapshot at `offset` (exclusive end of what it covers)."""
    return segment_file(directory, offset, PRODUCERS)


def producer_snapshots(directory: Path) -> list[Offset]:
    """Returns the offsets of the producer snapshots in a directory, ascending."""
    return sorted(int(match[1]) for path in directory.iterdir() if (match := _PRODUCERS.fullmatch(path.name)))
