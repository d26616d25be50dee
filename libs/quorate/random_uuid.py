"""New random ids, as Kafka's `Uuid.randomUuid` makes them, for clusters, directories, topics, ACLs and incarnations."""

from __future__ import annotations

import secrets

from kraft import Uuid
from quorate.nouns import reserved_uuid, uuid_text

__all__ = ["random_uuid"]


def random_uuid() -> Uuid:
    """Returns a new id as Kafka makes them: a version 4 UUID (RFC 9562), not reserved, its text without a `-` in front.

    A command line takes a text with a `-` in front for an option: `kafka-storage.sh format -t -bZ2L…` is refused.
    """
    while True:
        raw = bytearray(secrets.token_bytes(16))
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
        uuid = Uuid(bytes(raw))
        if not reserved_uuid(uuid) and not uuid_text(uuid).startswith("-"):
            return uuid
