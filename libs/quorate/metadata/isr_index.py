"""Counts of partitions by leader, ISR member and ELR member, so that no search has to read every partition.

Kafka keeps a list of partitions for each broker. Such lists take more memory than the partitions themselves, and are
needed only when a broker starts or stops. So only counts are kept: they show at once whether there is anything to
find, and when all of it is found. The partitions are then scanned (`Topics.in_isr`).

The partition rows call the index for each partition that changes, also during a revert.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from kraft import Uuid
from quorate.metadata.partitions import Partition
from quorate.nouns import NodeId
from quorate.timeline.registry import UNCHANGED, Overwritten

__all__ = ["IsrIndex"]


class IsrIndex:
    """Counts the partitions by leader, ISR member and ELR member, and lists the imbalanced and the reassigning ones.

    The partition rows call it at each change.
    """

    __slots__ = (
        *("__weakref__", "changed_at", "elr", "imbalanced", "isr", "leader", "reassigning", "short"),
        "under_replicated",
    )

    def __init__(self) -> None:
        self.changed_at = UNCHANGED
        self.leader: defaultdict[NodeId, int] = defaultdict(int)
        """Number of partitions by leader; the number without a leader is under NO_LEADER."""
        self.isr: defaultdict[NodeId, int] = defaultdict(int)
        self.elr: defaultdict[NodeId, int] = defaultdict(int)
        self.reassigning: dict[tuple[Uuid, int], None] = {}
        """(topic id, partition id) of the partitions under reassignment, oldest reassignment first."""
        self.imbalanced: dict[tuple[Uuid, int], None] = {}
        """(topic id, partition id) of the partitions that their preferred leader does not lead, oldest first."""
        self.short: dict[tuple[Uuid, int, int], int] = {}
        """Number of partitions with a leader and a replica outside the ISR, by (topic id, ISR size, replica count)."""
        self.under_replicated = 0

    def count_in(self, topic_id: Uuid, partition_id: int, partition: Partition) -> None:
        """Adds a new partition to the counts."""
        self.leader[partition.leader] += 1
        assert (topic_id, partition_id) not in self.imbalanced, (topic_id, partition_id)
        assert (topic_id, partition_id) not in self.reassigning, (topic_id, partition_id)
        if partition.is_imbalanced:
            self.imbalanced[topic_id, partition_id] = None
        isr = self.isr
        for broker in partition.isr:
            isr[broker] += 1
        for broker in partition.elr:
            self.elr[broker] += 1
        if partition.adding_replicas or partition.removing_replicas:
            self.reassigning[topic_id, partition_id] = None
        if partition.is_short:
            self._count_short(topic_id, partition, 1)

    def count_in_all(self, topic_id: Uuid, first_id: int, partitions: Sequence[Partition]) -> None:
        """Adds new partitions of consecutive ids to the counts; those that share one object are counted together."""
        shared = {id(partition): partition for partition in partitions}
        if 2 * len(shared) > len(partitions):
            for partition_id, partition in enumerate(partitions, first_id):
                self.count_in(topic_id, partition_id, partition)
            return
        counts = Counter(map(id, partitions))
        assert counts.total() == len(partitions), (topic_id, first_id, len(partitions))
        listed = {key for key, each in shared.items() if each.is_imbalanced or each.is_reassigning}
        for key, partition in shared.items():
            if key not in listed:
                self._count_alike(topic_id, partition, counts[key])
        if listed:
            for partition_id, partition in enumerate(partitions, first_id):
                if id(partition) in listed:
                    self.count_in(topic_id, partition_id, partition)

    def _count_alike(self, topic_id: Uuid, partition: Partition, count: int) -> None:
        """Adds `count` partitions that are led by their preferred leader and not under reassignment."""
        self.leader[partition.leader] += count
        for broker in partition.isr:
            self.isr[broker] += count
        for broker in partition.elr:
            self.elr[broker] += count
        if partition.is_short:
            self._count_short(topic_id, partition, count)

    def count_out(self, topic_id: Uuid, partition_id: int, partition: Partition) -> None:
        """Takes a removed partition out of the counts."""
        self.leader[partition.leader] -= 1
        assert self.leader[partition.leader] >= 0, (partition.leader, self.leader)
        if partition.is_imbalanced:
            del self.imbalanced[topic_id, partition_id]
        isr = self.isr
        for broker in partition.isr:
            isr[broker] -= 1
            assert isr[broker] >= 0, (broker, partition)
        for broker in partition.elr:
            self.elr[broker] -= 1
            assert self.elr[broker] >= 0, (broker, partition)
        if partition.adding_replicas or partition.removing_replicas:
            del self.reassigning[topic_id, partition_id]
        if partition.is_short:
            self._count_short(topic_id, partition, -1)

    def count_over(self, topic_id: Uuid, partition_id: int, before: Partition, after: Partition) -> None:
        """Updates the counts for a partition that changed. Only the fields that differ are counted again."""
        leads_on = before.leader == after.leader
        if not leads_on:
            self.leader[before.leader] -= 1
            self.leader[after.leader] += 1
            assert self.leader[before.leader] >= 0, (before, after)
        if before.isr != after.isr:
            _recount(self.isr, before.isr, after.isr)
        if before.elr != after.elr:
            _recount(self.elr, before.elr, after.elr)
        if not leads_on or before.replicas != after.replicas:
            _list(self.imbalanced, (topic_id, partition_id), before.is_imbalanced, after.is_imbalanced)
        if before.is_reassigning != after.is_reassigning:
            _list(self.reassigning, (topic_id, partition_id), before.is_reassigning, after.is_reassigning)
        if before.is_short:
            self._count_short(topic_id, before, -1)
        if after.is_short:
            self._count_short(topic_id, after, 1)

    def put_back(self, overwritten: Overwritten) -> None:
        """Never called, since the partition rows restore the counts; required by the interface of the registry."""
        raise AssertionError(f"the index keeps nothing of its own: {overwritten}")

    def empty(self) -> None:
        """Clears all counts, when the registry is reset."""
        for counts in (self.leader, self.isr, self.elr):
            counts.clear()
        self.reassigning.clear()
        self.imbalanced.clear()
        self.short.clear()
        self.under_replicated = 0

    def _count_short(self, topic_id: Uuid, partition: Partition, change: int) -> None:
        key = topic_id, len(partition.isr), len(partition.replicas)
        count = self.short.get(key, 0) + change
        assert count >= 0, (key, count)
        if count:
            self.short[key] = count
        else:
            del self.short[key]  # the entry exists, since the partitions were counted before
        self.under_replicated += change if partition.is_under_replicated else 0
        assert self.under_replicated >= 0, (key, self.under_replicated)


def _recount(counts: defaultdict[NodeId, int], before: tuple[NodeId, ...], after: tuple[NodeId, ...]) -> None:
    for broker in before:
        counts[broker] -= 1
        assert counts[broker] >= 0, (broker, before)
    for broker in after:
        counts[broker] += 1


def _list(listed: dict[tuple[Uuid, int], None], key: tuple[Uuid, int], before: bool, after: bool) -> None:
    """Updates an ordered list of partitions by a condition before and after; one that stays keeps its position."""
    if after and not before:
        listed[key] = None
    elif before and not after:
        del listed[key]
