"""How many partitions each broker leads, and is in the ISR or the ELR of, without asking every partition.

Kafka keeps a list of partitions for each broker. That takes more room than the partitions themselves, and
is needed only when a broker comes or goes. So the numbers are kept, which tell at once whether there is
anything to find and when all of it is found, and the partitions are looked through (`Topics.in_isr`).

The index follows the rows: it is told of each row that is replaced, also when a revert replaces it.
"""

from __future__ import annotations

from collections import defaultdict

from kraft import Uuid
from quorate.metadata.partitions import Partition
from quorate.nouns import NodeId
from quorate.timeline.registry import UNCHANGED, Overwritten

__all__ = ["IsrIndex"]


class IsrIndex:
    """Counts by broker over all partitions of the present, and the partitions that are not as they are to be."""

    __slots__ = ("__weakref__", "changed_at", "elr", "imbalanced", "isr", "leader", "reassigning")

    def __init__(self) -> None:
        self.changed_at = UNCHANGED
        self.leader: defaultdict[NodeId, int] = defaultdict(int)
        """Partitions that each broker leads; under NO_LEADER those that nobody leads."""
        self.isr: defaultdict[NodeId, int] = defaultdict(int)
        self.elr: defaultdict[NodeId, int] = defaultdict(int)
        self.reassigning: dict[tuple[Uuid, int], None] = {}
        """(topic id, partition id) of those that add or remove replicas, in the order in which they began."""
        self.imbalanced: dict[tuple[Uuid, int], None] = {}
        """Those that are not led by their first replica, in the order in which they came to be so."""

    def count_in(self, topic_id: Uuid, partition_id: int, partition: Partition) -> None:
        """A row has come."""
        self.leader[partition.leader] += 1
        if partition.is_imbalanced:
            self.imbalanced[topic_id, partition_id] = None
        isr = self.isr
        for broker in partition.isr:
            isr[broker] += 1
        for broker in partition.elr:
            self.elr[broker] += 1
        if partition.adding_replicas or partition.removing_replicas:
            self.reassigning[topic_id, partition_id] = None

    def count_out(self, topic_id: Uuid, partition_id: int, partition: Partition) -> None:
        """A row has gone."""
        self.leader[partition.leader] -= 1
        if partition.is_imbalanced:
            self.imbalanced.pop((topic_id, partition_id), None)
        isr = self.isr
        for broker in partition.isr:
            isr[broker] -= 1
        for broker in partition.elr:
            self.elr[broker] -= 1
        if partition.adding_replicas or partition.removing_replicas:
            self.reassigning.pop((topic_id, partition_id), None)

    def count_over(self, topic_id: Uuid, partition_id: int, before: Partition, after: Partition) -> None:
        """A row has given way to another: only what differs is counted anew."""
        leads_on = before.leader == after.leader
        if not leads_on:
            self.leader[before.leader] -= 1
            self.leader[after.leader] += 1
        if before.isr != after.isr:
            _recount(self.isr, before.isr, after.isr)
        if before.elr != after.elr:
            _recount(self.elr, before.elr, after.elr)
        if not leads_on or before.replicas != after.replicas:
            _list(self.imbalanced, (topic_id, partition_id), before.is_imbalanced, after.is_imbalanced)
        if before.is_reassigning != after.is_reassigning:
            _list(self.reassigning, (topic_id, partition_id), before.is_reassigning, after.is_reassigning)

    def put_back(self, overwritten: Overwritten) -> None:
        """For the registry: never called, the rows put the counts back."""
        raise AssertionError(f"the index keeps nothing of its own: {overwritten}")

    def empty(self) -> None:
        """For the registry: see `Reversible`."""
        for counts in (self.leader, self.isr, self.elr):
            counts.clear()
        self.reassigning.clear()
        self.imbalanced.clear()


def _recount(counts: defaultdict[NodeId, int], before: tuple[NodeId, ...], after: tuple[NodeId, ...]) -> None:
    for broker in before:
        counts[broker] -= 1
    for broker in after:
        counts[broker] += 1


def _list(listed: dict[tuple[Uuid, int], None], key: tuple[Uuid, int], before: bool, after: bool) -> None:
    """What was and stays in the list keeps its place."""
    if after and not before:
        listed[key] = None
    elif before and not after:
        del listed[key]
