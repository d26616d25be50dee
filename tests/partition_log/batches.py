"""Batches as producers and transaction coordinators send them, and a log to put them into."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from crc32c import crc32c

from kraft import Uuid
from quorate.nouns import Offset
from quorate.partition_log import Appended, Limits, LogSettings, Marker, PartitionLog, TransactionEnd
from quorate.wire.batch import CHECKED_FROM, COMPRESSION, CRC_POSITION, HEADER_BYTES, data_batch

TOPIC_ID = Uuid(bytes(range(16)))
NOW_MS = 1_700_000_000_000
_PRODUCER = struct.Struct(">qhi")
_TRANSACTIONAL = 0x10


def produced(
    *,
    count: int = 1,
    size: int = 20,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
) -> bytes:
    """A batch as a producer sends it: offset 0, no epoch. `producer` is id, epoch and first sequence number."""
    values = [bytes([65 + at % 26]) * size for at in range(count)]
    batch = bytearray(data_batch(base_offset=0, epoch=-1, timestamp_ms=timestamp_ms, values=values))
    _PRODUCER.pack_into(batch, 43, *producer)
    batch[22] |= _TRANSACTIONAL if transactional else 0
    return summed(batch)


def produced_of(value: int) -> bytes:
    """A batch of one record that has this value."""
    return data_batch(base_offset=0, epoch=-1, timestamp_ms=NOW_MS, values=[b"%d" % value])


def written(
    log: PartitionLog, batch: bytes, *, epoch: int = 1, bumps_epochs: bool = False, now_ms: int = NOW_MS
) -> Appended:
    """A batch of a transaction as a leader appends it whose coordinator has said yes."""
    verification = log.begin_verification(batch, bumps_epochs=bumps_epochs, now_ms=now_ms)
    return log.append_as_leader(batch, epoch=epoch, now_ms=now_ms, verification=verification)


def ended(
    log: PartitionLog,
    producer: tuple[int, int],
    *,
    epoch: int = 1,
    aborts: bool = False,
    coordinator_epoch: int = 3,
    transaction_version: int = 0,
) -> Appended:
    """The marker by which a coordinator ends a transaction, in the log."""
    end = TransactionEnd(*producer, Marker(aborts, coordinator_epoch), transaction_version)
    return log.append_marker(end, epoch=epoch, now_ms=NOW_MS)


def placed(batch: bytes, *, offset: Offset, epoch: int) -> bytes:
    """The batch as a leader has it, at its offset and of its epoch."""
    return struct.pack(">q", offset) + batch[8:12] + struct.pack(">i", epoch) + batch[16:]


def emptied(batch: bytes) -> bytes:
    """What Kafka's log cleaner leaves of a batch whose records are all superseded.

    Size, compression, base timestamp and count say that there is none; all else is as it was (`writeEmptyHeader`).
    """
    header = bytearray(batch[:HEADER_BYTES])
    struct.pack_into(">i", header, 8, HEADER_BYTES - 12)
    header[22] &= ~COMPRESSION & 0xFF
    struct.pack_into(">q", header, 27, -1)
    struct.pack_into(">i", header, 57, 0)
    return summed(header)


def summed(batch: bytearray) -> bytes:
    """The batch with the checksum of what it has now."""
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_FROM:]))
    return bytes(batch)


def opened(
    directory: Path, *, segment_bytes: int = 1 << 30, settings: dict[str, Any] | None = None, **how: Any
) -> PartitionLog:
    """The log of a directory's partition t-0."""
    limits = Limits(segment_bytes=segment_bytes)
    return PartitionLog(directory / "t-0", TOPIC_ID, LogSettings(**{"limits": limits, **(settings or {})}), **how)
