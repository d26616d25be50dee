"""The table of producer ids: the first id of the next block that is allocated to a broker. KIP-730."""

from __future__ import annotations

from collections.abc import Iterator

from kraft import Message
from quorate.metadata.faults import ReplayFault
from quorate.nouns import Offset
from quorate.records import ProducerIdsRecord
from quorate.timeline import SnapshotRegistry, TimelineValue

__all__ = ["ProducerIds"]


class ProducerIds:
    """Keeps the first producer id that no block contains. As in Kafka's checkpoints, no block's owner is kept."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._next: TimelineValue[int | None] = TimelineValue(registry, None)

    @property
    def next_producer_id(self) -> int:
        """The first id of the next block of producer ids; 0 before the first block."""
        return self._next.value or 0

    def records(self) -> Iterator[tuple[Message, int]]:
        """Yields one ProducerIdsRecord and its record version, or nothing if no block was ever allocated."""
        if self._next.value is not None:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self._next.value), 0

    def give_out(self, record: ProducerIdsRecord, _: Offset) -> None:
        """Applies the allocation of a block of producer ids. Raises ReplayFault unless the next producer id rises."""
        if self._next.value is not None and record.next_producer_id <= self._next.value:
            raise ReplayFault(f"next producer id {record.next_producer_id} must lie above {self._next.value}")
        self._next.value = record.next_producer_id
