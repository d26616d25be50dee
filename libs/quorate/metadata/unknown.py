"""Records that this schema does not know: kept as they came, shown, written back, never dropped.

A JVM stops at the first one. A reader of somebody else's log should not.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft import Message
from quorate.nouns import Offset
from quorate.records import UnknownRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["Unknown"]


class Unknown:
    """Unknown records in the order in which they came: one may replace another, but who could tell."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._kept: TimelineDict[int, UnknownRecord] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[UnknownRecord]:
        """All of them, oldest first."""
        return iter([self._kept[place] for place in range(len(self._kept))])

    def records(self) -> Iterator[tuple[Message, int]]:
        """All of them, oldest first, each in its own version."""
        for record in self:
            yield record, record.version

    def keep(self, record: UnknownRecord, _: Offset) -> None:
        """One more."""
        self._kept[len(self._kept)] = record
