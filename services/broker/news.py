"""Which partitions the last records of the metadata log may have changed for this broker."""

from __future__ import annotations

from collections.abc import Sequence

from kraft import Message, Uuid
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId
from quorate.records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from services.broker.table import Key, Table

__all__ = ["News"]

_OF_BROKERS = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    BrokerRegistrationChangeRecord,
)


class News:
    """Collects which partitions the metadata log may have changed for this broker since the last `take`: at first, all.

    Only their keys: who takes them reads the state as it is by that time.
    """

    def __init__(self) -> None:
        self._everything = True
        self._keys: dict[Key, None] = {}
        self._topics: dict[Uuid, None] = {}
        self._configured: dict[str, None] = {}
        self.brokers_changed = True
        """Whether a registration may have changed; who has looked sets it back."""

    def hear(self, records: Sequence[Message] | None) -> None:
        """Notes what a batch of metadata records may change; None is a snapshot, which may change everything."""
        if records is None:
            self.brokers_changed = True
            self._hear_all()
            return
        for record in records:
            if isinstance(record, _OF_BROKERS):
                self.brokers_changed = True
            elif self._everything:
                continue  # all is looked at
            elif isinstance(record, PartitionRecord | PartitionChangeRecord):
                self._keys[Key(record.topic_id, record.partition_id)] = None
            elif isinstance(record, RemoveTopicRecord):
                self._topics[record.topic_id] = None
            elif isinstance(record, ConfigRecord):
                self._hear_config(record)

    def take(self, state: ClusterState, table: Table, broker_id: NodeId) -> list[Key]:
        """Returns, and forgets, the partitions to look at, once each: those that records have changed, of any broker.

        A topic that was removed, or has other configs, gives its partitions in `table`. At first, after a snapshot, and
        after another default config of the brokers, it is all of `table`, and all that `state` gives this broker.
        """
        keys, self._keys = self._keys, {}
        topics, self._topics = self._topics, {}
        configured, self._configured = self._configured, {}
        if self._everything:
            self._everything = False
            keys.update(
                (Key(found.topic.id, found.partition_id), None) for found in state.topics.with_replica(broker_id)
            )
            keys.update((hosted.key, None) for hosted in table)
            return list(keys)
        topics.update((found, None) for name in configured if (found := state.topics.id_of(name)) is not None)
        for topic_id in topics:
            keys.update((hosted.key, None) for hosted in table.of_topic(topic_id))
        return list(keys)

    def _hear_all(self) -> None:
        """Has everything looked at, and keeps nothing else: a start hears of the whole cluster before it looks."""
        self._everything = True
        self._keys, self._topics, self._configured = {}, {}, {}

    def _hear_config(self, record: ConfigRecord) -> None:
        if record.resource_type == TOPIC:
            self._configured[record.resource_name] = None
        elif record.resource_type == BROKER:  # a default that topics inherit
            self._hear_all()
