"""Which access control entries a filter means, for deleting and for describing them. KIP-140, KIP-290."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import WILDCARD, Operation, PatternType, Permission, ResourceType
from quorate.records import AccessControlEntryRecord

__all__ = ["AclFilter", "Matcher", "check_filter", "code_name"]


class AclFilter(Protocol):
    """What DescribeAcls and DeleteAcls have in common. Null matches any name, principal, host."""

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
    """Raises ApiError(INVALID_REQUEST) for a number that Kafka has no name for."""
    for thing, numbers, number in (
        ("resource type", ResourceType, wanted.resource_type_filter),
        ("pattern type", PatternType, wanted.pattern_type_filter),
        ("operation", Operation, wanted.operation),
        ("permission type", Permission, wanted.permission_type),
    ):
        if code_name(numbers, number) == _UNKNOWN:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the filter's {thing} {number} is unknown")


def code_name(numbers: type[IntEnum], number: int) -> str:
    """Kafka's name of a number; UNKNOWN if it has none."""
    try:
        return numbers(number).name
    except ValueError:
        return _UNKNOWN


class Matcher:
    """The entries of one moment, grouped by name: a request may have thousands of filters."""

    def __init__(self, entries: Iterable[AccessControlEntryRecord]) -> None:
        self._by_name: dict[str, list[AccessControlEntryRecord]] = {}
        for entry in entries:
            self._by_name.setdefault(entry.resource_name, []).append(entry)

    def matches(self, wanted: AclFilter) -> list[AccessControlEntryRecord]:
        """The entries that agree with all of the filter, sorted by resource, then principal, host, operation."""
        return sorted((entry for entry in self._candidates(wanted) if _agrees(entry, wanted)), key=_order)

    def _candidates(self, wanted: AclFilter) -> Iterator[AccessControlEntryRecord]:
        """Those that the name does not rule out."""
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
        and wanted.operation in (Operation.ANY, entry.operation)
        and wanted.permission_type in (Permission.ANY, entry.permission_type)
        and wanted.principal_filter in (None, entry.principal)
        and wanted.host_filter in (None, entry.host)
        and _agrees_in_pattern(entry, wanted.pattern_type_filter, wanted.resource_name_filter)
    )


def _agrees_in_pattern(entry: AccessControlEntryRecord, pattern_type: int, name: str | None) -> bool:
    """MATCH means the entries that cover a resource of the filter's name. KIP-290."""
    if pattern_type not in (PatternType.ANY, PatternType.MATCH, entry.pattern_type):
        return False
    if name is None or name == entry.resource_name:
        return True
    if pattern_type != PatternType.MATCH:
        return False
    if entry.pattern_type == PatternType.LITERAL:
        return entry.resource_name == WILDCARD
    return name.startswith(entry.resource_name)
