"""A transaction's marker: the control record by which a coordinator ends it in a partition. KIP-98."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.wire.batch import BatchHeader, Buffer, ControlType, records

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class Marker(NamedTuple):
    """Whether the transaction is aborted, and the epoch of the coordinator that has decided so."""

    aborts: bool
    coordinator_epoch: int


def marker_in(header: BatchHeader, batch: Buffer, position: int = 0) -> Marker | None:
    """Returns the marker of a control batch; None if the batch holds another control record. Raises Corrupt."""
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
