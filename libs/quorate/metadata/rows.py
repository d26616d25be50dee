"""The partitions of one topic, by number: a list that can go back.

A dict would do the same in a third more room: numbers run from 0 upward without gaps, but for the moment
between two records of one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from kraft import Uuid
from quorate.metadata.faults import ReplayFault
from quorate.metadata.isr_index import IsrIndex
from quorate.metadata.partitions import Partition
from quorate.nouns import NodeId, Offset
from quorate.timeline import SnapshotRegistry
from quorate.timeline.registry import UNCHANGED, Overwritten

__all__ = ["Rows", "RowsAt", "Stretch"]

GAP_MAX: Final = 1 << 20
"""How far a number may lie above the last one: Kafka's checkpoints list a topic in the order of a hash table."""


_STRETCH: Final = 1024
"""Rows of the past that are read at a time, so that a writer of checkpoints can let others have a turn."""


class Stretch(NamedTuple):
    """Neighbours among the partitions of a topic: None, with an empty ISR, where there is none."""

    rows: list[Partition | None]
    isrs: list[tuple[NodeId, ...]]


class Rows(Mapping[int, Partition]):
    """Partitions by number, ascending. Told to the index whenever one is replaced.

    Their ISRs lie side by side, too: who looks for a broker asks every partition that there is, and a million of them
    are not in any cache of the machine's; the ISRs that they share are.
    """

    __slots__ = ("_count", "_index", "_isrs", "_registry", "_rows", "_topic_id", "changed_at")

    def __init__(self, registry: SnapshotRegistry, index: IsrIndex, topic_id: Uuid) -> None:
        # Not registered: a registry's reset empties the dict of topics, and the rows go with them.
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
        """The partition, or None: no other default is of use here."""
        rows = self._rows
        return rows[partition_id] if 0 <= partition_id < len(rows) else None

    def __contains__(self, partition_id: object) -> bool:
        return isinstance(partition_id, int) and self.get(partition_id) is not None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (partition_id for partition_id, row in enumerate(self._rows) if row is not None)

    def pairs(self) -> Iterator[tuple[int, Partition]]:
        """`items()`, several times faster."""
        return ((partition_id, row) for partition_id, row in enumerate(self._rows) if row is not None)

    def stretch(self, start: int, count: int) -> Stretch:
        """Those with so many numbers from `start` on; empty if all numbers lie below."""
        return Stretch(self._rows[start : start + count], self._isrs[start : start + count])

    def in_isr(self, broker: NodeId) -> list[tuple[int, Partition]]:
        """Those that have `broker` in their ISR: what is asked of every partition when a broker is fenced."""
        return [(i, self[i]) for i, isr in enumerate(self._isrs) if broker in isr]

    def at(self, offset: Offset) -> RowsAt:
        """The partitions at the snapshot at `offset`, read-only; values are read when they are reached."""
        assert offset in self._registry, f"no snapshot at offset {offset}; there are {list(self._registry.offsets)}"
        return RowsAt(self, offset)

    def put(self, partition_id: int, partition: Partition) -> None:
        """Lay down a partition, or replace it. Raises ReplayFault for a number that no topic could have."""
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
            self._registry.newest.keep(self).setdefault(partition_id, before)
        if before is None:
            self._count += 1
            self._index.count_in(self._topic_id, partition_id, partition)
        else:
            self._index.count_over(self._topic_id, partition_id, before, partition)

    def clear(self) -> None:
        """Take all out, as when the topic is removed."""
        overwritten: Overwritten = {} if self._registry.newest is None else self._registry.newest.keep(self)
        for partition_id, row in self.pairs():
            overwritten.setdefault(partition_id, row)
            self._index.count_out(self._topic_id, partition_id, row)
        self._rows.clear()
        self._isrs.clear()
        self._count = 0

    def was(self, offset: Offset, partition_id: int) -> Partition | None:
        """The partition at the snapshot at `offset`; None if there was none."""
        for overwritten in self._registry.kept_since(offset, self):
            if partition_id in overwritten:
                before: Partition | None = overwritten[partition_id]
                return before
        return self.get(partition_id)

    def span(self, offset: Offset) -> int:
        """One more than the highest number there is, or was at the snapshot at `offset`."""
        return max(
            [
                len(self._rows),
                *(max(overwritten, default=-1) + 1 for overwritten in self._registry.kept_since(offset, self)),
            ]
        )

    def overwritten_since(self, offset: Offset) -> Mapping[int, Partition | None]:
        """What has been replaced since `offset`, by number, as it was then; None where there was none."""
        since: dict[int, Partition | None] = {}
        for overwritten in self._registry.kept_since(offset, self):
            since = {**overwritten, **since}  # the older one knows better
        return since

    def put_back(self, overwritten: Overwritten) -> None:
        """For the registry: see `Reversible`."""
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

    def empty(self) -> None:
        """For the registry: see `Reversible`."""
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


class RowsAt(Mapping[int, Partition]):
    """Rows as they were at one snapshot: a view, which stays right while the present moves on."""

    __slots__ = ("_offset", "_rows")

    def __init__(self, rows: Rows, offset: Offset) -> None:
        self._rows = rows
        self._offset = offset

    def __getitem__(self, partition_id: int) -> Partition:
        found = self.get(partition_id)
        if found is None:
            raise KeyError(partition_id)
        return found

    def get(self, partition_id: int, default: object = None, /) -> Partition | None:  # type: ignore[override]
        """The partition, or None: no other default is of use here."""
        return self._rows.was(self._offset, partition_id)

    def __len__(self) -> int:
        overwritten = self._rows.overwritten_since(self._offset)
        return len(self._rows) + sum(
            (before is not None) - (partition_id in self._rows) for partition_id, before in overwritten.items()
        )

    def __iter__(self) -> Iterator[int]:
        return (partition_id for partition_id, _ in self.pairs())

    def pairs(self) -> Iterator[tuple[int, Partition]]:
        """`items()`, several times faster: a stretch of rows is read at a time."""
        start = 0
        while start < (span := self._rows.span(self._offset)):
            stretch = range(start, min(span, start + _STRETCH))
            overwritten = self._rows.overwritten_since(self._offset)
            rows = [overwritten[i] if i in overwritten else self._rows.get(i) for i in stretch]
            yield from ((start + i, row) for i, row in enumerate(rows) if row is not None)
            start += _STRETCH

    def in_isr(self, broker: NodeId) -> list[tuple[int, Partition]]:
        """Those that had `broker` in their ISR."""
        return [(i, row) for i, row in self.pairs() if broker in row.isr]
