"""New random ids, as Kafka's `Uuid.randomUuid` makes them, for clusters, directories, topics, ACLs and incarnations."""

from __future__ import annotations

import os
import secrets
from collections import deque
from typing import Final

from kraft import Uuid
from quorate.nouns import uuid_text

__all__ = ["random_uuid"]

DASH: Final = 62
"""The first six bits of an id whose text begins with `-`, by the alphabet of URL-safe base64 (RFC 4648)."""
ID_BYTES: Final = 16
DRAWN_AT_ONCE: Final = 64
"""Ids for which one call of the kernel draws bytes: with a call each, it was 6 % of a busy controller's time."""

DRAWN: Final[deque[bytes]] = deque()
"""Random bytes for the ids to come. A process that is forked forgets those of its parent: both would give the same."""

os.register_at_fork(after_in_child=DRAWN.clear)

assert uuid_text(bytes([DASH << 2, *bytes(15)])).startswith("-"), DASH


def random_uuid() -> Uuid:
    """Returns a new id as Kafka makes them: a version 4 UUID (RFC 9562), not reserved, its text without a `-` in front.

    A command line takes a text with a `-` in front for an option: `kafka-storage.sh format -t -bZ2L…` is refused.
    """
    while True:
        raw = bytearray(_drawn())
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80  # with the version in it, it is no reserved one
        if raw[0] >> 2 != DASH:
            return Uuid(bytes(raw))


def _drawn() -> bytes:
    """Takes 16 random bytes, each of which is taken once, by whichever thread."""
    while True:
        try:
            return DRAWN.popleft()
        except IndexError:
            drawn = secrets.token_bytes(ID_BYTES * DRAWN_AT_ONCE)
            DRAWN.extend(drawn[start : start + ID_BYTES] for start in range(0, len(drawn), ID_BYTES))
