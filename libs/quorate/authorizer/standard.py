"""The decision: a denial beats every permission, and what nothing is said about is refused. KIP-11, KIP-290.

Super users may do everything. For the others all entries count that cover the resource (its name, one of its prefixes,
the wildcard), the principal (its own or `User:*`), the host and the operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from quorate.authorizer.hosts import covers
from quorate.metadata.acls import WILDCARD, Acls, Operation, Pattern, PatternType, Permission, ResourceType
from quorate.nouns import Principal
from quorate.records import AccessControlEntryRecord

__all__ = ["CLUSTER", "CLUSTER_NAME", "Requester", "Resource", "Rule", "Ruling", "StandardAuthorizer"]

EVERYONE: Final = f"User:{WILDCARD}"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name that a resource of the type CLUSTER has."""

_ALL: Final = int(Operation.ALL)
_ALLOW: Final = int(Permission.ALLOW)
_INCLUDED: Final = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
_ENOUGH: Final = {
    operation: frozenset({int(operation), _ALL, *map(int, _INCLUDED.get(operation, ()))}) for operation in Operation
}
"""Which permissions include one that is asked for. Denials include none but their own."""


class Resource(NamedTuple):
    """One resource, by its type and its whole name."""

    type: int
    name: str


CLUSTER: Final = Resource(ResourceType.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks, and from which host (as `hosts.host_address` writes it)."""

    principal: Principal
    host: str


class Rule(Enum):
    """What decides where no entry does, in Kafka's words."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    """Nothing is said about the resource, and `allow.everyone.if.no.acl.found` is on."""
    DEFAULT_DENY = "DefaultDeny"


class Ruling(NamedTuple):
    """May they, and why: the entry that decided, or the rule for where there is none."""

    allowed: bool
    because: AccessControlEntryRecord | Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardAuthorizer:
    """What an operator configured: `super.users`, and whether a resource that has no entry is open to everyone."""

    super_users: frozenset[str] = frozenset()
    """Principals as text, such as `User:admin`."""
    allow_everyone_if_no_acl_found: bool = False

    def allows(self, acls: Acls, who: Requester, operation: Operation, resource: Resource) -> bool:
        """May `who` do it?"""
        return self.ruling(acls, who, operation, resource).allowed

    def ruling(self, acls: Acls, who: Requester, operation: Operation, resource: Resource) -> Ruling:
        """May `who` do it, and why? An entry of any principal, host and operation makes a resource one that has some.

        Of several entries that permit it, one is named.
        """
        principal = str(who.principal)
        if principal in self.super_users:
            return _SUPER_USER
        patterns = acls.covering(*resource)
        enough = _ENOUGH[operation]
        permission: AccessControlEntryRecord | None = None
        for pattern in patterns:
            for entry in (*acls.said(pattern, principal), *acls.said(pattern, EVERYONE)):
                if entry.permission_type != _ALLOW:
                    if entry.operation in (operation, _ALL) and covers(entry.host, who.host):
                        return Ruling(False, entry)
                elif permission is None and entry.operation in enough and covers(entry.host, who.host):
                    permission = entry
        if permission is not None:
            return Ruling(True, permission)
        return _DEFAULT_ALLOW if self.allow_everyone_if_no_acl_found and not patterns else _DEFAULT_DENY

    def allows_on_any(self, acls: Acls, who: Requester, operation: Operation, resource_type: ResourceType) -> bool:
        """May `who` do it to at least one resource of the type that there is or could be?

        Kafka's authorizeByResourceType: permissions include nothing but their own operation here, and a name that no
        entry has stands for all that nothing is said about.
        """
        if self.allows(acls, who, operation, Resource(resource_type, _NO_NAME)):
            return True
        denied: set[Pattern] = set()
        allowed: list[Pattern] = []
        for pattern in acls.patterns():
            if pattern.resource_type != resource_type:
                continue
            permissions = _permissions(acls, pattern, who, operation)
            if Permission.ALLOW in permissions:
                allowed.append(pattern)
            if permissions - {Permission.ALLOW}:
                denied.add(pattern)
        everything = Pattern(resource_type, WILDCARD, PatternType.LITERAL)
        if everything in denied:
            return False
        return everything in allowed or any(not _is_dominated(pattern, denied) for pattern in allowed)


_SUPER_USER: Final = Ruling(True, Rule.SUPER_USER)
_DEFAULT_ALLOW: Final = Ruling(True, Rule.DEFAULT_ALLOW)
_DEFAULT_DENY: Final = Ruling(False, Rule.DEFAULT_DENY)
_NO_NAME: Final = "hardcode"
"""The name that Kafka takes for this."""


def _permissions(acls: Acls, pattern: Pattern, who: Requester, operation: Operation) -> set[int]:
    """What entries with exactly this pattern say of exactly this operation."""
    return {
        entry.permission_type
        for entry in (*acls.said(pattern, str(who.principal)), *acls.said(pattern, EVERYONE))
        if entry.operation in (operation, Operation.ALL) and covers(entry.host, who.host)
    }


def _is_dominated(allowed: Pattern, denied: set[Pattern]) -> bool:
    """Is all that `allowed` covers denied: by the same literal, or by the same or a shorter prefix?"""
    resource_type, name, pattern_type = allowed
    if pattern_type == PatternType.LITERAL and allowed in denied:
        return True
    prefixes = (Pattern(resource_type, name[:end], PatternType.PREFIXED) for end in range(1, len(name) + 1))
    return any(prefix in denied for prefix in prefixes)
