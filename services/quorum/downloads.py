"""Tracks which snapshots replicas are downloading from this node, so that the cleaner does not remove them.

Kafka removes a snapshot while it is read: the replica gets SNAPSHOT_NOT_FOUND and starts with the next one. If a
download takes longer than the time between two snapshots, and only one fits the retention, it never completes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.nouns import OffsetAndEpoch

QUIET_MS: Final = 5_000
"""Time (ms) for which a snapshot stays after its last chunk was read; the next chunk is requested within it."""
HELD_MAX_MS: Final = 600_000
"""Longest time (ms) for which a download keeps a snapshot, from its first chunk on, so that the disk does not fill."""


@dataclass(slots=True)
class _Download:
    """The times (ms) at which the first and the last chunk of a snapshot were read."""

    first_ms: int
    last_ms: int


class Downloads:
    """Knows which snapshots replicas are downloading from this node, so that they are not removed meanwhile.

    Times are the caller's monotonic clock in ms.
    """

    def __init__(self) -> None:
        self._known: dict[OffsetAndEpoch, _Download] = {}

    def read(self, snapshot: OffsetAndEpoch, *, now_ms: int) -> None:
        """Notes that a chunk of the snapshot was read for a replica."""
        self._known = {each: known for each, known in self._known.items() if not _is_quiet(known, now_ms)}
        known = self._known.setdefault(snapshot, _Download(now_ms, now_ms))
        assert known.first_ms <= known.last_ms <= now_ms, (snapshot, known, now_ms)
        known.last_ms = now_ms

    def holds(self, snapshot: OffsetAndEpoch, *, now_ms: int) -> bool:
        """Whether a download keeps a snapshot from removal: for `QUIET_MS` (ms) after each chunk that was read.

        It ends `HELD_MAX_MS` after the first chunk in any case. False for a snapshot that nobody downloads.
        """
        known = self._known.get(snapshot)
        return known is not None and not _is_quiet(known, now_ms) and now_ms < known.first_ms + HELD_MAX_MS


def _is_quiet(known: _Download, now_ms: int) -> bool:
    return now_ms >= known.last_ms + QUIET_MS
