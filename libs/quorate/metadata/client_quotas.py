"""The table of client quotas, of users, client ids and IP addresses. KIP-546, KIP-612."""

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
"""The entity types that a client quota can be set for."""

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""A quota entity: (type, name) pairs sorted by type. The name None stands for the default of its type."""

_NO_QUOTAS: Final[Mapping[str, float]] = {}


class _EntityPart(Protocol):
    @property
    def entity_type(self) -> str: ...
    @property
    def entity_name(self) -> str | None: ...


def entity_of(parts: Iterable[_EntityPart]) -> Entity:
    """Returns the quota entity of a record's or request's parts; if a type is repeated, its last part counts."""
    return tuple(sorted({part.entity_type: part.entity_name for part in parts}.items()))


class ClientQuotas:
    """The table of client quotas by entity and key, such as `consumer_byte_rate` in bytes a second."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        # The inner dicts are replaced, never changed in place; none is empty.
        self._entities: TimelineDict[Entity, Mapping[str, float]] = TimelineDict(registry)

    def __len__(self) -> int:
        """Returns the number of quota entities with at least one quota."""
        return len(self._entities)

    def __iter__(self) -> Iterator[Entity]:
        """Yields the quota entities with at least one quota, sorted; the default of a type comes before its names."""
        return iter(sorted(self._entities, key=_by_type_then_name))

    def of(self, entity: Entity) -> Mapping[str, float]:
        """Returns the client quotas of exactly this entity, by key; empty if there are none."""
        return self._entities.get(entity, _NO_QUOTAS)

    def records(self) -> Iterator[tuple[Message, int]]:
        """Yields a ClientQuotaRecord and its record version for each quota, sorted by entity and key."""
        for entity in self:
            parts = tuple(ClientQuotaRecord.EntityData(kind, name) for kind, name in entity)
            values = self._entities[entity]
            for key in sorted(values):
                yield ClientQuotaRecord(parts, key, values[key]), 0

    def set(self, record: ClientQuotaRecord, _: Offset) -> None:
        """Sets a client quota, or removes it if the record says so."""
        entity = entity_of(record.entity)
        before = self._entities.get(entity, _NO_QUOTAS)
        assert before or before is _NO_QUOTAS, entity
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
