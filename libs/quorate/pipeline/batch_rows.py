"""Decodes data batches record by record into columns: the reference, and what works for every batch.

`column_rows` decodes the common batches by column, and must give the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.pipeline.columns import Columns
from quorate.pipeline.files import Buffer
from quorate.pipeline.log_files import CHECKPOINT_KIND, FilePart
from quorate.pipeline.record_shapes import looked_into, shape_of
from quorate.pipeline.row_filter import RowFilter
from quorate.wire.batch import BatchHeader, data_values

__all__ = ["RAW_BYTES_MAX", "Run", "Value", "decode_batch", "decode_value", "told"]

RAW_BYTES_MAX: Final = 1 << 20
"""Size limit in bytes of the damaged bytes that a row keeps."""
RUN_BYTES_MAX: Final = 4 << 20
RUN_ROWS_MAX: Final = 1 << 16
RUN_BATCHES_MAX: Final = 1 << 14
"""A run ends with the batch that reaches one of these: they bound the memory that decoding takes."""


@dataclass(slots=True)
class Run:
    """Data batches, one behind the other, whose headers and checksums were checked; their records are not decoded.

    `data` is the part's file, or its bytes; a run is to be decoded before the next one is asked for.
    """

    part: FilePart
    wanted: RowFilter
    data: Buffer
    batches: list[tuple[int, BatchHeader]] = field(default_factory=list)
    """Position in `data`, and header, of each batch."""
    bytes: int = 0
    rows: int = 0

    def add(self, position: int, header: BatchHeader) -> None:
        """Adds a data batch, whose header is at byte `position` of `data`, behind the batches that were added."""
        assert not header.is_control, header
        if self.batches:
            at, last = self.batches[-1]
            assert position >= at + last.size, (position, at, last)
            assert header.base_offset >= last.next_offset, (header, last)
        self.batches.append((position, header))
        self.bytes += header.size
        self.rows += header.count

    @property
    def is_full(self) -> bool:
        """Whether the run is large enough to be decoded."""
        return self.bytes >= RUN_BYTES_MAX or self.rows >= RUN_ROWS_MAX or len(self.batches) >= RUN_BATCHES_MAX

    @property
    def range(self) -> tuple[Offset, Offset]:
        """The wanted offsets, `end` exclusive; all in a checkpoint, whose offsets are not those of the log."""
        if self.part.place.kind == CHECKPOINT_KIND:
            return 0, 1 << 63
        return self.wanted.start_offset, self.wanted.end_offset


class Value(NamedTuple):
    """The decoded value of one record: the columns that are not those of its batch, in their order."""

    key: int
    type: str
    version: int
    payload: str | None
    trace_id: str | None
    raw: bytes | None
    corrupt: str | None


def decode_batch(run: Run, position: int, header: BatchHeader, columns: Columns) -> None:
    """Decodes a batch of the run, at byte `position`, and appends its wanted rows to `columns`.

    A batch that cannot be read becomes one row, which says why. With failfast Corrupt is raised for any damage.
    """
    try:
        values = data_values(run.data, position, header)
    except Corrupt as damage:
        reason = damage.reason
        raw = run.data[position : position + min(header.size, RAW_BYTES_MAX)]
        columns.put(
            header, header.base_offset, raw=raw, corrupt=told(run.part, run.wanted, reason, position, header.size)
        )
        return
    base, wanted = header.base_offset, run.wanted
    low, high = run.range
    of_batch = header.epoch, header.base_timestamp, base, False
    for offset, value in enumerate(values, base):
        if low <= offset < high and (wanted.types is None or shape_of(value).type in wanted.types):
            columns.rows.append((offset, *of_batch, *decode_value(run, offset, value, position)))


def decode_value(run: Run, offset: Offset, value: bytes, position: int) -> Value:
    """Decodes the value of the record at `offset`, in the batch at byte `position`. With failfast raises Corrupt.

    `raw` has the value's bytes if its type or one of its tags is not known, or if it is damaged, as `corrupt` says.
    """
    key, name, version, _, write = shape_of(value)
    trace = raw = corrupt = payload = None
    if write is None:
        raw = value
    elif run.wanted.is_decoded:
        try:
            payload, trace, raw = looked_into(value, write)
        except Corrupt as damage:
            raw, corrupt = value, _misread(run, offset, damage, position)
    return Value(key, name, version, payload, trace, raw, corrupt)


def told(part: FilePart, wanted: RowFilter, reason: str, position: int, size: int) -> str:
    """Returns what a row says of damage of `size` bytes at byte `position`; with failfast raises Corrupt."""
    if wanted.failfast:
        raise Corrupt(reason, path=Path(part.place.path), position=position)
    return f"{reason}, {size} bytes at byte {position}"


def _misread(run: Run, offset: Offset, damage: Corrupt, position: int) -> str:
    reason = f"record at offset {offset}: {damage}"
    if run.wanted.failfast:
        raise Corrupt(reason, path=Path(run.part.place.path), position=position)
    return f"{reason}, in the batch at byte {position}"
