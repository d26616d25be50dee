"""The rights of a caller, as commands ask for them: may the caller do this operation on this resource?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from quorate.metadata.acls import AclOperation, ResourceType

__all__ = ["Allows", "allows_all"]

Allows: TypeAlias = Callable[[AclOperation, ResourceType, str], bool]
"""Asks the authorizer whether the caller may do an operation on a resource: (operation, type, name) to bool."""


def allows_all(_operation: AclOperation, _type: ResourceType, _name: str) -> bool:
    """Allows every operation: the rule of a cluster without an authorizer."""
    return True
