"""Topics and their partitions, and where each broker has its part in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from kraft import Message, Uuid
from quorate.metadata.configs import Configs
from quorate.metadata.faults import ReplayFault
from quorate.metadata.isr_index import IsrIndex
from quorate.metadata.partitions import Partition, as_record, merged, registered
from quorate.metadata.rows import Rows, RowsAt, Stretch
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.records import ClearElrRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["Found", "Topic", "Topics"]


class Topic(msgspec.Struct, frozen=True):
    """A topic. `partitions` by number, ascending: a live view of the present, or of one snapshot."""

    name: str
    id: Uuid
    partitions: Mapping[int, Partition]


class Found(NamedTuple):
    """One partition, and which it is."""

    topic: Topic
    partition_id: int
    partition: Partition


class Topics:
    """All topics, by id and by name."""

    def __init__(self, registry: SnapshotRegistry, configs: Configs) -> None:
        self._registry = registry
        self._configs = configs
        self._by_id: TimelineDict[Uuid, Topic] = TimelineDict(registry)
        self._ids: TimelineDict[str, Uuid] = TimelineDict(registry)
        self._alike: TimelineDict[str, tuple[str, ...]] = TimelineDict(registry)
        self._index = IsrIndex()
        self._offset: Offset | None = None
        """The snapshot that is read; None for the present, which alone has an index."""
        registry.register(self._index)

    # Reading.

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Topic]:
        """All topics, in no order to rely on: `sorted(topics, key=...)` where it matters."""
        return map(self._seen, list(self._by_id.values()))

    def by_id(self, topic_id: Uuid) -> Topic | None:
        """The topic with this id, or None."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else self._seen(topic)

    def by_name(self, name: str) -> Topic | None:
        """The topic with this name, or None."""
        topic_id = self._ids.get(name)
        return None if topic_id is None else self.by_id(topic_id)

    def id_of(self, name: str) -> Uuid | None:
        """The id of the topic with this name, or None."""
        return self._ids.get(name)

    def partition(self, topic_id: Uuid, partition_id: int) -> Partition | None:
        """One partition, or None."""
        topic = self.by_id(topic_id)
        return None if topic is None else topic.partitions.get(partition_id)

    def alike(self, name: str) -> tuple[str, ...]:
        """Topics whose metrics would be named as those of `name`: '.' and '_' are one there. In order of creation."""
        return self._alike.get(_unified(name), ()) if _may_collide(name) else ()

    @property
    def partition_count(self) -> int:
        """Partitions of all topics."""
        return sum(len(topic.partitions) for topic in self)

    def leader_count(self, broker: NodeId) -> int:
        """Partitions that `broker` leads; of NO_LEADER, those without a leader."""
        if self._offset is None:
            return self._index.leader.get(broker, 0)
        return sum(found.partition.leader == broker for found in self.all())

    def isr_count(self, broker: NodeId) -> int:
        """Partitions that have `broker` in their ISR."""
        if self._offset is None:
            return self._index.isr.get(broker, 0)
        return sum(broker in found.partition.isr for found in self.all())

    def elr_count(self, broker: NodeId) -> int:
        """Partitions that have `broker` in their ELR. KIP-966."""
        if self._offset is None:
            return self._index.elr.get(broker, 0)
        return sum(broker in found.partition.elr for found in self.all())

    @property
    def has_elr(self) -> bool:
        """Has any partition an ELR?"""
        if self._offset is None:
            return any(self._index.elr.values())
        return any(found.partition.elr for found in self.all())

    def all(self) -> Iterator[Found]:
        """Every partition, topic by topic, ascending in each."""
        for topic in self:
            for partition_id, partition in _pairs(topic):
                yield Found(topic, partition_id, partition)

    def stretches(self, count: int) -> Iterator[tuple[Uuid, int, Stretch]]:
        """Every partition of the present, so many at a time, while the state may change in between.

        Each is a topic's id, a number, and what partitions it has from that number on. Topics that come behind the
        search are not found.
        """
        assert self._offset is None, f"the state at offset {self._offset} does not change: see `all`"
        for topic_id in list(self._by_id):
            start = 0
            while (stretch := self._stretch(topic_id, start, count)).rows:
                yield topic_id, start, stretch
                start += count

    def led_by(self, broker: NodeId) -> Iterator[Found]:
        """The partitions that `broker` leads; of NO_LEADER, those without a leader."""
        return self._search(self.leader_count(broker), lambda partition: partition.leader == broker)

    def in_isr(self, broker: NodeId) -> Iterator[Found]:
        """The partitions that have `broker` in their ISR: those that its fencing concerns."""
        left = self.isr_count(broker)
        for topic in self if left else ():
            rows = topic.partitions
            assert isinstance(rows, Rows | RowsAt), rows
            found = rows.in_isr(broker)
            yield from (Found(topic, partition_id, partition) for partition_id, partition in found)
            left -= len(found)
            if not left:
                return

    def in_elr(self, broker: NodeId) -> Iterator[Found]:
        """The partitions that have `broker` in their ELR."""
        return self._search(self.elr_count(broker), lambda partition: broker in partition.elr)

    def with_replica(self, broker: NodeId) -> Iterator[Found]:
        """The partitions that `broker` has, or is to have, a replica of."""
        return (found for found in self.all() if broker in found.partition.replicas)

    @property
    def imbalanced_count(self) -> int:
        """Partitions that are not led by their preferred leader, or by nobody."""
        if self._offset is None:
            return len(self._index.imbalanced)
        return sum(1 for _ in self.imbalanced())

    def imbalanced(self) -> Iterator[Found]:
        """The partitions that are not led by their preferred leader, or by nobody. The state may change meanwhile."""
        if self._offset is not None:
            yield from (found for found in self.all() if found.partition.is_imbalanced)
            return
        for topic_id, partition_id in list(self._index.imbalanced):
            topic = self._by_id.get(topic_id)
            partition = None if topic is None else topic.partitions.get(partition_id)
            if topic is not None and partition is not None and partition.is_imbalanced:
                yield Found(topic, partition_id, partition)

    def reassigning(self) -> Iterator[Found]:
        """The partitions on their way to other replicas, in the order in which they set out. KIP-455."""
        if self._offset is not None:
            yield from (found for found in self.all() if found.partition.is_reassigning)
            return
        for topic_id, partition_id in list(self._index.reassigning):
            topic = self._by_id[topic_id]
            yield Found(topic, partition_id, topic.partitions[partition_id])

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Each topic, by name, and its partitions after it."""
        for name in sorted(self._ids):
            topic = self.by_name(name)
            assert topic is not None, name
            yield TopicRecord(name, topic.id), 0
            for partition_id, partition in _pairs(topic):
                yield as_record(partition, topic.id, partition_id, metadata_version)

    # Replay.

    def create(self, record: TopicRecord, _: Offset) -> None:
        """A topic without partitions yet. Raises ReplayFault if name or id is taken."""
        if record.name in self._ids:
            raise ReplayFault(
                f"topic {record.name!r} exists with id {uuid_text(self._ids[record.name])}; "
                f"it cannot be created with id {uuid_text(record.topic_id)}"
            )
        taken = self._by_id.get(record.topic_id)
        if taken is not None:
            raise ReplayFault(f"topic {record.name!r}: id {uuid_text(record.topic_id)} belongs to topic {taken.name!r}")
        rows = Rows(self._registry, self._index, record.topic_id)
        self._by_id[record.topic_id] = Topic(record.name, record.topic_id, rows)
        self._ids[record.name] = record.topic_id
        if _may_collide(record.name):
            unified = _unified(record.name)
            self._alike[unified] = (*self._alike.get(unified, ()), record.name)

    def lay_down(self, record: PartitionRecord, _: Offset) -> None:
        """A partition as it is from now on. Raises ReplayFault if there is no such topic."""
        topic = self._by_id.get(record.topic_id)
        if topic is None:
            raise _no_topic(record.topic_id)
        rows = topic.partitions
        assert isinstance(rows, Rows), rows
        rows.put(record.partition_id, registered(record))

    def change(self, record: PartitionChangeRecord, _: Offset) -> None:
        """A change to one partition. Raises ReplayFault if there is no such partition."""
        topic = self._by_id.get(record.topic_id)
        if topic is None:
            raise _no_topic(record.topic_id)
        rows = topic.partitions
        assert isinstance(rows, Rows), rows
        partition = rows.get(record.partition_id)
        if partition is None:
            raise ReplayFault(f"topic {topic.name!r} has no partition {record.partition_id}")
        rows.put(record.partition_id, merged(partition, record))

    def remove(self, record: RemoveTopicRecord, _: Offset) -> None:
        """A topic goes, with its partitions and its configs. Raises ReplayFault if there is no such topic."""
        topic = self._by_id.get(record.topic_id)
        if topic is None:
            raise _no_topic(record.topic_id)
        assert isinstance(topic.partitions, Rows), topic.partitions
        topic.partitions.clear()
        del self._by_id[topic.id]
        del self._ids[topic.name]
        if _may_collide(topic.name):
            self._part(topic.name)
        self._configs.drop_topic(topic.name)

    def clear_elr(self, record: ClearElrRecord, _: Offset) -> None:
        """No ELR any more, of one topic or (no name) of all: a change to each partition that had one. KIP-966."""
        if not record.topic_name:
            for topic in self:
                _clear_elr(topic)
            return
        named = self.by_name(record.topic_name)
        if named is None:
            raise ReplayFault(f"there is no topic {record.topic_name!r} to clear the ELR of")
        _clear_elr(named)

    def _seen(self, topic: Topic) -> Topic:
        if self._offset is None:
            return topic
        assert isinstance(topic.partitions, Rows), topic.partitions
        return Topic(topic.name, topic.id, topic.partitions.at(self._offset))

    def _stretch(self, topic_id: Uuid, start: int, count: int) -> Stretch:
        topic = self._by_id.get(topic_id)
        if topic is None:
            return Stretch([], [])
        assert isinstance(topic.partitions, Rows), topic.partitions
        return topic.partitions.stretch(start, count)

    def _search(self, left: int, wanted: Callable[[Partition], bool]) -> Iterator[Found]:
        for topic in self if left else ():
            for partition_id, partition in list(_pairs(topic)):
                if wanted(partition):
                    yield Found(topic, partition_id, partition)
                    left -= 1
            if not left:
                return

    def _part(self, name: str) -> None:
        unified = _unified(name)
        others = tuple(other for other in self._alike[unified] if other != name)
        if others:
            self._alike[unified] = others
        else:
            del self._alike[unified]


def _pairs(topic: Topic) -> Iterator[tuple[int, Partition]]:
    rows = topic.partitions
    assert isinstance(rows, Rows | RowsAt), rows
    return rows.pairs()


def _clear_elr(topic: Topic) -> None:
    assert isinstance(topic.partitions, Rows), topic.partitions
    for partition_id, partition in list(topic.partitions.pairs()):
        if partition.elr or partition.last_known_elr:
            cleared = PartitionChangeRecord(partition_id, topic.id, eligible_leader_replicas=(), last_known_elr=())
            topic.partitions.put(partition_id, merged(partition, cleared))


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name


def _unified(name: str) -> str:
    return name.replace(".", "_")


def _no_topic(topic_id: Uuid) -> ReplayFault:
    return ReplayFault(f"there is no topic with id {uuid_text(topic_id)}")
