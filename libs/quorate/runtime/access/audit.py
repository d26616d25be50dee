"""Audit log of the authorizer: each allowed and denied operation, with the fields of Kafka's authorizer log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from quorate.authorizer import CLUSTER, AclResource, DefaultRule, Requester, Ruling
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord
from quorate.runtime.logging.logs import logger

LOGGER: Final = "kafka.authorizer.logger"
"""The logger name that Kafka uses, known to operators and their tools."""

DENIALS_EACH: Final = 100
"""Denials of one request that have a line each."""

log = logger(LOGGER)


class Decisions:
    """Writes the audit lines of one request, whose items the authorizer decides on one by one.

    Each of the first `DENIALS_EACH` denials has a line at info. Of the others it is only the 128th, the 256th, the
    512th and so on, with their number as `denials`, or else one request fills the log; the rest are logged at debug.
    """

    def __init__(self, request: str, who: Requester) -> None:
        self._request = request
        self._who = who
        self._denials = 0

    def tell(self, operation: AclOperation, resource: AclResource, ruling: Ruling) -> None:
        """Logs one decision: a permission at debug, a denial at info or debug as the class says, and counts denials."""
        if ruling.allowed:
            return tell(self._request, self._who, operation, resource, ruling)
        self._denials += 1
        if self._denials <= DENIALS_EACH:
            return tell(self._request, self._who, operation, resource, ruling)
        is_told = self._denials.bit_count() == 1
        if not is_told and not log.tells_debug:
            return None
        write = log.info if is_told else log.debug
        fields = _fields(self._request, self._who, operation, resource)
        return write("denied", **fields, rule=_Because(ruling), denials=self._denials)


def tell(request: str, who: Requester, operation: AclOperation, resource: AclResource, ruling: Ruling) -> None:
    """Logs one decision: a denial at info, a permission at debug; with resource names, but no request content."""
    if log.tells_debug or not ruling.allowed:  # else to make the fields costs more than to decide
        _tell(ruling.allowed, request, who, operation, resource, rule=_Because(ruling))


def allow(request: str, who: Requester, rule: str) -> None:
    """Logs at debug that CLUSTER_ACTION was allowed by `rule`, which is none of the authorizer's, and no ACL."""
    _tell(True, request, who, AclOperation.CLUSTER_ACTION, CLUSTER, rule=rule)


def deny(request: str, who: Requester, rule: str, **more: object) -> None:
    """Logs at info that CLUSTER_ACTION was denied by `rule`, none of the authorizer's; `more` are further fields."""
    _tell(False, request, who, AclOperation.CLUSTER_ACTION, CLUSTER, rule=rule, **more)


def _tell(
    is_allowed: bool, request: str, who: Requester, operation: AclOperation, resource: AclResource, **fields: object
) -> None:
    write = log.debug if is_allowed else log.info
    write("allowed" if is_allowed else "denied", **_fields(request, who, operation, resource), **fields)


def _fields(request: str, who: Requester, operation: AclOperation, resource: AclResource) -> dict[str, object]:
    return {
        "principal": who.principal,
        "operation": named(operation),
        "host": who.host,
        "resource": _Shown(resource),
        "request": request,
    }


def named(member: IntEnum) -> str:
    """Returns an enum member's name in Kafka's display form.

    >>> named(AclOperation.CLUSTER_ACTION), named(ResourceType.DELEGATION_TOKEN)
    ('ClusterAction', 'DelegationToken')
    """
    return "".join(word.capitalize() for word in member.name.split("_"))


@dataclass(frozen=True, slots=True)
class _Shown:
    """A resource that is formatted only if its log line is written."""

    resource: AclResource

    def __str__(self) -> str:
        kind, name = self.resource
        return f"{named(ResourceType(kind))}:{PatternType.LITERAL.name}:{name}"


@dataclass(frozen=True, slots=True)
class _Because:
    """The rule or ACL behind a decision, formatted only if its log line is written."""

    ruling: Ruling

    def __str__(self) -> str:
        because = self.ruling.because
        return because.value if isinstance(because, DefaultRule) else f"MatchingAcl({_entry(because)})"


def _entry(entry: AccessControlEntryRecord) -> str:
    return ", ".join(
        (
            f"{ResourceType(entry.resource_type).name}:{PatternType(entry.pattern_type).name}:{entry.resource_name}",
            entry.principal,
            entry.host,
            AclOperation(entry.operation).name,
            AclPermission(entry.permission_type).name,
        )
    )
