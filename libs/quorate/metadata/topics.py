"""The table of topics and their partitions, with searches by leader, ISR and ELR of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from kraft import Message, Uuid
from quorate.metadata.configs import Configs
from quorate.metadata.faults import ReplayFault
from quorate.metadata.isr_index import IsrIndex
from quorate.metadata.partition_rows import PartitionRows, PartitionRowsAt, PartitionSlice
from quorate.metadata.partitions import Partition, as_record, merged, registered
from quorate.nouns import NodeId, Offset, uuid_text
from quorate.records import (
    MISSES_MAX,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["Topic", "TopicPartition", "Topics"]


class Topic(msgspec.Struct, frozen=True):
    """A topic; `partitions` maps ascending partition ids, as a live view of the current state or of a snapshot."""

    name: str
    id: Uuid
    partitions: Mapping[int, Partition]

    def pairs(self) -> Iterator[tuple[int, Partition]]:
        """Yields (partition id, partition) pairs as `partitions.items()` does, several times faster."""
        rows = self.partitions
        assert isinstance(rows, PartitionRows | PartitionRowsAt), rows
        return rows.pairs()


class TopicPartition(NamedTuple):
    """A partition together with its topic and its partition id: a result of a search."""

    topic: Topic
    partition_id: int
    partition: Partition


class Topics:
    """The table of all topics, by id and by name, and of their partitions."""

    def __init__(self, registry: SnapshotRegistry, configs: Configs) -> None:
        self._registry = registry
        self._configs = configs
        self._by_id: TimelineDict[Uuid, Topic] = TimelineDict(registry)
        self._ids: TimelineDict[str, Uuid] = TimelineDict(registry)
        self._alike: TimelineDict[str, tuple[str, ...]] = TimelineDict(registry)
        self._index = IsrIndex()
        self._offset: Offset | None = None
        """The offset of the snapshot that this table shows; None for the current state, which alone has an index."""
        registry.register(self._index)

    # Reads.

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Topic]:
        """Yields all topics, in no defined order: callers sort where the order matters."""
        return map(self._seen, list(self._by_id.values()))

    def by_id(self, topic_id: Uuid) -> Topic | None:
        """Returns the topic with this id, or None."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else self._seen(topic)

    def by_name(self, name: str) -> Topic | None:
        """Returns the topic with this name, or None."""
        topic_id = self._ids.get(name)
        return None if topic_id is None else self.by_id(topic_id)

    def id_of(self, name: str) -> Uuid | None:
        """Returns the id of the topic with this name, or None."""
        return self._ids.get(name)

    def partition(self, topic_id: Uuid, partition_id: int) -> Partition | None:
        """Returns one partition of the topic with this id, or None."""
        topic = self.by_id(topic_id)
        return None if topic is None else topic.partitions.get(partition_id)

    def alike(self, name: str) -> tuple[str, ...]:
        """Returns the names of the topics whose metric names equal those of `name`, itself included; oldest first.

        Kafka's metrics treat '.' and '_' in a topic name as the same character. Without either, the result is empty.
        """
        return self._alike.get(_unified(name), ()) if _may_collide(name) else ()

    @property
    def partition_count(self) -> int:
        """The number of partitions of all topics."""
        if self._offset is None:
            return sum(self._index.leader.values())
        return sum(len(topic.partitions) for topic in self)

    def leader_count(self, broker: NodeId) -> int:
        """Returns the number of partitions that `broker` leads; for NO_LEADER, of those without a leader."""
        if self._offset is None:
            return self._index.leader.get(broker, 0)
        return sum(found.partition.leader == broker for found in self.all())

    def isr_count(self, broker: NodeId) -> int:
        """Returns the number of partitions that have `broker` in their ISR."""
        if self._offset is None:
            return self._index.isr.get(broker, 0)
        return sum(broker in found.partition.isr for found in self.all())

    def elr_count(self, broker: NodeId) -> int:
        """Returns the number of partitions that have `broker` in their ELR. KIP-966."""
        if self._offset is None:
            return self._index.elr.get(broker, 0)
        return sum(broker in found.partition.elr for found in self.all())

    @property
    def has_elr(self) -> bool:
        """Whether any partition has a replica in its ELR (KIP-966)."""
        if self._offset is None:
            return any(self._index.elr.values())
        return any(found.partition.elr for found in self.all())

    def all(self) -> Iterator[TopicPartition]:
        """Yields every partition, topic by topic, in each topic by ascending partition id."""
        for topic in self:
            for partition_id, partition in topic.pairs():
                yield TopicPartition(topic, partition_id, partition)

    def stretches(self, count: int) -> Iterator[tuple[Uuid, int, PartitionSlice]]:
        """Yields all current partitions in chunks of up to `count`. The state may change between chunks.

        Each chunk is a topic id, the first partition id of the chunk, and its partitions. Topics that are created
        during the iteration are not included.
        """
        assert self._offset is None, f"the state at offset {self._offset} does not change: see `all`"
        for topic_id in list(self._by_id):
            start = 0
            while (stretch := self._stretch(topic_id, start, count)).rows:
                yield topic_id, start, stretch
                start += count

    def led_by(self, broker: NodeId) -> Iterator[TopicPartition]:
        """Yields the partitions that `broker` leads; for NO_LEADER, those without a leader."""
        return self._search(self.leader_count(broker), lambda partition: partition.leader == broker)

    def in_isr(self, broker: NodeId) -> Iterator[TopicPartition]:
        """Yields the partitions that have `broker` in their ISR: those that change when the broker is fenced."""
        left = self.isr_count(broker)
        for topic in self if left else ():
            rows = topic.partitions
            assert isinstance(rows, PartitionRows | PartitionRowsAt), rows
            found = rows.in_isr(broker)
            yield from (TopicPartition(topic, partition_id, partition) for partition_id, partition in found)
            left -= len(found)
            if not left:
                return

    def in_elr(self, broker: NodeId) -> Iterator[TopicPartition]:
        """Yields the partitions that have `broker` in their ELR. KIP-966."""
        return self._search(self.elr_count(broker), lambda partition: broker in partition.elr)

    def with_replica(self, broker: NodeId) -> Iterator[TopicPartition]:
        """Yields the partitions whose replica list has `broker`, replicas that are being added included."""
        return (found for found in self.all() if broker in found.partition.replicas)

    @property
    def imbalanced_count(self) -> int:
        """The number of partitions that their preferred leader does not lead; those without a leader count, too."""
        if self._offset is None:
            return len(self._index.imbalanced)
        return sum(1 for _ in self.imbalanced())

    @property
    def reassigning_count(self) -> int:
        """The number of partitions under reassignment. KIP-455."""
        return len(self._index.reassigning) if self._offset is None else sum(1 for _ in self.reassigning())

    @property
    def under_replicated_count(self) -> int:
        """The number of partitions that have a leader and a replica outside the ISR.

        As in Kafka, replicas that a reassignment is adding do not count.
        """
        if self._offset is None:
            return self._index.under_replicated
        return sum(found.partition.is_under_replicated for found in self.all())

    def under_min_isr_count(self, min_isr: Callable[[str], int]) -> int:
        """Returns the number of partitions with a leader whose ISR is smaller than min.insync.replicas.

        As in Kafka's Partition.isUnderMinIsr, the limit is at most the replication factor. `min_isr` maps a topic to
        its min.insync.replicas; it is called only for topics with a partition whose ISR is not full.
        """
        if self._offset is None:
            short = self._index.short.items()
            return sum(
                count
                for (topic_id, isr, replicas), count in short
                if isr < min(replicas, min_isr(self._by_id[topic_id].name))
            )
        return sum(
            len(found.partition.isr) < min(len(found.partition.replicas), min_isr(found.topic.name))
            for found in self.all()
            if found.partition.is_short
        )

    def imbalanced(self) -> Iterator[TopicPartition]:
        """Yields the partitions that their preferred leader does not lead. The state may change meanwhile."""
        if self._offset is not None:
            yield from (found for found in self.all() if found.partition.is_imbalanced)
            return
        for topic_id, partition_id in list(self._index.imbalanced):
            topic = self._by_id.get(topic_id)
            partition = None if topic is None else topic.partitions.get(partition_id)
            if topic is not None and partition is not None and partition.is_imbalanced:
                yield TopicPartition(topic, partition_id, partition)

    def reassigning(self) -> Iterator[TopicPartition]:
        """Yields the partitions under reassignment; in the current state the oldest reassignment first. KIP-455."""
        if self._offset is not None:
            yield from (found for found in self.all() if found.partition.is_reassigning)
            return
        for topic_id, partition_id in list(self._index.reassigning):
            topic = self._by_id[topic_id]
            yield TopicPartition(topic, partition_id, topic.partitions[partition_id])

    def records(self, metadata_version: int) -> Iterator[tuple[Message, int]]:
        """Yields each topic's record, sorted by name, then those of its partitions; each with its record version."""
        for name in sorted(self._ids):
            topic = self.by_name(name)
            assert topic is not None, name
            yield TopicRecord(name, topic.id), 0
            for partition_id, partition in topic.pairs():
                yield as_record(partition, topic.id, partition_id, metadata_version)

    # Replay of records.

    def create(self, record: TopicRecord, _: Offset) -> None:
        """Adds a topic without partitions. Raises ReplayFault if its name or id is in use."""
        if record.name in self._ids:
            raise ReplayFault(
                f"topic {record.name!r} exists with id {uuid_text(self._ids[record.name])}; "
                f"it cannot be created with id {uuid_text(record.topic_id)}"
            )
        taken = self._by_id.get(record.topic_id)
        if taken is not None:
            raise ReplayFault(f"topic {record.name!r}: id {uuid_text(record.topic_id)} belongs to topic {taken.name!r}")
        rows = PartitionRows(self._registry, self._index, record.topic_id)
        self._by_id[record.topic_id] = Topic(record.name, record.topic_id, rows)
        self._ids[record.name] = record.topic_id
        assert len(self._ids) == len(self._by_id), (len(self._ids), len(self._by_id))
        if _may_collide(record.name):
            unified = _unified(record.name)
            self._alike[unified] = (*self._alike.get(unified, ()), record.name)

    def lay_down(self, record: PartitionRecord, _: Offset) -> None:
        """Creates or replaces a partition. Raises ReplayFault if the topic does not exist or the record is unsound."""
        _rows(self._required(record.topic_id)).put(record.partition_id, registered(record))

    def lay_down_next(self, records: Sequence[Message], place: int) -> int:
        """Creates partitions from index `place` of `records` on, as far as they are a topic's next; returns how many.

        It stops before a record that `lay_down` would refuse. Partitions that differ by their id alone, as most of a
        new topic's do, share one object.
        """
        first = records[place]
        topic = self._by_id.get(first.topic_id) if type(first) is PartitionRecord else None
        if topic is None:
            return 0
        rows = _rows(topic)
        made: list[Partition] = []
        alike: dict[tuple[object, ...], Partition] = {}
        next_id, misses = rows.next_id, 0
        for record in islice(records, place, None):
            if type(record) is not PartitionRecord or record.partition_id != next_id:
                break
            shape = astuple(record)[1:] if misses <= MISSES_MAX else ()
            partition = alike.get(shape)
            if partition is not None:
                misses -= 1
            else:
                if record.topic_id != topic.id:
                    break
                try:
                    partition = registered(record)
                except ReplayFault:
                    break
                if shape:
                    alike[shape] = partition
                misses += 1
            made.append(partition)
            next_id += 1
        if made:
            rows.extend(made)
        return len(made)

    def change(self, record: PartitionChangeRecord, _: Offset) -> None:
        """Changes one partition by a PartitionChangeRecord. Raises ReplayFault if it is missing or does not fit."""
        topic = self._required(record.topic_id)
        rows = _rows(topic)
        partition = rows.get(record.partition_id)
        if partition is None:
            raise ReplayFault(f"topic {topic.name!r} has no partition {record.partition_id}")
        rows.put(record.partition_id, merged(partition, record))

    def remove(self, record: RemoveTopicRecord, _: Offset) -> None:
        """Removes a topic with its partitions and its configs. Raises ReplayFault if the topic does not exist."""
        topic = self._required(record.topic_id)
        _rows(topic).clear()
        del self._by_id[topic.id]
        assert self._ids[topic.name] == topic.id, (topic, self._ids[topic.name])
        del self._ids[topic.name]
        assert len(self._ids) == len(self._by_id), (len(self._ids), len(self._by_id))
        if _may_collide(topic.name):
            self._remove_alike(topic.name)
        self._configs.drop_topic(topic.name)

    def clear_elr(self, record: ClearElrRecord, _: Offset) -> None:
        """Empties ELR and last known ELR of one topic's partitions, or of all if the record names no topic. KIP-966.

        Each partition that had one of them gets a new partition epoch. Raises ReplayFault if the topic does not exist.
        """
        if not record.topic_name:
            for topic in self:
                _clear_elr(topic)
            return
        named = self.by_name(record.topic_name)
        if named is None:
            raise ReplayFault(f"there is no topic {record.topic_name!r} to clear the ELR of")
        _clear_elr(named)

    def _required(self, topic_id: Uuid) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise ReplayFault(f"there is no topic with id {uuid_text(topic_id)}")
        return topic

    def _seen(self, topic: Topic) -> Topic:
        return topic if self._offset is None else Topic(topic.name, topic.id, _rows(topic).at(self._offset))

    def _stretch(self, topic_id: Uuid, start: int, count: int) -> PartitionSlice:
        topic = self._by_id.get(topic_id)
        return PartitionSlice([], []) if topic is None else _rows(topic).stretch(start, count)

    def _search(self, left: int, wanted: Callable[[Partition], bool]) -> Iterator[TopicPartition]:
        for topic in self if left else ():
            for partition_id, partition in list(topic.pairs()):
                if wanted(partition):
                    yield TopicPartition(topic, partition_id, partition)
                    left -= 1
            if not left:
                return

    def _remove_alike(self, name: str) -> None:
        unified = _unified(name)
        alike = self._alike[unified]
        others = tuple(other for other in alike if other != name)
        assert len(others) == len(alike) - 1, (name, alike)
        if others:
            self._alike[unified] = others
        else:
            del self._alike[unified]


def _rows(topic: Topic) -> PartitionRows:
    """The partitions of a topic of the current state, which alone can be changed."""
    assert isinstance(topic.partitions, PartitionRows), topic.partitions
    return topic.partitions


def _clear_elr(topic: Topic) -> None:
    rows = _rows(topic)
    for partition_id, partition in list(topic.pairs()):
        if partition.elr or partition.last_known_elr:
            cleared = PartitionChangeRecord(partition_id, topic.id, eligible_leader_replicas=(), last_known_elr=())
            rows.put(partition_id, merged(partition, cleared))


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name


def _unified(name: str) -> str:
    return name.replace(".", "_")
