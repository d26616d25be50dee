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

from kraft import Uuid
from kraft.api.fetch_pb2 import FetchResponse
from kraft.api.fetch_snapshot_pb2 import FetchSnapshotResponse
from kraft.service.quorum_pb2 import RelayFetchSnapshotResponse
from quorate.errors import Corrupt
from quorate.records import KRaftVersionRecord, VotersRecord
from quorate.wire.batch import ControlType, batches, control_batch, read_header
from quorate.wire.codec import encode

PIECES: Final = (FetchSnapshotResponse, RelayFetchSnapshotResponse)
PIECES_MORE_OFTEN: Final = 30
"""They are few, and what is wrong with one is seen by the batch's checksum alone."""
EPOCH_AT: Final = range(12, 16)
"""The bytes of a batch's header that its checksum leaves out and nothing else checks."""

_VOTER: Final = VotersRecord.Voter(voter_id=1, voter_directory_id=Uuid(bytes(15) + b"1"))
NONSENSE: Final = (
    (ControlType.KRAFT_VOTERS, encode(VotersRecord(voters=()), 0)),
    (ControlType.KRAFT_VOTERS, encode(VotersRecord(voters=(_VOTER, _VOTER)), 0)),
    (ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(k_raft_version=99), 0)),
)


class Garbler:
    """Spoils so many messages of a thousand."""

    def __init__(self, random: Random, *, permille: int) -> None:
        self.permille = permille
        self._random = random

    def spoilt(self, message: Any, data: bytes) -> bytes | None:
        """`data` as it may arrive; the same if it comes whole, None if no message comes of it."""
        often = PIECES_MORE_OFTEN if isinstance(message, PIECES) else 1
        if not data or self._random.randrange(1_000) >= often * self.permille:
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


class Liar(Garbler):
    """A leader's records whose checksum is right and which mean nothing: they take the place of what a fetch brings."""

    def spoilt(self, message: Any, data: bytes) -> bytes | None:
        records = _records(message) if isinstance(message, FetchResponse) else b""
        if not records or self._random.randrange(1_000) >= self.permille:
            return data
        header = read_header(records)
        kind, value = self._random.choice(NONSENSE)
        lie = control_batch(
            base_offset=header.base_offset,
            epoch=header.epoch,
            timestamp_ms=header.max_timestamp,
            records=[(kind, value)],
        )
        told = FetchResponse()
        told.CopyFrom(message)
        told.responses[0].partitions[0].records = lie
        return told.SerializeToString()


def _records(message: Any) -> bytes:
    """What of a message is checked by its receiver; empty if nothing is."""
    answer = getattr(message, "response", message)
    topics: Any = getattr(answer, "responses", None) or getattr(answer, "topics", ())
    for topic in topics:
        for partition in getattr(topic, "partitions", ()):
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
