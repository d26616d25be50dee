"""A transaction's marker: the control record by which a coordinator ends it in a partition. KIP-98, KIP-890."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset
from quorate.wire.batch import CLEANED, BatchHeader, Buffer, ControlType, control_batch, records

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_VALUE_VERSION: Final = 0
BUMPS_EPOCHS: Final = 2
"""The `transaction.version` from which on each transaction has a producer epoch of its own (KIP-890)."""


class Marker(NamedTuple):
    """Whether the transaction is aborted, and the epoch of the coordinator that has decided so."""

    aborts: bool
    coordinator_epoch: int


class TransactionEnd(NamedTuple):
    """A coordinator's decision on a producer's transaction.

    `transaction_version` is the feature level by which it has (KIP-1228). From 2 on the marker's epoch is above that
    of the records that it ends.
    """

    producer_id: int
    producer_epoch: int
    marker: Marker
    transaction_version: int = 0

    def batch(self, *, base_offset: Offset, epoch: Epoch, now_ms: int) -> bytes:
        """Returns the marker's control batch, at its offset and in its leader epoch. `now_ms` is since 1970."""
        kind = ControlType.ABORT if self.marker.aborts else ControlType.COMMIT
        return control_batch(
            base_offset=base_offset,
            epoch=epoch,
            timestamp_ms=now_ms,
            records=[(kind, _VALUE.pack(_VALUE_VERSION, self.marker.coordinator_epoch))],
            producer=(self.producer_id, self.producer_epoch),
        )


def marker_in(header: BatchHeader, batch: Buffer, position: int = 0) -> Marker | None:
    """Returns the marker of a control batch; None if it holds another control record, or none. Raises Corrupt.

    It holds none if Kafka's log cleaner has removed the whole transaction: then nothing is left to be ended.
    """
    if header.count == CLEANED:
        return None
    if header.count != 1:
        raise Corrupt(
            f"{header.count} control records at offset {header.base_offset}; a marker is one", position=position
        )
    (record,) = records(batch, position, header)
    if record.key is None or len(record.key) < _KEY.size:
        raise Corrupt(f"the control record at offset {record.offset} has no type", position=position)
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise Corrupt(f"the marker at offset {record.offset} names no coordinator epoch", position=position)
    return Marker(kind == ControlType.ABORT, _VALUE.unpack_from(record.value)[1])
