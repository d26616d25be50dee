"""What a caller may do to a resource, as a bit field: bit n is the operation of that number. KIP-430."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.controller.delegation_tokens import Allows
from quorate.metadata.acls import Operation, ResourceType
from quorate.metadata.state import ClusterState

__all__ = ["authorized_operations"]

_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""What there is to do with the resources that are described here. Kafka: AclEntry.supportedOperations."""


def authorized_operations(state: ClusterState, would_allow: Allows, kind: ResourceType, name: str) -> int:
    """Of the operations that resources of this type have, those that the caller may do to the one of this name.

    Without an authorizer that is all of them.
    """
    return sum(1 << operation for operation in _OPERATIONS[kind] if would_allow(state, operation, kind, name))
