"""Callers of a broker without listeners: one who may do everything, and a user with entries of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from quorate.authorizer import Requester, StandardAuthorizer
from quorate.metadata.acls import AclOperation, AclPermission, Acls, PatternType, ResourceType
from quorate.nouns import ZERO_UUID, Principal
from quorate.records import AccessControlEntryRecord
from quorate.timeline import SnapshotRegistry
from services.broker.callers import Caller

LISTENER = "PLAINTEXT"
HOST = "10.0.0.1"
USER = Principal("User", "alice")


def caller(authorizer: StandardAuthorizer | None = None, acls: Acls | None = None, listener: str = LISTENER) -> Caller:
    """The user, at a broker with this authorizer; without one everybody may do everything."""
    entries = acls if acls is not None else Acls(SnapshotRegistry())
    return Caller(listener, Requester(principal=USER, host=HOST), "a test", authorizer, lambda: entries)


def user_with(*rights: tuple[AclOperation, ResourceType, str]) -> Caller:
    """The user with these rights, and no others."""
    acls = Acls(SnapshotRegistry())
    for number, (operation, kind, name) in enumerate(rights):
        uuid = type(ZERO_UUID)(bytes([number]) * 16)
        literal, allow = PatternType.LITERAL, AclPermission.ALLOW
        acls.add(AccessControlEntryRecord(uuid, kind, name, literal, str(USER), "*", operation, allow), 0)
    return caller(StandardAuthorizer(), acls)


def codes_in(part: Any) -> Iterator[int]:
    """All error codes in an answer that msgspec has made plain, in their order."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "error_code":
                yield value
            else:
                yield from codes_in(value)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from codes_in(each)
