"""The mark of a clean stop in a log directory: that nothing is torn there, and in which broker epoch that was.

Kafka's `.kafka_cleanshutdown` (CleanShutdownFileHandler): the controller keeps a broker in ELRs only if it comes back
with the epoch that it had at its clean stop (KIP-966).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from quorate.partition_log.names import CLEAN_SHUTDOWN
from quorate.storage.files import replace_whole, sync_directory

VERSION: Final = 0
UNKNOWN_EPOCH: Final = -1


def read_mark(directory: Path) -> int | None:
    """Returns the broker epoch of the mark: UNKNOWN_EPOCH if it says none, as an older Kafka's; None without a mark."""
    try:
        text = (directory / CLEAN_SHUTDOWN).read_bytes()
    except FileNotFoundError:
        return None
    return _epoch(text)


def remove_mark(directory: Path) -> None:
    """Removes the mark, durably, before the first log is opened: from now on a stop counts as unclean."""
    (directory / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    sync_directory(directory)


def leave_mark(directory: Path, *, broker_epoch: int) -> None:
    """Writes the mark, with the broker epoch, durably. Every log of the directory is flushed and closed by then."""
    content = {"version": VERSION, "brokerEpoch": broker_epoch}
    replace_whole(directory / CLEAN_SHUTDOWN, json.dumps(content, separators=(",", ":")).encode("ascii"))


def _epoch(text: bytes) -> int:
    try:
        found = json.loads(text)
        return found["brokerEpoch"] if type(found["brokerEpoch"]) is int else UNKNOWN_EPOCH
    except (ValueError, TypeError, KeyError):
        return UNKNOWN_EPOCH
