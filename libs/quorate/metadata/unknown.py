"""Records of unknown type or version: an observer keeps them raw and writes them back, a controller refuses them.

A process that decides by the state must understand every record, so a controller stops at the first unknown one, as
Kafka does. A process that only reads a log goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from kraft import Message
from quorate.metadata.faults import ReplayFault
from quorate.nouns import Offset
from quorate.records import UnknownRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["Unknown"]


class Unknown:
    """The table of unknown records, in log order. One may replace another; without the schema nobody can know.

    With `are_faults` each unknown record raises ReplayFault, and none is added.
    """

    def __init__(self, registry: SnapshotRegistry, *, are_faults: bool = False) -> None:
        self._are_faults = are_faults
        self._records: TimelineDict[int, UnknownRecord] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[UnknownRecord]:
        """Yields all unknown records, oldest first."""
        return iter([self._records[place] for place in range(len(self._records))])

    def records(self) -> Iterator[tuple[Message, int]]:
        """Yields all unknown records, oldest first, each with its own version."""
        for record in self:
            yield record, record.version

    def keep(self, record: UnknownRecord, _: Offset) -> None:
        """Adds an unknown record. Raises ReplayFault if unknown records are faults here."""
        if self._are_faults:
            raise ReplayFault(
                f"record type {record.api_key} in version {record.version} is not known here: who wrote it is newer"
            )
        place = len(self._records)
        assert place not in self._records, (place, record)  # records are only added, or undone from the last one on
        self._records[place] = record
