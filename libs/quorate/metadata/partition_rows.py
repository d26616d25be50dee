"""The partitions of one topic in a list by partition id, with undo through the snapshot registry.

Partition ids run from 0 upward without gaps, except between two records of one batch. So a list is enough; a dict
would need a third more memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kraft import Uuid
from quorate.metadata.faults import ReplayFault
from quorate.metadata.isr_index import IsrIndex
from quorate.metadata.partitions import Partition
from quorate.nouns import NodeId, Offset
from quorate.timeline import SnapshotRegistry
from quorate.timeline.registry import UNCHANGED, Overwritten

__all__ = ["PartitionRows", "PartitionRowsAt", "PartitionSlice"]

GAP_MAX: Final = 1 << 20
"""The largest allowed gap between a new partition id and the last: Kafka's checkpoints list partitions unsorted."""


_CHUNK_ROWS: Final = 1024
"""Rows of a past state that are read in one chunk, so that a checkpoint writer can yield to other tasks."""


class PartitionSlice(NamedTuple):
    """Partitions of a topic with consecutive ids, and their ISRs; for a missing partition None and an empty ISR."""

    rows: list[Partition | None]
    isrs: list[tuple[NodeId, ...]]


class PartitionRows(Mapping[int, Partition]):
    """The partitions of a topic by id, ascending. Each change also updates the counts of the index.

    ISRs are kept in a parallel list: a search for a broker reads the ISR of every partition, and a million Partition
    objects do not fit into the CPU's cache. ISR tuples are shared, so they do.
    """

    __slots__ = ("_count", "_index", "_isrs", "_registry", "_rows", "_topic_id", "changed_at")

    def __init__(self, registry: SnapshotRegistry, index: IsrIndex, topic_id: Uuid) -> None:
        # Not registered: a reset of the registry empties the dict of topics, and the rows go with their topic.
        self._registry = registry
        self._index = index
        self._topic_id = topic_id
        self._rows: list[Partition | None] = []
        self._isrs: list[tuple[NodeId, ...]] = []
        self._count = 0
        self.changed_at = UNCHANGED

    def __getitem__(self, partition_id: int) -> Partition:
        found = self.get(partition_id)
        if found is None:
            raise KeyError(partition_id)
        return found

    def get(self, partition_id: int, default: object = None, /) -> Partition | None:  # type: ignore[override]
        """Returns the partition with this id, or None. `default` is ignored."""
        rows = self._rows
        return rows[partition_id] if 0 <= partition_id < len(rows) else None

    def __contains__(self, partition_id: object) -> bool:
        return isinstance(partition_id, int) and self.get(partition_id) is not None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (partition_id for partition_id, row in enumerate(self._rows) if row is not None)

    def pairs(self) -> Iterator[tuple[int, Partition]]:
        """Yields (partition id, partition) pairs as `items()` does, several times faster."""
        return ((partition_id, row) for partition_id, row in enumerate(self._rows) if row is not None)

    def stretch(self, start: int, count: int) -> PartitionSlice:
        """Returns the partitions of up to `count` ids from `start` on; empty if `start` lies above all ids."""
        return PartitionSlice(self._rows[start : start + count], self._isrs[start : start + count])

    def in_isr(self, broker: NodeId) -> list[tuple[int, Partition]]:
        """Returns the partitions that have `broker` in their ISR, with their ids; needed when a broker is fenced."""
        return [(i, self[i]) for i, isr in enumerate(self._isrs) if broker in isr]

    def at(self, offset: Offset) -> PartitionRowsAt:
        """Returns a read-only view of the partitions at the snapshot at `offset`. Values are looked up on access."""
        assert offset in self._registry, f"no snapshot at offset {offset}; there are {list(self._registry.offsets)}"
        return PartitionRowsAt(self, offset)

    def put(self, partition_id: int, partition: Partition) -> None:
        """Creates or replaces a partition. Raises ReplayFault for a negative id, or a gap of more than GAP_MAX."""
        rows = self._rows
        if partition_id == len(rows):
            before = None
            rows.append(partition)
            self._isrs.append(partition.isr)
        else:
            if not 0 <= partition_id < len(rows):
                self._make_room(partition_id)
            before = rows[partition_id]
            rows[partition_id] = partition
            self._isrs[partition_id] = partition.isr
        if self._registry.newest is not None:
            self._registry.newest.overwriting(self).setdefault(partition_id, before)
        if before is None:
            self._count += 1
            assert self._count <= len(rows) == len(self._isrs), (self._count, len(rows), len(self._isrs))
            self._index.count_in(self._topic_id, partition_id, partition)
        else:
            self._index.count_over(self._topic_id, partition_id, before, partition)

    def extend(self, partitions: Sequence[Partition]) -> None:
        """Creates partitions with the ids from `next_id` on, in the order given."""
        first_id = len(self._rows)
        self._rows += partitions
        self._isrs += [partition.isr for partition in partitions]
        if self._registry.newest is not None:
            overwritten = self._registry.newest.overwriting(self)
            for partition_id in range(first_id, len(self._rows)):
                overwritten.setdefault(partition_id, None)
        self._count += len(partitions)
        assert self._count <= len(self._rows) == len(self._isrs), (self._count, len(self._rows), len(self._isrs))
        self._index.count_in_all(self._topic_id, first_id, partitions)

    @property
    def next_id(self) -> int:
        """The id after the highest partition id; 0 without partitions."""
        return len(self._rows)

    def clear(self) -> None:
        """Removes all partitions, when the topic is removed."""
        overwritten: Overwritten = {} if self._registry.newest is None else self._registry.newest.overwriting(self)
        for partition_id, row in self.pairs():
            overwritten.setdefault(partition_id, row)
            self._index.count_out(self._topic_id, partition_id, row)
            self._count -= 1
        assert self._count == 0, self._count
        self._rows.clear()
        self._isrs.clear()

    def was(self, offset: Offset, partition_id: int) -> Partition | None:
        """Returns the partition as it was at the snapshot at `offset`; None if it did not exist then."""
        for overwritten in self._registry.overwritten_since(offset, self):
            if partition_id in overwritten:
                before: Partition | None = overwritten[partition_id]
                return before
        return self.get(partition_id)

    def end(self, offset: Offset) -> int:
        """Returns the highest partition id of now and of the snapshot at `offset`, plus one."""
        return max(
            [
                len(self._rows),
                *(max(overwritten, default=-1) + 1 for overwritten in self._registry.overwritten_since(offset, self)),
            ]
        )

    def overwritten_since(self, offset: Offset) -> Mapping[int, Partition | None]:
        """Returns the old values of the partitions replaced since `offset`, by id; None for one that did not exist."""
        since: dict[int, Partition | None] = {}
        for overwritten in self._registry.overwritten_since(offset, self):
            since = {**overwritten, **since}  # the value of the older snapshot counts
        return since

    def put_back(self, overwritten: Overwritten) -> None:
        """Undoes changes when the registry reverts: sets the overwritten partitions again and corrects the index."""
        rows, isrs = self._rows, self._isrs
        self._extend(max(overwritten, default=-1) + 1 - len(rows))
        for partition_id, before in overwritten.items():
            after = self.get(partition_id)
            if after is not None:
                self._index.count_out(self._topic_id, partition_id, after)
                self._count -= 1
            rows[partition_id], isrs[partition_id] = before, () if before is None else before.isr
            if before is not None:
                self._index.count_in(self._topic_id, partition_id, before)
                self._count += 1
        while rows and rows[-1] is None:
            rows.pop()
            isrs.pop()
        assert 0 <= self._count <= len(rows), (self._count, len(rows))
        assert len(isrs) == len(rows), (len(isrs), len(rows))

    def empty(self) -> None:
        """Never called, since these rows are not registered; required by the interface of the registry."""
        raise AssertionError("rows are not registered: they go with their topic")

    def _make_room(self, partition_id: int) -> None:
        missing = partition_id + 1 - len(self._rows)
        if partition_id < 0 or missing > GAP_MAX:
            raise ReplayFault(
                f"partition {partition_id} of a topic that has {self._count} partitions; "
                f"numbers run from 0 upward, at most {GAP_MAX} ahead"
            )
        self._extend(missing)

    def _extend(self, missing: int) -> None:
        self._rows.extend([None] * missing)
        self._isrs.extend([()] * missing)


class PartitionRowsAt(Mapping[int, Partition]):
    """A read-only view of a topic's partitions at one snapshot. It stays correct while newer records are applied."""

    __slots__ = ("_offset", "_rows")

    def __init__(self, rows: PartitionRows, offset: Offset) -> None:
        self._rows = rows
        self._offset = offset

    def __getitem__(self, partition_id: int) -> Partition:
        found = self.get(partition_id)
        if found is None:
            raise KeyError(partition_id)
        return found

    def get(self, partition_id: int, default: object = None, /) -> Partition | None:  # type: ignore[override]
        """Returns the partition with this id, or None. `default` is ignored."""
        return self._rows.was(self._offset, partition_id)

    def __len__(self) -> int:
        overwritten = self._rows.overwritten_since(self._offset)
        return len(self._rows) + sum(
            (before is not None) - (partition_id in self._rows) for partition_id, before in overwritten.items()
        )

    def __iter__(self) -> Iterator[int]:
        return (partition_id for partition_id, _ in self.pairs())

    def pairs(self) -> Iterator[tuple[int, Partition]]:
        """Yields (partition id, partition) pairs as `items()` does, several times faster, by reading chunks of rows."""
        start = 0
        while start < (end := self._rows.end(self._offset)):
            chunk = range(start, min(end, start + _CHUNK_ROWS))
            overwritten = self._rows.overwritten_since(self._offset)
            rows = [overwritten[i] if i in overwritten else self._rows.get(i) for i in chunk]
            yield from ((start + i, row) for i, row in enumerate(rows) if row is not None)
            start += _CHUNK_ROWS

    def in_isr(self, broker: NodeId) -> list[tuple[int, Partition]]:
        """Returns the partitions that had `broker` in their ISR, with their ids."""
        return [(i, row) for i, row in self.pairs() if broker in row.isr]
