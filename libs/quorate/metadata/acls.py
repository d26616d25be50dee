"""Who may do what to which resource. KIP-801."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kraft import Message, Uuid
from quorate.metadata.faults import ReplayFault
from quorate.metadata.known import known
from quorate.nouns import Offset, uuid_text
from quorate.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = ["NAMES", "Acls"]

NAMES: Final[Mapping[str, Mapping[int, str]]] = {
    "resourceType": dict(enumerate(("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"), 2)),
    "patternType": {3: "LITERAL", 4: "PREFIXED"},
    "operation": dict(
        enumerate(
            (
                "ALL",
                "READ",
                "WRITE",
                "CREATE",
                "DELETE",
                "ALTER",
                "DESCRIBE",
                "CLUSTER_ACTION",
                "DESCRIBE_CONFIGS",
                "ALTER_CONFIGS",
                "IDEMPOTENT_WRITE",
                "CREATE_TOKENS",
                "DESCRIBE_TOKENS",
                "TWO_PHASE_COMMIT",
            ),
            2,
        )
    ),
    "permissionType": {2: "DENY", 3: "ALLOW"},
}
"""Kafka's names of the numbers in an entry, by field."""


class Acls:
    """Entries by id: the records themselves."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._entries: TimelineDict[Uuid, AccessControlEntryRecord] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AccessControlEntryRecord]:
        """All entries, by id."""
        return iter([self._entries[entry_id] for entry_id in sorted(self._entries)])

    def get(self, entry_id: Uuid) -> AccessControlEntryRecord | None:
        """The entry with this id, or None."""
        return self._entries.get(entry_id)

    def records(self) -> Iterator[tuple[Message, int]]:
        """Each entry, by id."""
        for entry in self:
            yield entry, 0

    def add(self, record: AccessControlEntryRecord, _: Offset) -> None:
        """An entry as it is from now on."""
        self._entries[record.id] = known(record)

    def remove(self, record: RemoveAccessControlEntryRecord, _: Offset) -> None:
        """An entry goes. Raises ReplayFault if there is none with this id."""
        if record.id not in self._entries:
            raise ReplayFault(f"there is no access control entry with id {uuid_text(record.id)}")
        del self._entries[record.id]
