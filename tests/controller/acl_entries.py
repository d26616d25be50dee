"""Access control entries of a cluster, and which of them a filter means, for deleting and for describing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kraft.api.delete_acls import DeleteAclsRequest
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.records import AccessControlEntryRecord as Entry
from tests.controller.clusters import Cluster, uuid

__all__ = ["ENTRIES", "FILTERS", "Filter", "Meant", "everything", "five_entries"]

Filter = DeleteAclsRequest.DeleteAclsFilter
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ANY, MATCH, LITERAL, PREFIXED = PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED

ENTRIES: Final[Mapping[str, Entry]] = {
    "orders": Entry(uuid(5), TOPIC, "orders", LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW),
    "ord*": Entry(uuid(4), TOPIC, "ord", PREFIXED, "User:alice", "*", AclOperation.WRITE, AclPermission.ALLOW),
    "all": Entry(uuid(3), TOPIC, "*", LITERAL, "User:bob", "10.0.0.1", AclOperation.READ, AclPermission.DENY),
    "ord": Entry(uuid(2), TOPIC, "ord", LITERAL, "User:bob", "*", AclOperation.READ, AclPermission.ALLOW),
    "group": Entry(uuid(1), GROUP, "orders", LITERAL, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW),
}


def five_entries() -> Cluster:
    """Alice may READ topic orders and group orders, WRITE topics ord…; Bob READ topic ord, and not * at 10.0.0.1."""
    cluster = Cluster(25)
    cluster.apply(ENTRIES.values())
    return cluster


def everything(**changes: Any) -> Filter:
    """Matches every entry, but for what is said."""
    return Filter(
        **{
            "resource_type_filter": ResourceType.ANY,
            "resource_name_filter": None,
            "pattern_type_filter": ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": AclOperation.ANY,
            "permission_type": AclPermission.ANY,
            **changes,
        }
    )


class Meant(NamedTuple):
    """A filter, and the names in ENTRIES of what it means: by resource type, name and pattern, then by principal."""

    case: str
    rule: str
    filter: Filter
    names: tuple[str, ...] = ()


def by_name(name: str, pattern_type: int = ANY) -> Filter:
    return everything(resource_name_filter=name, pattern_type_filter=pattern_type)


PATTERN: Final = "ResourcePatternFilter.matches"
ENTRY: Final = "AccessControlEntryFilter.matches"
ITSELF: Final = f"{PATTERN}: but for MATCH a name means itself, of each pattern type that is asked for (KIP-290)."
COVERS: Final = f"{PATTERN}: MATCH means all that cover a resource of that name (KIP-290)."
NO_NAME: Final = f"{PATTERN}: without a name any name does."
EXACTLY: Final = f"{ENTRY}: null means any, and everything else exactly itself."
OPERATIONS: Final = f"{ENTRY}: ANY means any; ALL means the entries on ALL, not those on each."

ALL_FIVE: Final = ("all", "ord", "ord*", "orders", "group")

FILTERS: Final = (
    Meant("everything", "AclBindingFilter.matches: the pattern and the entry have to agree.", everything(), ALL_FIVE),
    Meant("one type", f"{PATTERN}: the types are equal, or any.", everything(resource_type_filter=GROUP), ("group",)),
    Meant("a type without entries", f"{PATTERN}: the types are equal.", everything(resource_type_filter=7)),
    Meant("a name", ITSELF, by_name("ord"), ("ord", "ord*")),
    Meant("a name, literal", ITSELF, by_name("ord", LITERAL), ("ord",)),
    Meant("a name, as a prefix", ITSELF, by_name("ord", PREFIXED), ("ord*",)),
    Meant("a name that a prefix covers, as a prefix", ITSELF, by_name("orders", PREFIXED)),
    Meant("the wildcard", ITSELF, by_name("*"), ("all",)),
    Meant("what covers a name", COVERS, by_name("orders", MATCH), ("all", "ord*", "orders", "group")),
    Meant("what covers a name shorter than the prefix", COVERS, by_name("or", MATCH), ("all",)),
    Meant("what covers the wildcard", COVERS, by_name("*", MATCH), ("all",)),
    Meant("what covers any name", NO_NAME, everything(pattern_type_filter=MATCH), ALL_FIVE),
    Meant("any prefix", NO_NAME, everything(pattern_type_filter=PREFIXED), ("ord*",)),
    Meant("a principal", EXACTLY, everything(principal_filter="User:bob"), ("all", "ord")),
    Meant("every user, which no entry names", EXACTLY, everything(principal_filter="User:*")),
    Meant("from any host", EXACTLY, everything(host_filter="*"), ("ord", "ord*", "orders", "group")),
    Meant("from a host", EXACTLY, everything(host_filter="10.0.0.1"), ("all",)),
    Meant("an operation", OPERATIONS, everything(operation=AclOperation.WRITE), ("ord*",)),
    Meant("all operations, which no entry names", OPERATIONS, everything(operation=AclOperation.ALL)),
    Meant("what denies", f"{ENTRY}: ANY means both.", everything(permission_type=AclPermission.DENY), ("all",)),
)
"""Written down once: deleting and describing go by the same class of Kafka's."""
