"""Quotas of users, clients and addresses. KIP-546, KIP-612."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from kraft import Message
from quorate.nouns import Offset
from quorate.records import ClientQuotaRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["ClientQuotas", "Entity"]

Entity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, by type: `user`, `client-id`, `ip`. A name of None is the default of its type."""

_NO_QUOTAS: Final[Mapping[str, float]] = {}


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
        entity = tuple(sorted({part.entity_type: part.entity_name for part in record.entity}.items()))
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
