"""The authorization decision: DENY entries win over ALLOW entries, and without a matching entry access is denied.

Super users may do everything. For others an entry counts if it matches the resource (by literal name, prefix or
wildcard), the principal (the caller's or `User:*`), the host and the operation. KIP-11, KIP-290.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from quorate.authorizer.hosts import covers
from quorate.metadata.acls import WILDCARD, AclOperation, AclPermission, Acls, Pattern, PatternType, ResourceType
from quorate.nouns import Principal
from quorate.records import AccessControlEntryRecord

__all__ = [
    "CLUSTER",
    "CLUSTER_NAME",
    "STANDARD_AUTHORIZER",
    "AclResource",
    "DefaultRule",
    "Requester",
    "Ruling",
    "StandardAuthorizer",
]

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Its name in Kafka's `authorizer.class.name`."""

EVERYONE: Final = f"User:{WILDCARD}"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of type CLUSTER."""

_ALL: Final = int(AclOperation.ALL)
_ALLOW: Final = int(AclPermission.ALLOW)
_INCLUDED: Final = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
_ENOUGH: Final = {
    operation: frozenset({int(operation), _ALL, *map(int, _INCLUDED.get(operation, ()))}) for operation in AclOperation
}
"""By operation: the operations whose ALLOW entry permits it. A DENY entry denies only its own operation (or ALL)."""


class AclResource(NamedTuple):
    """A resource: its type and its full name."""

    type: int
    name: str


CLUSTER: Final = AclResource(ResourceType.CLUSTER, CLUSTER_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The caller: its principal and its host, an address in the form of `hosts.host_address`."""

    principal: Principal
    host: str


class DefaultRule(Enum):
    """The rule that decides an authorization without a matching entry; the values are Kafka's words."""

    SUPER_USER = "SuperUser"
    DEFAULT_ALLOW = "DefaultAllow"
    """The resource has no entry, and `allow.everyone.if.no.acl.found` is true."""
    DEFAULT_DENY = "DefaultDeny"


class Ruling(NamedTuple):
    """An authorization result and its reason: the deciding entry, or the rule if no entry decided."""

    allowed: bool
    because: AccessControlEntryRecord | DefaultRule


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardAuthorizer:
    """The authorizer with an operator's settings: it decides by these and the ACL entries that each call gives it."""

    super_users: frozenset[str] = frozenset()
    """The super users, as text such as `User:admin`."""
    allow_everyone_if_no_acl_found: bool = False

    def allows(self, acls: Acls, who: Requester, operation: AclOperation, resource: AclResource) -> bool:
        """Returns whether `who` may do the operation on the resource."""
        return self.ruling(acls, who, operation, resource).allowed

    def ruling(self, acls: Acls, who: Requester, operation: AclOperation, resource: AclResource) -> Ruling:
        """Returns whether `who` may do the operation on the resource, and the reason.

        `allow_everyone_if_no_acl_found` applies only if no entry at all matches the resource, whatever the entry's
        principal, host and operation. If several entries permit the operation, the reason is one of them.
        """
        principal = str(who.principal)
        if principal in self.super_users:
            return _SUPER_USER
        patterns = acls.covering(*resource)
        enough = _ENOUGH[operation]
        permission: AccessControlEntryRecord | None = None
        if _begins_with_wildcard(resource.name):
            for entry in _said(acls, _everything(resource.type), principal):
                if _denies(entry, operation, who.host):
                    return Ruling(False, entry)
            patterns = [pattern for pattern in patterns if pattern != _everything(resource.type)]
        for pattern in patterns:
            for entry in _said(acls, pattern, principal):
                if entry.permission_type != _ALLOW:
                    if _denies(entry, operation, who.host):
                        return Ruling(False, entry)
                elif permission is None and entry.operation in enough and covers(entry.host, who.host):
                    permission = entry
        if permission is not None:
            return Ruling(True, permission)
        return _DEFAULT_ALLOW if self.allow_everyone_if_no_acl_found and not patterns else _DEFAULT_DENY

    def allows_on_any(self, acls: Acls, who: Requester, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Returns whether `who` may do the operation on at least one resource of the type, existing or not.

        As in Kafka's authorizeByResourceType, an ALLOW includes no other operation here, and a name without entries
        stands for all resources without entries. Brokers ask it (InitProducerId); no service here does.
        """
        if self.allows(acls, who, operation, AclResource(resource_type, _NO_NAME)):
            return True
        denied: set[Pattern] = set()
        allowed: list[Pattern] = []
        for pattern in acls.patterns():
            if pattern.resource_type != resource_type:
                continue
            permissions = _permissions(acls, pattern, who, operation)
            if AclPermission.ALLOW in permissions:
                allowed.append(pattern)
            if permissions - {AclPermission.ALLOW}:
                denied.add(pattern)
        everything = _everything(resource_type)
        if everything in denied:
            return False
        return everything in allowed or any(not _is_dominated(pattern, denied) for pattern in allowed)


_SUPER_USER: Final = Ruling(True, DefaultRule.SUPER_USER)
_DEFAULT_ALLOW: Final = Ruling(True, DefaultRule.DEFAULT_ALLOW)
_DEFAULT_DENY: Final = Ruling(False, DefaultRule.DEFAULT_DENY)
_NO_NAME: Final = "hardcode"
"""The resource name without entries that Kafka uses in authorizeByResourceType."""


def _begins_with_wildcard(name: str) -> bool:
    """Returns whether a name is like `*a`, which Kafka does not match with the entries for all resources (`*`).

    StandardAuthorizerData.checkSection takes the entry's `*` for a literal name there, unlike this one. We do the same
    for ALLOW entries, and for whether a resource has entries at all, so that we permit nothing that Kafka refuses. For
    DENY entries we do not: an operator who denies `*` means all resources, and would otherwise have to know that names
    which an application may choose (groups, transactional ids) are exempt.
    """
    return name.startswith(WILDCARD) and name != WILDCARD


def _everything(resource_type: int) -> Pattern:
    return Pattern(resource_type, WILDCARD, PatternType.LITERAL)


def _said(acls: Acls, pattern: Pattern, principal: str) -> tuple[AccessControlEntryRecord, ...]:
    """Returns the entries with this pattern for one principal and for `User:*`."""
    return (*acls.said(pattern, principal), *acls.said(pattern, EVERYONE))


def _denies(entry: AccessControlEntryRecord, operation: AclOperation, host: str) -> bool:
    return entry.permission_type != _ALLOW and entry.operation in (operation, _ALL) and covers(entry.host, host)


def _permissions(acls: Acls, pattern: Pattern, who: Requester, operation: AclOperation) -> set[int]:
    """Returns the permission types (ALLOW, DENY) in entries with exactly this pattern for this operation or ALL."""
    return {
        entry.permission_type
        for entry in _said(acls, pattern, str(who.principal))
        if entry.operation in (operation, AclOperation.ALL) and covers(entry.host, who.host)
    }


def _is_dominated(allowed: Pattern, denied: set[Pattern]) -> bool:
    """Returns whether all that `allowed` matches is denied: by the same literal, or the same or a shorter prefix."""
    resource_type, name, pattern_type = allowed
    if pattern_type == PatternType.LITERAL and allowed in denied:
        return True
    prefixes = (Pattern(resource_type, name[:end], PatternType.PREFIXED) for end in range(1, len(name) + 1))
    return any(prefix in denied for prefix in prefixes)
