"""ACL filters: finds the access control entries that DescribeAcls and DeleteAcls match. KIP-140, KIP-290."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import WILDCARD, AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord

__all__ = ["AclFilter", "Matcher", "check_filter", "code_name"]


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
    """An index of the present ACL entries by resource name, since a request may have thousands of filters."""

    def __init__(self, entries: Iterable[AccessControlEntryRecord]) -> None:
        self._by_name: dict[str, list[AccessControlEntryRecord]] = {}
        for entry in entries:
            self._by_name.setdefault(entry.resource_name, []).append(entry)

    def matches(self, wanted: AclFilter) -> list[AccessControlEntryRecord]:
        """Returns the entries that match the filter, sorted by resource, then principal, host, operation.

        `check_filter` has accepted the filter: one with an unknown type would find nothing, and nobody would notice.
        """
        assert wanted.pattern_type_filter in _PATTERN_TYPES, wanted
        return sorted((entry for entry in self._candidates(wanted) if _agrees(entry, wanted)), key=_order)

    def _candidates(self, wanted: AclFilter) -> Iterator[AccessControlEntryRecord]:
        """Yields the entries whose resource name may match the filter."""
        for name in self._names(wanted):
            yield from self._by_name.get(name, ())

    def _names(self, wanted: AclFilter) -> Iterable[str]:
        name = wanted.resource_name_filter
        if name is None:
            return self._by_name
        if wanted.pattern_type_filter != PatternType.MATCH:
            return (name,)
        return dict.fromkeys([WILDCARD, *(name[:end] for end in range(len(name) + 1))])


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
