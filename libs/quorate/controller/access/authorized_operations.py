"""Authorized operations: what a caller may do to a resource, as a bit field; bit n is operation n. KIP-430."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.controller.access.rights import Allows
from quorate.metadata.acls import AclOperation, ResourceType

__all__ = ["authorized_operations"]

_OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that each resource type supports. Kafka's AclEntry.supportedOperations."""

for _operations in _OPERATIONS.values():
    assert len(set(_operations)) == len(_operations), _operations
    assert min(_operations) > AclOperation.ALL, f"operations, and not a filter's word for several: {_operations}"
    assert max(_operations) < 31, f"bits of a positive int32: {_operations}"


def authorized_operations(would_allow: Allows, kind: ResourceType, name: str) -> int:
    """Returns the operations that the caller may do to the resource `name`, as a bit field: bit n is AclOperation n.

    `kind` is TOPIC or CLUSTER. Without an authorizer these are all operations of the resource type. KIP-430.
    """
    return sum(1 << operation for operation in _OPERATIONS[kind] if would_allow(operation, kind, name))
