"""What producers and coordinators have written: the content of a batch, and its header and bytes on the wire."""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final, NamedTuple

from quorate.nouns import Epoch, Offset
from quorate.partition_log import Marker, TransactionEnd
from quorate.partition_log.markers import marker_in
from quorate.replication.effects import Batch
from quorate.wire.batch import CONTROL, NONE, TRANSACTIONAL, BatchHeader, data_batch, records
from tests.partition_log.batches import NOW_MS, placed, summed

_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43
_ATTRIBUTES_AT: Final = 22


class Kind(Enum):
    """A batch of no transaction, of one, or the marker that ends one."""

    PLAIN = 0
    TRANSACTIONAL = 1
    COMMIT = 2
    ABORT = 3

    @property
    def is_marker(self) -> bool:
        return self in (Kind.COMMIT, Kind.ABORT)


class Sent(NamedTuple):
    """One batch of `count` records that all have this value; or a marker, whose value is the coordinator's epoch."""

    kind: Kind
    value: int
    producer_id: int
    producer_epoch: int
    sequence: int
    count: int

    def batch(self, *, base_offset: Offset, epoch: Epoch) -> Batch:
        """In a log."""
        return Batch(base_offset=base_offset, end_offset=base_offset + self.count, epoch=epoch, data=self)

    def produced(self) -> bytes:
        """As a producer sends it."""
        batch = bytearray(
            data_batch(base_offset=0, epoch=-1, timestamp_ms=NOW_MS, values=[b"%d" % self.value] * self.count)
        )
        _PRODUCER.pack_into(batch, _PRODUCER_AT, self.producer_id, self.producer_epoch, self.sequence)
        batch[_ATTRIBUTES_AT] |= TRANSACTIONAL if self.kind is Kind.TRANSACTIONAL else 0
        return summed(batch)

    def end(self, transaction_version: int = 0) -> TransactionEnd:
        """What a marker's coordinator has decided."""
        marker = Marker(aborts=self.kind is Kind.ABORT, coordinator_epoch=self.value)
        return TransactionEnd(self.producer_id, self.producer_epoch, marker, transaction_version)


def marker_of(end: TransactionEnd) -> Sent:
    """The marker that a leader appends."""
    kind = Kind.ABORT if end.marker.aborts else Kind.COMMIT
    return Sent(kind, end.marker.coordinator_epoch, end.producer_id, end.producer_epoch, NONE, 1)


def sent_of(batch: Batch) -> Sent:
    """The content of a batch in a log of this simulator."""
    assert isinstance(batch.data, Sent), batch
    return batch.data


def header_of(batch: Batch) -> BatchHeader:
    """As the log on disk reads it, but for size and checksum."""
    sent = sent_of(batch)
    attributes = 0 if sent.kind is Kind.PLAIN else TRANSACTIONAL
    return BatchHeader(
        base_offset=batch.base_offset,
        size=0,
        epoch=batch.epoch,
        crc=0,
        attributes=attributes | CONTROL if sent.kind.is_marker else attributes,
        last_offset_delta=sent.count - 1,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS,
        producer_id=sent.producer_id,
        producer_epoch=sent.producer_epoch,
        base_sequence=sent.sequence,
        count=sent.count,
    )


def stored(batch: Batch) -> bytes:
    """The batch as a leader's log on disk has it."""
    sent = sent_of(batch)
    if sent.kind.is_marker:
        return sent.end().batch(base_offset=batch.base_offset, epoch=batch.epoch, now_ms=NOW_MS)
    return placed(sent.produced(), offset=batch.base_offset, epoch=batch.epoch)


def read_back(data: bytes, position: int, header: BatchHeader) -> Batch:
    """The reverse of `stored`."""
    producer = (header.producer_id, header.producer_epoch, header.base_sequence, header.count)
    if header.is_control:
        marker = marker_in(header, data, position)
        assert marker is not None, header
        sent = Sent(Kind.ABORT if marker.aborts else Kind.COMMIT, marker.coordinator_epoch, *producer)
    else:
        values = {int(record.value or b"") for record in records(data, position, header)}
        kind = Kind.TRANSACTIONAL if header.attributes & TRANSACTIONAL else Kind.PLAIN
        (value,) = values
        sent = Sent(kind, value, *producer)
    return sent.batch(base_offset=header.base_offset, epoch=header.epoch)
