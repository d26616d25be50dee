"""Entities that quotas are for, as requests, records and responses write them."""

from __future__ import annotations

from typing import Final

from quorate.metadata.client_quotas import Entity
from quorate.records import ClientQuotaRecord

__all__ = [
    "ALICE",
    "ALICES_APP",
    "ALICES_OTHERS",
    "ANYBODY",
    "ANYWHERE",
    "APP",
    "HOST",
    "quota",
]

ALICE: Final[Entity] = (("user", "alice"),)
ANYBODY: Final[Entity] = (("user", None),)
APP: Final[Entity] = (("client-id", "app"),)
ALICES_APP: Final[Entity] = (("client-id", "app"), ("user", "alice"))
ALICES_OTHERS: Final[Entity] = (("client-id", None), ("user", "alice"))
HOST: Final[Entity] = (("ip", "10.0.0.1"),)
ANYWHERE: Final[Entity] = (("ip", None),)


def quota(entity: Entity, key: str, value: float = 0.0, *, remove: bool = False) -> ClientQuotaRecord:
    """The record that sets a quota, or removes it."""
    return ClientQuotaRecord(tuple(ClientQuotaRecord.EntityData(*part) for part in entity), key, value, remove)
