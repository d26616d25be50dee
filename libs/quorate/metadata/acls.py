"""The table of ACL entries, with the indexes that an authorization decision needs. KIP-11, KIP-290, KIP-801."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias, TypeVar

from kraft import Message, Uuid
from quorate.metadata.faults import ReplayFault
from quorate.metadata.known import known
from quorate.nouns import Offset, uuid_text
from quorate.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from quorate.timeline import SnapshotRegistry, TimelineDict

__all__ = [
    "NAMES",
    "WILDCARD",
    "AclOperation",
    "AclPermission",
    "Acls",
    "Pattern",
    "PatternType",
    "ResourceType",
    "pattern_of",
]

WILDCARD: Final = "*"
"""The wildcard `*`: any resource as a literal resource name, any host as a host, any user as a principal's name."""


class ResourceType(IntEnum):
    """The type of the resource that an ACL protects; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The type of an ACL's resource name (LITERAL, PREFIXED); ANY and MATCH are for filters only. KIP-290."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operation that an ACL allows or denies; ALL stands for every operation, ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether an ACL allows or denies; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


_FIELDS: Final[Mapping[str, type[IntEnum]]] = {
    "resourceType": ResourceType,
    "patternType": PatternType,
    "operation": AclOperation,
    "permissionType": AclPermission,
}
_FOR_FILTERS: Final = frozenset({"UNKNOWN", "ANY", "MATCH"})

NAMES: Final[Mapping[str, Mapping[int, str]]] = {
    field: {int(member): member.name for member in numbers if member.name not in _FOR_FILTERS}
    for field, numbers in _FIELDS.items()
}
"""Kafka's names of the enum numbers in an ACL entry, by field; values for filters only are left out."""


class Pattern(NamedTuple):
    """The resource pattern of an ACL entry: resource type, name and pattern type. KIP-290."""

    resource_type: int
    name: str
    pattern_type: int


K = TypeVar("K")
V = TypeVar("V")

_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)
_NO_LENGTHS: Final[Mapping[int, int]] = {}
_NO_ENTRIES: Final[Mapping[Uuid, AccessControlEntryRecord]] = {}
_Content: TypeAlias = tuple[Pattern, str, str, int, int]
"""All fields of an ACL entry but its id."""


class Acls:
    """The table of ACL entries: by id, and indexed by resource pattern and principal."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._entries: TimelineDict[Uuid, AccessControlEntryRecord] = TimelineDict(registry)
        # The rest is an index of the entries. Values are replaced, never changed in place; none is empty or 0.
        self._said: TimelineDict[tuple[Pattern, str], Mapping[Uuid, AccessControlEntryRecord]] = TimelineDict(registry)
        self._alike: TimelineDict[_Content, int] = TimelineDict(registry)
        self._counts: TimelineDict[Pattern, int] = TimelineDict(registry)
        self._prefix_lengths: TimelineDict[int, Mapping[int, int]] = TimelineDict(registry)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AccessControlEntryRecord]:
        """Yields all ACL entries, sorted by id."""
        return iter([self._entries[entry_id] for entry_id in sorted(self._entries)])

    def entries(self) -> Iterator[AccessControlEntryRecord]:
        """Yields all ACL entries, in no defined order."""
        return iter(self._entries.values())

    def get(self, entry_id: Uuid) -> AccessControlEntryRecord | None:
        """Returns the ACL entry with this id, or None."""
        return self._entries.get(entry_id)

    def patterns(self) -> Iterator[Pattern]:
        """Yields every resource pattern that has an ACL entry, in no defined order."""
        return iter(self._counts)

    def covering(self, resource_type: int, name: str) -> list[Pattern]:
        """Returns the patterns with ACL entries that match this resource: its literal name, the wildcard, its prefixes.

        It looks up one candidate for each length that a prefix of this resource type has, and scans no entries.
        """
        candidates = [(resource_type, name, _LITERAL)]
        if name != WILDCARD:
            candidates.append((resource_type, WILDCARD, _LITERAL))
        for length in self._prefix_lengths.get(resource_type, _NO_LENGTHS):
            if length <= len(name):
                candidates.append((resource_type, name[:length], _PREFIXED))
        counts = self._counts
        # A plain tuple equals a Pattern as a key, and is created ten times as fast.
        return [Pattern(*candidate) for candidate in candidates if candidate in counts]

    def said(self, pattern: Pattern, principal: str) -> Collection[AccessControlEntryRecord]:
        """Returns the ACL entries of exactly this resource pattern and principal, in no defined order."""
        return self._said.get((pattern, principal), _NO_ENTRIES).values()

    def has(self, entry: AccessControlEntryRecord) -> bool:
        """Returns whether an ACL entry of equal content exists, under any id."""
        return _content(entry) in self._alike

    def records(self) -> Iterator[tuple[Message, int]]:
        """Yields the record of each ACL entry with its record version, sorted by id."""
        for entry in self:
            yield entry, 0

    def add(self, record: AccessControlEntryRecord, _: Offset) -> None:
        """Adds an ACL entry, or replaces the one with the same id. Its unknown tagged fields are not kept."""
        before = self._entries.get(record.id)
        if before is not None:
            self._unindex(before)
        entry = self._entries[record.id] = known(record)
        self._index(entry)

    def remove(self, record: RemoveAccessControlEntryRecord, _: Offset) -> None:
        """Removes an ACL entry. Raises ReplayFault if there is none with this id."""
        entry = self._entries.get(record.id)
        if entry is None:
            raise ReplayFault(f"there is no access control entry with id {uuid_text(record.id)}")
        del self._entries[record.id]
        self._unindex(entry)

    def _index(self, entry: AccessControlEntryRecord) -> None:
        pattern, content = pattern_of(entry), _content(entry)
        said = self._said.get((pattern, entry.principal), _NO_ENTRIES)
        assert entry.id not in said, entry
        self._said[pattern, entry.principal] = {**said, entry.id: entry}
        self._alike[content] = self._alike.get(content, 0) + 1
        count = self._counts[pattern] = self._counts.get(pattern, 0) + 1
        assert count > len(said), (pattern, count)
        if count == 1:
            self._count_length(pattern, 1)

    def _unindex(self, entry: AccessControlEntryRecord) -> None:
        pattern, content = pattern_of(entry), _content(entry)
        left = dict(self._said[pattern, entry.principal])
        removed = left.pop(entry.id)
        assert removed == entry, (entry, removed)
        _keep(self._said, (pattern, entry.principal), left)
        _keep(self._alike, content, self._alike[content] - 1)
        count = self._counts[pattern] - 1
        assert count >= len(left), (pattern, count, left)
        _keep(self._counts, pattern, count)
        if count == 0:
            self._count_length(pattern, -1)

    def _count_length(self, pattern: Pattern, change: int) -> None:
        if pattern.pattern_type != PatternType.PREFIXED:
            return
        lengths = dict(self._prefix_lengths.get(pattern.resource_type, _NO_LENGTHS))
        length = len(pattern.name)
        lengths[length] = lengths.get(length, 0) + change
        assert lengths[length] >= 0, (pattern, lengths)
        if lengths[length] == 0:
            del lengths[length]
        _keep(self._prefix_lengths, pattern.resource_type, lengths)


def pattern_of(entry: AccessControlEntryRecord) -> Pattern:
    """Returns the resource pattern of an ACL entry."""
    return Pattern(entry.resource_type, entry.resource_name, entry.pattern_type)


def _content(entry: AccessControlEntryRecord) -> _Content:
    return pattern_of(entry), entry.principal, entry.host, entry.operation, entry.permission_type


def _keep(table: TimelineDict[K, V], key: K, value: V) -> None:
    """Stores a value in an index of the ACL entries, or deletes the key if the value is empty or 0."""
    if value:
        table[key] = value
    else:
        del table[key]
