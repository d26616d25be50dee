"""ACL filters: finds the access control entries that DescribeAcls and DeleteAcls match. KIP-140, KIP-290."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Final, Protocol, TypeAlias

from quorate.controller.engine.steps import Steps
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import WILDCARD, AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord

__all__ = ["AclFilter", "Matcher", "check_filter", "code_name", "in_order"]

ENTRIES_PER_STEP: Final = 10_000
"""The entries that are looked at in one step: some 5 ms of CPU."""
ENTRIES_PER_FILTER: Final = 20
"""A filter's own cost, in entries: it takes some 10 us, however few entries it looks at."""
ENTRIES_PER_MATCH: Final = 10
"""The further cost of a match, in entries: it is sorted, removed and listed."""


class AclFilter(Protocol):
    """The filter fields that DescribeAcls and DeleteAcls share. A null matches any name, principal or host."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def check_filter(wanted: AclFilter) -> None:
    """Checks the filter's enum values. Raises ApiError(INVALID_REQUEST) for a value unknown to Kafka."""
    for thing, numbers, number in (
        ("resource type", ResourceType, wanted.resource_type_filter),
        ("pattern type", PatternType, wanted.pattern_type_filter),
        ("operation", AclOperation, wanted.operation),
        ("permission type", AclPermission, wanted.permission_type),
    ):
        if code_name(numbers, number) == _UNKNOWN:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the filter's {thing} {number} is unknown")


def code_name(numbers: type[IntEnum], number: int) -> str:
    """Returns Kafka's name of an enum value; "UNKNOWN" if there is none."""
    try:
        return numbers(number).name
    except ValueError:
        return _UNKNOWN


class Matcher:
    """Finds the ACL entries that a filter matches, by an index: a request may have many filters."""

    def __init__(self, entries: Iterable[AccessControlEntryRecord]) -> None:
        self._entries = list(entries)
        self._looked_at = 0

    def matching(self, wanted: AclFilter) -> Steps[list[AccessControlEntryRecord]]:
        """Returns the entries that match the filter, in no defined order; it works in steps (see `Steps`).

        A step ends after `ENTRIES_PER_STEP` entries, counted over all filters. Call `check_filter` before: a filter
        with an unknown type would find nothing, and nobody would notice.
        """
        assert wanted.pattern_type_filter in _PATTERN_TYPES, wanted
        self._looked_at += ENTRIES_PER_FILTER
        found = []
        for entry in self._candidates(wanted):
            self._looked_at += 1
            if self._looked_at >= ENTRIES_PER_STEP:
                self._looked_at = 0
                yield
            if _agrees(entry, wanted):
                self._looked_at += ENTRIES_PER_MATCH
                found.append(entry)
        return found

    def _candidates(self, wanted: AclFilter) -> Iterator[AccessControlEntryRecord]:
        """Yields the entries that may match by the field of the filter that leaves the fewest."""
        choices = [[self._entries]]
        if wanted.resource_name_filter is not None:
            choices.append(self._of_names(wanted.resource_name_filter, wanted.pattern_type_filter))
        if wanted.principal_filter is not None:
            choices.append([self._by_principal.get(wanted.principal_filter, [])])
        if wanted.host_filter is not None:
            choices.append([self._by_host.get(wanted.host_filter, [])])
        fewest = min(choices, key=lambda lists: sum(map(len, lists)))
        return chain.from_iterable(fewest)

    def _of_names(self, name: str, pattern_type: int) -> list[list[AccessControlEntryRecord]]:
        """Returns the entries of the resource names that a filter's name may match, those of each name by themselves.

        Only prefixes as long as some entry's name are looked up: a filter's name may be very long.
        """
        names: Iterable[str] = (name,)
        if pattern_type == PatternType.MATCH:
            prefixes = (name[:length] for length in self._name_lengths if length <= len(name))
            names = dict.fromkeys([WILDCARD, *(prefix for prefix in prefixes if prefix in self._by_name)])
        return [self._by_name[each] for each in names if each in self._by_name]

    @cached_property
    def _by_name(self) -> Mapping[str, list[AccessControlEntryRecord]]:
        return _by(attrgetter("resource_name"), self._entries)

    @cached_property
    def _by_principal(self) -> Mapping[str, list[AccessControlEntryRecord]]:
        return _by(attrgetter("principal"), self._entries)

    @cached_property
    def _by_host(self) -> Mapping[str, list[AccessControlEntryRecord]]:
        return _by(attrgetter("host"), self._entries)

    @cached_property
    def _name_lengths(self) -> frozenset[int]:
        return frozenset(map(len, self._by_name))


def in_order(entries: Iterable[AccessControlEntryRecord]) -> list[AccessControlEntryRecord]:
    """Returns the entries sorted by resource type, name and pattern type, then by principal, host and operation."""
    return sorted(entries, key=_order)


def _by(
    field: Callable[[AccessControlEntryRecord], str], entries: Collection[AccessControlEntryRecord]
) -> Mapping[str, list[AccessControlEntryRecord]]:
    index: dict[str, list[AccessControlEntryRecord]] = {}
    for entry in entries:
        index.setdefault(field(entry), []).append(entry)
    assert sum(map(len, index.values())) == len(entries), (len(index), len(entries))
    return index


_UNKNOWN: Final = "UNKNOWN"
_PATTERN_TYPES: Final = frozenset(map(int, PatternType)) - {PatternType.UNKNOWN}
_Order: TypeAlias = tuple[int, str, int, str, str, int, int, bytes]


def _order(entry: AccessControlEntryRecord) -> _Order:
    return (
        entry.resource_type,
        entry.resource_name,
        entry.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
        entry.id,
    )


def _agrees(entry: AccessControlEntryRecord, wanted: AclFilter) -> bool:
    return (
        wanted.resource_type_filter in (ResourceType.ANY, entry.resource_type)
        and wanted.operation in (AclOperation.ANY, entry.operation)
        and wanted.permission_type in (AclPermission.ANY, entry.permission_type)
        and wanted.principal_filter in (None, entry.principal)
        and wanted.host_filter in (None, entry.host)
        and _agrees_in_pattern(entry, wanted.pattern_type_filter, wanted.resource_name_filter)
    )


def _agrees_in_pattern(entry: AccessControlEntryRecord, pattern_type: int, name: str | None) -> bool:
    """Returns whether name and pattern type match; MATCH finds all entries that apply to the resource name. KIP-290."""
    if pattern_type not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
        return False
    if name is None or name == entry.resource_name:
        return True
    if pattern_type != PatternType.MATCH:
        return False
    if entry.pattern_type == PatternType.LITERAL:
        return entry.resource_name == WILDCARD
    return name.startswith(entry.resource_name)
