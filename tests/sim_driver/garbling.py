"""Bytes that arrive otherwise than they were sent (S-09): what is damaged must be refused, never applied.

A frame whose ends do not fit, or that does not parse, ends its call, as gRPC has it. What a checksum of Kafka's covers
may come damaged in a message that parses: the records of a fetch, a piece of a snapshot. The envelope has none of its
own, nor has a batch's epoch: against that there is TLS.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, Final

from google.protobuf.message import DecodeError

from quorate.errors import Corrupt
from quorate.wire.batch import batches

EPOCH_AT: Final = range(12, 16)
"""The bytes of a batch's header that its checksum leaves out and nothing else checks."""


class Garbler:
    """Spoils so many messages of a thousand."""

    def __init__(self, random: Random, *, permille: int) -> None:
        self.permille = permille
        self._random = random

    def spoilt(self, message: Any, data: bytes) -> bytes | None:
        """`data` as it may arrive; the same if it comes whole, None if no message comes of it."""
        if not data or self._random.randrange(1_000) >= self.permille:
            return data
        records = _records(message)
        if records and self._random.randrange(4):
            at = self._random.randrange(len(records))
            if at in _uncovered(records):
                return data
            return _flipped(data, data.index(records) + at, self._random.randrange(8))
        spoilt = _flipped(data, self._random.randrange(len(data)), self._random.randrange(8))
        try:
            type(message).FromString(spoilt)
        except DecodeError:
            return None
        return data


def _records(message: Any) -> bytes:
    """What of a message is checked by its receiver; empty if nothing is."""
    answer = getattr(message, "response", message)
    topics: Any = getattr(answer, "responses", None) or getattr(answer, "topics", ())
    for topic in topics:
        for partition in topic.partitions:
            found: bytes = getattr(partition, "records", b"") or getattr(partition, "unaligned_records", b"")
            return found
    return b""


def _uncovered(records: bytes) -> set[int]:
    """Where the epochs are of the batches that begin here; a piece of a snapshot may begin anywhere."""
    found = set()
    with suppress(Corrupt):
        for position, _ in batches(records):
            found |= {position + at for at in EPOCH_AT}
    return found


def _flipped(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
