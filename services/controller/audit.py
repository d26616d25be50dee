"""Who was denied what, and who was allowed: for whoever has to look into it, in the words of Kafka's authorizer log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from quorate.authorizer import Requester, Resource, Rule, Ruling
from quorate.metadata.acls import Operation, PatternType, Permission, ResourceType
from quorate.records import AccessControlEntryRecord
from quorate.runtime.logs import logger

LOGGER: Final = "kafka.authorizer.logger"
"""Kafka's name, by which operators and their tools know it."""

log = logger(LOGGER)


def tell(request: str, who: Requester, operation: Operation, resource: Resource, ruling: Ruling) -> None:
    """One decision: a denial is info, a permission debug. Names of resources are in it, and nothing of a request."""
    write = log.debug if ruling.allowed else log.info
    write(
        "allowed" if ruling.allowed else "denied",
        principal=who.principal,
        operation=named(operation),
        host=who.host,
        resource=_Shown(resource),
        request=request,
        rule=_Because(ruling),
    )


def named(member: IntEnum) -> str:
    """Kafka's spelling for people.

    >>> named(Operation.CLUSTER_ACTION), named(ResourceType.DELEGATION_TOKEN)
    ('ClusterAction', 'DelegationToken')
    """
    return "".join(word.capitalize() for word in member.name.split("_"))


@dataclass(frozen=True, slots=True)
class _Shown:
    """A resource, put into words only if it is written."""

    resource: Resource

    def __str__(self) -> str:
        kind, name = self.resource
        return f"{named(ResourceType(kind))}:{PatternType.LITERAL.name}:{name}"


@dataclass(frozen=True, slots=True)
class _Because:
    """What decided, put into words only if it is written."""

    ruling: Ruling

    def __str__(self) -> str:
        because = self.ruling.because
        return because.value if isinstance(because, Rule) else f"MatchingAcl({_entry(because)})"


def _entry(entry: AccessControlEntryRecord) -> str:
    return ", ".join(
        (
            f"{ResourceType(entry.resource_type).name}:{PatternType(entry.pattern_type).name}:{entry.resource_name}",
            entry.principal,
            entry.host,
            Operation(entry.operation).name,
            Permission(entry.permission_type).name,
        )
    )
