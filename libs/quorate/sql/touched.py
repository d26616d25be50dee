"""Which rows a record may change: what has to be looked at before and after it, instead of all tables.

`differences` compares whole states; this follows a log record by record, and comes to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kraft import Message
from quorate.controller.secrets import redacted
from quorate.metadata.client_quotas import entity_of
from quorate.metadata.configs import TOPIC
from quorate.metadata.partitions import as_record
from quorate.metadata.topics import Topic
from quorate.metadata.versions import LATEST
from quorate.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)
from quorate.sql.difference import Difference, compared, compared_row, secrets
from quorate.sql.nouns import NOUNS, Image, Row, Value, rows_of

__all__ = ["SCOPES", "Touched"]

Found = Iterable[tuple[Sequence[Value], Message]]


_ORDER: Final = {name: place for place, name in enumerate(NOUNS)}


ONE_KEY: Final = frozenset({"partitions", "brokers"})
"""Tables without secrets of which a scope has at most one row, and that always with one key."""


class Scope(NamedTuple):
    """A table and the id `of` of one of its rows, which need not be there."""

    table: str
    of: Any  # Any: the values by which its table looks rows up


class Touched:
    """Finds which rows records have changed: `note` comes before a record is applied, `take` after one or several."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._before: dict[Scope, list[Row]] = {}
        self._secrets: dict[Scope, dict[Row, Message]] = {}

    def note(self, record: Message) -> None:
        """Keeps the rows that a record may change as they are now, before it is applied; the first time counts."""
        scopes_of = SCOPES.get(type(record))
        for scope in () if scopes_of is None else scopes_of(record, self._image):
            if scope not in self._before:
                self._before[scope] = self._rows(scope)
                self._secrets[scope] = self._secrets_of(scope)

    def take(self) -> Iterator[Difference]:
        """Yields how the noted rows have changed, in the order of the tables and of their keys, and forgets them.

        Iterate it before the next record is applied.
        """
        before, self._before = self._before, {}
        hidden, self._secrets = self._secrets, {}
        if len(before) == 1:
            ((scope, rows),) = before.items()
            now = self._rows(scope)
            if scope.table in ONE_KEY and len(rows) == len(now) == 1:
                yield from compared_row(NOUNS[scope.table], rows[0], now[0])
                return
        tables = {scope.table for scope in before}
        for noun in (NOUNS[name] for name in sorted(tables, key=_ORDER.__getitem__)):
            scopes = [scope for scope in before if scope.table == noun.name]
            old = [row for scope in scopes for row in before[scope]]
            new = [row for scope in scopes for row in self._rows(scope)]
            rewritten = {
                row
                for scope in scopes
                for row, record in self._secrets_of(scope).items()
                if hidden[scope].get(row, record) != record
            }
            yield from compared(noun, old, new, rewritten)

    def _secrets_of(self, scope: Scope) -> dict[Row, Message]:
        found = _WITH_SECRETS.get(scope.table)
        record = None if found is None else found(self._image, scope.of)
        return {} if record is None else secrets(NOUNS[scope.table], [record])

    def _rows(self, scope: Scope) -> list[Row]:
        return list(rows_of(NOUNS[scope.table], _ROWS[scope.table](self._image, scope.of)))


def _one(table: str, of: Callable[[Any], Any]) -> Callable[[Any, Image], Iterator[Scope]]:
    return lambda record, _: iter((Scope(table, of(record)),))


def _removed_topic(record: RemoveTopicRecord, image: Image) -> Iterator[Scope]:
    yield Scope("topics", record.topic_id)
    topic = image.state.topics.by_id(record.topic_id)
    if topic is not None:
        yield from _partitions_of(topic)
        for name in image.state.configs.of(TOPIC, topic.name):
            yield Scope("configs", (TOPIC, topic.name, name))


def _cleared_elr(record: ClearElrRecord, image: Image) -> Iterator[Scope]:
    for topic in image.state.topics:
        if record.topic_name in ("", topic.name):
            yield from _partitions_of(topic)


def _partitions_of(topic: Topic) -> Iterator[Scope]:
    """Yields a scope for each, so that no two scopes have a row in common."""
    return (Scope("partitions", (topic.id, partition_id)) for partition_id in topic.partitions)


_broker: Final = _one("brokers", lambda record: record.broker_id)
_partition: Final = _one("partitions", lambda record: (record.topic_id, record.partition_id))
_acl: Final = _one("acls", lambda record: record.id)
_credential: Final = _one("scram_users", lambda record: (record.mechanism, record.name))
_controller: Final = _one("controllers", lambda record: record.controller_id)
_token: Final = _one("delegation_tokens", lambda record: record.token_id)

SCOPES: Final[Mapping[type[Message], Callable[[Any, Image], Iterator[Scope]]]] = {
    TopicRecord: _one("topics", lambda record: record.topic_id),
    RemoveTopicRecord: _removed_topic,
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition,
    ClearElrRecord: _cleared_elr,
    RegisterBrokerRecord: _broker,
    UnregisterBrokerRecord: _broker,
    BrokerRegistrationChangeRecord: _broker,
    FenceBrokerRecord: _one("brokers", lambda record: record.id),
    UnfenceBrokerRecord: _one("brokers", lambda record: record.id),
    RegisterControllerRecord: _controller,
    UnregisterControllerRecord: _controller,
    FeatureLevelRecord: _one("features", lambda record: record.name),
    ConfigRecord: _one("configs", lambda record: (record.resource_type, record.resource_name, record.name)),
    ClientQuotaRecord: _one("client_quotas", lambda record: (entity_of(record.entity), record.key)),
    ProducerIdsRecord: _one("producer_ids", lambda _: None),
    AccessControlEntryRecord: _acl,
    RemoveAccessControlEntryRecord: _acl,
    UserScramCredentialRecord: _credential,
    RemoveUserScramCredentialRecord: _credential,
    DelegationTokenRecord: _token,
    RemoveDelegationTokenRecord: _token,
}
"""By record: the rows that it may change. Records that are not here change no table."""


def _alone(record: Message | None) -> Found:
    return () if record is None else (((), record),)


def _topic(image: Image, topic_id: Any) -> Found:
    topic = image.state.topics.by_id(topic_id)
    return _alone(None if topic is None else TopicRecord(topic.name, topic.id))


def _a_partition(image: Image, of: Any) -> Found:
    topic_id, partition_id = of
    topic = image.state.topics.by_id(topic_id)
    partition = None if topic is None else topic.partitions.get(partition_id)
    if topic is None or partition is None:
        return ()
    return (((topic.name,), as_record(partition, topic.id, partition_id)[0]),)


def _config(image: Image, of: Any) -> ConfigRecord | None:
    resource_type, resource_name, name = of
    value = image.state.configs.get(resource_type, resource_name, name)
    return None if value is None else ConfigRecord(resource_type, resource_name, name, value)


def _shown_config(image: Image, of: Any) -> Found:
    record = _config(image, of)
    return _alone(None if record is None else redacted(record))


def _quota(image: Image, of: Any) -> Found:
    entity, key = of
    value = image.state.client_quotas.of(entity).get(key)
    parts = tuple(ClientQuotaRecord.EntityData(kind, name) for kind, name in entity)
    return _alone(None if value is None else ClientQuotaRecord(parts, key, value))


def _feature(image: Image, name: Any) -> Found:
    level = image.state.features.finalized().get(name)
    return _alone(None if level is None else FeatureLevelRecord(name, level))


_ROWS: Final[Mapping[str, Callable[[Image, Any], Found]]] = {
    "topics": _topic,
    "partitions": _a_partition,
    "brokers": lambda image, broker_id: _alone(image.state.brokers.record(broker_id, LATEST)),
    "controllers": lambda image, controller_id: _alone(image.state.controllers.get(controller_id)),
    "features": _feature,
    "configs": _shown_config,
    "client_quotas": _quota,
    "acls": lambda image, entry_id: _alone(image.state.acls.get(entry_id)),
    "scram_users": lambda image, of: _alone(image.state.scram.get(*of)),
    "delegation_tokens": lambda image, token_id: _alone(image.state.delegation_tokens.get(token_id)),
    "producer_ids": lambda image, _: NOUNS["producer_ids"].of(image),
}
"""By table: the rows of an id."""

_WITH_SECRETS: Final[Mapping[str, Callable[[Image, Any], Message | None]]] = {
    "configs": _config,
    "scram_users": lambda image, of: image.state.scram.get(*of),
}
"""By table: the record of an id of which a part is shown nowhere."""
