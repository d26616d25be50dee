"""Writes of ACLs: `acls add`, `acls remove`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any, Final, TypeVar

import typer

from quorate.cli.failures import Misused
from quorate.cli.write import Json, Write

__all__ = ["WRITES"]

Principals = Annotated[
    list[str] | None, typer.Option("--principal", metavar="TYPE:NAME", help="As User:alice; may be repeated.")
]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", help="READ, WRITE, DESCRIBE, ALL and so on; may be repeated.")
]
Hosts = Annotated[list[str] | None, typer.Option("--host", help="From where; may be repeated.")]
OfTopics = Annotated[list[str] | None, typer.Option("--topic", help="A topic, by name; may be repeated.")]
OfGroups = Annotated[list[str] | None, typer.Option("--group", help="A consumer group, by name.")]
OfIds = Annotated[list[str] | None, typer.Option("--transactional-id", help="A transactional id.")]
OfTokens = Annotated[list[str] | None, typer.Option("--delegation-token", help="A delegation token, by its id.")]
OfUsers = Annotated[list[str] | None, typer.Option("--user", metavar="TYPE:NAME", help="A user, for its tokens.")]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]

ANYBODY: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the resource of type CLUSTER: `Resource.CLUSTER_NAME` of Kafka."""

E = TypeVar("E", bound=IntEnum)


def add_acls(
    principals: Principals = None,
    operations: Operations = None,
    hosts: Hosts = None,
    topics: OfTopics = None,
    groups: OfGroups = None,
    transactional_ids: OfIds = None,
    tokens: OfTokens = None,
    users: OfUsers = None,
    cluster: OfCluster = False,
    prefixed: Annotated[bool, typer.Option("--prefixed", help="Of all whose names begin so.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Deny it; without it, allow it.")] = False,
) -> Json:
    """Returns a CreateAclsRequest in JSON's values: an entry for each resource, principal, operation and host.

    Without hosts it is for every host. Raises Misused.
    """
    from quorate.metadata.acls import AclOperation, AclPermission, PatternType

    named = _resources(topics, groups, transactional_ids, tokens, users, cluster=cluster)
    if not principals or not operations or not named:
        raise Misused("give --principal, --operation and a resource: --topic, --group, --cluster and so on")
    made: Json = {
        "resource_pattern_type": int(PatternType.PREFIXED if prefixed else PatternType.LITERAL),
        "permission_type": int(AclPermission.DENY if deny else AclPermission.ALLOW),
    }
    return {
        "creations": [
            {
                **made,
                "resource_type": kind,
                "resource_name": name,
                "principal": principal,
                "host": host,
                "operation": _member("--operation", AclOperation, operation),
            }
            for kind, name in named
            for principal in principals
            for operation in operations
            for host in hosts or [ANYBODY]
        ]
    }


def remove_acls(
    principals: Principals = None,
    operations: Operations = None,
    hosts: Hosts = None,
    topics: OfTopics = None,
    groups: OfGroups = None,
    transactional_ids: OfIds = None,
    tokens: OfTokens = None,
    users: OfUsers = None,
    cluster: OfCluster = False,
    pattern: Annotated[
        str, typer.Option("--pattern", help="LITERAL, PREFIXED, ANY, or MATCH: all that apply to the name.")
    ] = "LITERAL",
    permission: Annotated[str, typer.Option("--permission", help="ALLOW, DENY or ANY.")] = "ANY",
) -> Json:
    """Returns a DeleteAclsRequest in JSON's values: a filter for each resource, principal, operation and host.

    Of these, one that is not given fits any. Raises Misused if none of them is given.
    """
    from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType

    named = _resources(topics, groups, transactional_ids, tokens, users, cluster=cluster)
    if not (named or principals or operations or hosts):
        raise Misused("say which, by --principal, --operation, --host or a resource: else all would be removed")
    fixed: Json = {
        "pattern_type_filter": _member("--pattern", PatternType, pattern),
        "permission_type": _member("--permission", AclPermission, permission),
    }
    anything: Sequence[tuple[int, str | None]] = [(int(ResourceType.ANY), None)]
    anybody: Sequence[str | None] = [None]
    filters = [
        {
            "resource_type_filter": kind,
            "resource_name_filter": name,
            "principal_filter": principal,
            "host_filter": host,
            "operation": _member("--operation", AclOperation, operation),
            **fixed,
        }
        for kind, name in (named or anything)
        for principal in (principals or anybody)
        for operation in operations or ["ANY"]
        for host in (hosts or anybody)
    ]
    # A filter that is absent fits any, and so is no field of the request.
    return {"filters": [{key: value for key, value in each.items() if value is not None} for each in filters]}


def _resources(
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    transactional_ids: Sequence[str] | None,
    tokens: Sequence[str] | None,
    users: Sequence[str] | None,
    *,
    cluster: bool,
) -> list[tuple[int, str]]:
    from quorate.metadata.acls import ResourceType

    named: Mapping[ResourceType, Sequence[str] | None] = {
        ResourceType.TOPIC: topics,
        ResourceType.GROUP: groups,
        ResourceType.TRANSACTIONAL_ID: transactional_ids,
        ResourceType.DELEGATION_TOKEN: tokens,
        ResourceType.USER: users,
        ResourceType.CLUSTER: [CLUSTER_NAME] if cluster else None,
    }
    return [(int(kind), name) for kind, names in named.items() for name in names or ()]


def _member(option: str, kind: type[E], text: str) -> int:
    name = text.upper().replace("-", "_")
    if name not in kind.__members__ or name == "UNKNOWN":
        known = ", ".join(each for each in kind.__members__ if each != "UNKNOWN")
        raise Misused(f"{option} {text!r}: it is one of {known}")
    return int(kind[name])


def _acls(asked: Json) -> list[str]:
    return [acl_words(each) for each in [*asked.get("creations", ()), *asked.get("filters", ())]]


def acl_words(acl: Mapping[str, Any]) -> str:
    """Returns an entry or a filter in words, by the fields of their requests and results.

    >>> acl_words({"principal": "User:a", "operation": 3, "resource_type": 2, "resource_name": "t", "host": "*"})
    'User:a READ TOPIC t from *'
    """
    from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType

    def told(*names: str) -> Any:
        return next((acl[name] for name in names if name in acl), None)

    pattern = told("resource_pattern_type", "pattern_type_filter", "pattern_type")
    words = [
        told("principal", "principal_filter") or "anybody",
        "is denied" if told("permission_type") == AclPermission.DENY else None,
        AclOperation(told("operation") or AclOperation.ANY).name,
        ResourceType(told("resource_type", "resource_type_filter") or ResourceType.ANY).name,
        None if pattern in (None, PatternType.LITERAL) else PatternType(pattern).name,
        told("resource_name", "resource_name_filter"),
        f"from {told('host', 'host_filter') or 'anywhere'}",
    ]
    return " ".join(each for each in words if each)


WRITES: Final = {
    ("acls", "add"): Write("CreateAcls", "Add ACLs.", "added", add_acls, subjects=_acls),
    ("acls", "remove"): Write(
        "DeleteAcls",
        "Remove the ACLs that fit.",
        "removed",
        remove_acls,
        subjects=_acls,
        named=acl_words,
        if_none="nothing fits",
    ),
}
