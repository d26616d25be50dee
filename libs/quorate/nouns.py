"""What every part speaks of: epochs, offsets, replicas, ids, and how Kafka prints them."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final, TypeAlias

from kraft import Uuid

Epoch: TypeAlias = int
"""A leader epoch: rises with every election. KIP-595."""

Offset: TypeAlias = int
"""A record's position in the log. As an end it is exclusive: `leo` is the next offset to be written."""

NodeId: TypeAlias = int
"""The `node.id` of a broker or controller. Not negative."""

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = Uuid(bytes(15) + b"\x01")
METADATA_PARTITION: Final = 0

ZERO_UUID: Final = Uuid(bytes(16))
"""No id at all."""

RESERVED_DIRECTORY_IDS: Final = 100
"""Directory ids below this number mean something else than a directory. KIP-858."""
MIGRATING_DIRECTORY: Final = ZERO_UUID
UNASSIGNED_DIRECTORY: Final = Uuid(bytes(15) + b"\x01")
LOST_DIRECTORY: Final = Uuid(bytes(15) + b"\x02")


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class OffsetAndEpoch:
    """How far a log goes: the epoch of its last record and its end offset. Ordered epoch first (KIP-595).

    It also names a snapshot: its end offset (exclusive) and the epoch of the record before it (KIP-630).
    """

    epoch: Epoch
    offset: Offset


@dataclass(frozen=True, slots=True, order=True)
class ReplicaKey:
    """Who a voter is: a node id on one disk. A wiped disk is another replica (KIP-853).

    `directory_id` is ZERO_UUID where the voter set has none (kraft.version 0).
    """

    id: NodeId
    directory_id: Uuid = ZERO_UUID

    def __str__(self) -> str:
        return str(self.id) if self.directory_id == ZERO_UUID else f"{self.id}-{uuid_text(self.directory_id)}"


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """Who asks: Kafka's KafkaPrincipal. A connection without authentication is `User:ANONYMOUS`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


def uuid_text(uuid: bytes) -> str:
    """The 22 characters in which Kafka prints an id: URL-safe base64 without padding.

    >>> uuid_text(METADATA_TOPIC_ID)
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    assert len(uuid) == 16, len(uuid)
    return base64.urlsafe_b64encode(uuid)[:22].decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """The id that Kafka prints as `text`; an empty text is the zero id. Raises ValueError.

    >>> parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == METADATA_TOPIC_ID
    True
    """
    if not text:
        return ZERO_UUID
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(text) != 22 or len(raw) != 16:
        raise ValueError(f"{text!r} is not an id: it takes 22 characters of URL-safe base64 (16 bytes)")
    return Uuid(raw)


def reserved_uuid(uuid: bytes) -> bool:
    """Is `uuid` one of the first hundred, which no directory may have? KIP-858."""
    return uuid[:15] == bytes(15) and uuid[15] < RESERVED_DIRECTORY_IDS
