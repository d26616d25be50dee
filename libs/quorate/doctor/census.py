"""One walk over all partitions, for the rules of partitions, of topics and of brokers: it costs most, at a million."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from kraft import Uuid
from quorate.metadata.partitions import NO_LEADER, RECOVERING, Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.nouns import NodeId

__all__ = ["Census", "Placed", "TopicCount", "count_partitions"]

Placed: TypeAlias = tuple[NodeId, Uuid]
"""A broker, and the log directory of a replica on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCount:
    """A topic that has partitions, and what is counted of these."""

    topic: Topic
    unsound: Sequence[tuple[int, Partition]]
    """Partitions that a rule may object to, with their ids; none does to the others, nearly all in a large cluster."""
    single: int
    """How many have one replica."""
    fewest: int
    """The smallest replication factor."""
    crowded: Sequence[int]
    """Of those on fewer racks than can be: on how many each is. One with a replica of unknown rack is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The counts of one state."""

    topics: Sequence[TopicCount]
    replicas: Counter[Placed]
    """Replicas by where they are."""
    preferred: Counter[Placed]
    """Those of them that are the first of their partition."""


def count_partitions(state: ClusterState) -> Census:
    """Returns the counts of all partitions; a topic without partitions is left out."""
    racks = {broker.id: broker.rack for broker in state.brokers}
    rack_count = len({rack for rack in racks.values() if rack is not None})
    topics: list[TopicCount] = []
    replicas: Counter[Placed] = Counter()
    preferred: Counter[Placed] = Counter()
    for topic in state.topics:
        rows = list(topic.pairs())
        if not rows:
            continue
        lists = [each.replicas for _, each in rows]
        directories = [each.directories for _, each in rows]
        replicas.update(chain.from_iterable(map(zip, lists, directories)))
        preferred.update((each[0], of[0]) for each, of in zip(lists, directories, strict=True) if each and of)
        sizes = list(map(len, lists))
        counted = TopicCount(
            topic=topic,
            unsound=[row for row in rows if not _is_sound(row[1])],
            single=sizes.count(1),
            fewest=min(sizes),
            crowded=_crowded(lists, racks, rack_count) if rack_count > 1 else (),
        )
        topics.append(counted)
    return Census(topics=topics, replicas=replicas, preferred=preferred)


def _is_sound(partition: Partition) -> bool:
    """Whether no rule can object to a partition, as far as its present state tells: to ask each rule costs time."""
    return (
        len(partition.isr) == len(partition.replicas)
        and partition.leader != NO_LEADER
        and partition.leader_recovery_state != RECOVERING
        and not (partition.elr or partition.adding_replicas or partition.removing_replicas)
    )


def _crowded(lists: Collection[Sequence[NodeId]], racks: dict[NodeId, str | None], rack_count: int) -> list[int]:
    found, rack_of = list[int](), racks.get
    for replicas in lists:
        on = set(map(rack_of, replicas))
        if len(on) < len(replicas) and len(on) < rack_count and None not in on:
            found.append(len(on))
    return found
