"""Quotas of users, clients and addresses. KIP-546, KIP-612."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from kraft import Message
from quorate.nouns import Offset
from quorate.records import ClientQuotaRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["CLIENT_ID", "IP", "TYPES", "USER", "ClientQuotas", "Entity", "entity_of"]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
TYPES: Final = frozenset({USER, CLIENT_ID, IP})
"""What an entity is made of."""

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, by type: `user`, `client-id`, `ip`. A name of None is the default of its type."""

_NO_QUOTAS: Final[Mapping[str, float]] = {}


class _Part(Protocol):
    @property
    def entity_type(self) -> str: ...
    @property
    def entity_name(self) -> str | None: ...


def entity_of(parts: Iterable[_Part]) -> Entity:
    """The entity of these parts, as records and requests have them; of a type that is there twice the last one."""
    return tuple(sorted({part.entity_type: part.entity_name for part in parts}.items()))


class ClientQuotas:
    """Quotas by entity and key, such as `consumer_byte_rate` in bytes a second."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        # The inner dicts are replaced, never changed; none is empty.
        self._entities: TimelineDict[Entity, Mapping[str, float]] = TimelineDict(registry)

    def __len__(self) -> int:
        """Entities that have any quota."""
        return len(self._entities)

    def __iter__(self) -> Iterator[Entity]:
        """Entities that have any quota, sorted; a default before the names."""
        return iter(sorted(self._entities, key=_by_type_then_name))

    def of(self, entity: Entity) -> Mapping[str, float]:
        """The quotas of exactly this entity, by key."""
        return self._entities.get(entity, _NO_QUOTAS)

    def records(self) -> Iterator[tuple[Message, int]]:
        """Every quota, by entity and key."""
        for entity in self:
            parts = tuple(ClientQuotaRecord.EntityData(kind, name) for kind, name in entity)
            values = self._entities[entity]
            for key in sorted(values):
                yield ClientQuotaRecord(parts, key, values[key]), 0

    def set(self, record: ClientQuotaRecord, _: Offset) -> None:
        """Set a quota or remove it."""
        entity = entity_of(record.entity)
        before = self._entities.get(entity, _NO_QUOTAS)
        if not record.remove:
            self._entities[entity] = {**before, record.key: record.value}
            return
        left = {key: value for key, value in before.items() if key != record.key}
        if left:
            self._entities[entity] = left
        else:
            self._entities.pop(entity, None)


def _by_type_then_name(entity: Entity) -> tuple[tuple[str, bool, str], ...]:
    return tuple((kind, name is not None, name or "") for kind, name in entity)
