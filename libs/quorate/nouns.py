"""The basic types of every part: epochs, offsets, node ids, replica keys, principals, uuids."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from kraft import Uuid

Epoch: TypeAlias = int
"""A leader epoch: a number that rises with every election. KIP-595."""

EPOCHS_END: Final[Epoch] = (1 << 31) - 1
"""The limit of epochs (exclusive), the largest int32: an epoch of that number could not be followed by another one."""

Offset: TypeAlias = int
"""The position of a record in the log. An end offset is exclusive: `leo` is the offset of the next record."""

NodeId: TypeAlias = int
"""The `node.id` of a broker or controller; not negative."""

NOBODY: Final[NodeId] = -1
"""The node id in files, messages and metrics where there is no such node."""


class EndpointType(IntEnum):
    """Whether DescribeCluster asks for the brokers or for the controllers. KIP-919."""

    BROKERS = 1
    CONTROLLERS = 2


METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = Uuid(bytes(15) + b"\x01")
METADATA_PARTITION: Final = 0

ZERO_UUID: Final = Uuid(bytes(16))
"""The uuid of 16 zero bytes, which stands for no id."""

RESERVED_DIRECTORY_IDS: Final = 100
"""Directory ids below this number are reserved for special meanings. KIP-858."""
MIGRATING_DIRECTORY: Final = ZERO_UUID
UNASSIGNED_DIRECTORY: Final = Uuid(bytes(15) + b"\x01")
LOST_DIRECTORY: Final = Uuid(bytes(15) + b"\x02")


class OffsetAndEpoch(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """An end offset (exclusive) with the epoch of the last record before it. Ordered by epoch first (KIP-595).

    It says how far a log goes; it also identifies a snapshot (KIP-630).
    """

    epoch: Epoch
    offset: Offset


class ReplicaKey(msgspec.Struct, frozen=True, order=True):
    """The identity of a voter: node id and directory id. A node with a wiped disk is another replica (KIP-853).

    `directory_id` is ZERO_UUID if the voter set has none (kraft.version 0).
    """

    id: NodeId
    directory_id: Uuid = ZERO_UUID

    @property
    def has_id(self) -> bool:
        """Whether the id is a node's: 0 or more. A reader without one has a negative id, and is tracked nowhere."""
        return self.id >= 0

    def __str__(self) -> str:
        return str(self.id) if self.directory_id == ZERO_UUID else f"{self.id}-{uuid_text(self.directory_id)}"


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """The user who sends a request: Kafka's KafkaPrincipal. Without authentication it is `User:ANONYMOUS`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
"""Letters of URL-safe base64 to those of the standard's."""


def uuid_text(uuid: bytes) -> str:
    """Returns an id as Kafka prints it: 22 characters of URL-safe base64 without padding.

    >>> uuid_text(METADATA_TOPIC_ID)
    'AAAAAAAAAAAAAAAAAAAAAQ'
    """
    assert len(uuid) == 16, len(uuid)
    return base64.urlsafe_b64encode(uuid)[:22].decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """Returns the id that Kafka prints as `text`; the zero id for an empty text. Raises ValueError.

    >>> parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == METADATA_TOPIC_ID
    True
    """
    if not text:
        return ZERO_UUID
    try:
        raw = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL_SAFE) + b"==", strict_mode=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(text) != 22 or len(raw) != 16:
        raise ValueError(f"{text!r} is not an id: it must have 22 characters of URL-safe base64 (16 bytes)")
    return Uuid(raw)


def reserved_uuid(uuid: bytes) -> bool:
    """Returns whether `uuid` is one of the first hundred, which are reserved and identify no directory. KIP-858."""
    return uuid[:15] == bytes(15) and uuid[15] < RESERVED_DIRECTORY_IDS
