"""The partitions that this broker has: each with its role, its log, and the log directory that holds it (R9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kraft import Uuid
from quorate.partition_log.log import PartitionLog
from quorate.partition_log.offset_checkpoints import TopicPartition
from quorate.replication import Following, Leading, Partition
from services.broker.directories import LogDirectory
from services.broker.future_replica import FutureReplica

__all__ = ["Hosted", "Key", "Table"]


class Key(NamedTuple):
    """A partition by its topic's id: a topic that is deleted and made again under its name is another one (KIP-516)."""

    topic_id: Uuid
    partition_id: int


@dataclass(slots=True, kw_only=True)
class Hosted:
    """One partition of this broker."""

    key: Key
    name: TopicPartition
    partition: Partition
    log: PartitionLog
    directory: LogDirectory
    future: FutureReplica | None = None
    """Where it moves, and what is there already (KIP-113)."""

    @property
    def leading(self) -> Leading | None:
        """The state that its leader keeps (ISR, progress of the replicas); None if this broker does not lead it."""
        role = self.partition.role
        return role if isinstance(role, Leading) else None

    @property
    def following(self) -> Following | None:
        """The state that a follower keeps (what it fetches next); None if this broker follows nobody."""
        role = self.partition.role
        return role if isinstance(role, Following) else None


class Table:
    """All partitions of this broker, by key and by name."""

    def __init__(self) -> None:
        self._hosted: dict[Key, Hosted] = {}
        self._keys: dict[TopicPartition, Key] = {}

    def __len__(self) -> int:
        return len(self._hosted)

    def __iter__(self) -> Iterator[Hosted]:
        """Yields those that are there now; they may change meanwhile."""
        return iter(tuple(self._hosted.values()))

    def get(self, key: Key) -> Hosted | None:
        """Returns the partition with this key, or None."""
        return self._hosted.get(key)

    def named(self, name: TopicPartition) -> Hosted | None:
        """Returns the partition with this name, or None."""
        key = self._keys.get(name)
        return None if key is None else self._hosted[key]

    def of_topic(self, topic_id: Uuid) -> list[Hosted]:
        """Returns the partitions of one topic that this broker has, in no order."""
        return [hosted for key, hosted in self._hosted.items() if key.topic_id == topic_id]

    def add(self, hosted: Hosted) -> None:
        """Adds a partition of this broker. One of an earlier topic of the same name must have been removed."""
        assert hosted.name not in self._keys, hosted.name
        assert hosted.key not in self._hosted, hosted.key
        self._hosted[hosted.key] = hosted
        self._keys[hosted.name] = hosted.key

    def remove(self, hosted: Hosted) -> None:
        """Removes a partition that this broker no longer has."""
        assert self._hosted[hosted.key] is hosted, hosted.name
        assert self._keys[hosted.name] == hosted.key, hosted.name  # KIP-516: not that of a later topic of this name
        del self._hosted[hosted.key], self._keys[hosted.name]
