"""New random ids, as Kafka's `Uuid.randomUuid` makes them, for clusters, directories, topics, ACLs and incarnations."""

from __future__ import annotations

import secrets
from typing import Final

from kraft import Uuid
from quorate.nouns import uuid_text

__all__ = ["random_uuid"]

DASH: Final = 62
"""The first six bits of an id whose text begins with `-`, by the alphabet of URL-safe base64 (RFC 4648)."""

assert uuid_text(bytes([DASH << 2, *bytes(15)])).startswith("-"), DASH


def random_uuid() -> Uuid:
    """Returns a new id as Kafka makes them: a version 4 UUID (RFC 9562), not reserved, its text without a `-` in front.

    A command line takes a text with a `-` in front for an option: `kafka-storage.sh format -t -bZ2L…` is refused.
    """
    while True:
        raw = bytearray(secrets.token_bytes(16))
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80  # with the version in it, it is no reserved one
        if raw[0] >> 2 != DASH:
            return Uuid(bytes(raw))
