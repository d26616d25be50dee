"""Walks through the batches of a file part, and decodes them into columns, with a row for each damaged place.

Every checksum is verified, so the rows are what Kafka itself would accept. Bytes that cannot be read become a row
with the reason and the bytes, and reading continues behind them; with `failfast` Corrupt is raised instead.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset
from quorate.pipeline.batch_rows import RAW_BYTES_MAX, Run, decode_batch, told
from quorate.pipeline.columns import COLUMNS, Columns, is_dated
from quorate.pipeline.files import Buffer, opened
from quorate.pipeline.json_text import writer
from quorate.pipeline.log_files import CHECKPOINT_KIND, FilePart
from quorate.pipeline.record_shapes import UNKNOWN
from quorate.pipeline.row_filter import RowFilter
from quorate.records import CONTROL_RECORDS
from quorate.storage.recovery import sound_batch_after
from quorate.wire.batch import HEADER_BYTES, BatchHeader, ControlType, check_batch, peek_header, records
from quorate.wire.codec import decode
from quorate.wire.schema import layout_of

__all__ = [
    "COLUMNS",
    "CONTROL_TYPES",
    "CUT",
    "ROWS_MAX",
    "UNKNOWN",
    "Columns",
    "RowFilter",
    "pieces",
    "pieces_of",
    "read",
    "read_bytes",
]

ROWS_MAX: Final = 10_000
"""Target number of rows in a chunk; a batch is never split, so a chunk may be larger."""
PIECES_MAX: Final = 64
"""Number of runs and of control or damaged rows between them that are noted before they are decoded."""
CONTROL_TYPES: Final = {
    ControlType.LEADER_CHANGE: "LEADER_CHANGE",
    ControlType.SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    ControlType.SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    ControlType.KRAFT_VERSION: "KRAFT_VERSION",
    ControlType.KRAFT_VOTERS: "KRAFT_VOTERS",
}
"""Type names of control records, as in Kafka's ControlRecordType."""
CUT: Final = "the log ends in a batch that is not whole, as a copy of a running node's log may,"
"""How a row about the end of a log begins that a node's next start cuts off: nothing in it was acknowledged."""
_KEY: Final = struct.Struct(">hh")

Piece = Columns | Run


def read(part: FilePart, wanted: RowFilter) -> Iterator[Columns]:
    """Yields the rows of a part of a file in chunks; what is damaged is a row of its own.

    Raises OSError. With `wanted.failfast` it raises Corrupt at the first damage, which names file and position.
    """
    yield from _decoded(pieces(part, wanted))


def read_bytes(part: FilePart, wanted: RowFilter, data: bytes) -> Iterator[Columns]:
    """Yields the rows of a part whose bytes are data[part.start:part.end], like `read` for a file."""
    yield from _decoded(pieces_of(part, wanted, data))


def pieces(part: FilePart, wanted: RowFilter) -> Iterator[Piece]:
    """Yields the part in order: runs of data batches that are still to be decoded, and rows of all else.

    A run is to be decoded before the next piece is asked for. Raises OSError, and with `wanted.failfast` Corrupt.
    """
    walk = _Walk(part, wanted)
    if part.place.problem is not None:
        walk.add_damage(None, None, part.place.problem, 0, 0)
    elif part.start < part.end:
        with opened(part.place.path, part.place.access, start=part.start, end=part.end) as data:
            yield from walk.through(data)
    elif part.place.kind == CHECKPOINT_KIND:
        walk.add_damage(None, None, "a checkpoint of no bytes", 0, 0)
    else:
        walk.finish(part.end)
    yield from walk.taken()


def pieces_of(part: FilePart, wanted: RowFilter, data: bytes) -> Iterator[Piece]:
    """Yields the pieces of a part whose bytes are data[part.start:part.end], like `pieces` for a file."""
    yield from _Walk(part, wanted).through(data)


def _decoded(found: Iterator[Piece]) -> Iterator[Columns]:
    columns = Columns()
    for piece in found:
        if isinstance(piece, Columns):
            columns.rows += piece.rows
            continue
        for position, header in piece.batches:
            decode_batch(piece, position, header, columns)
            if len(columns) >= ROWS_MAX:
                yield columns
                columns = Columns()
    if len(columns):
        yield columns


class _Walk:
    """The state of walking through one part: the pieces so far, the expected offset, the epoch of the last batch."""

    def __init__(self, part: FilePart, wanted: RowFilter) -> None:
        self._part = part
        self._wanted = wanted
        self._pieces: list[Piece] = []
        self._next = part.offset
        self._epoch: Epoch = part.epoch if part.place.epoch is None else part.place.epoch
        self._is_checkpoint = part.place.kind == CHECKPOINT_KIND
        self._begins = self._is_checkpoint and part.start == 0
        self._last_control: str | None = None

    def through(self, data: Buffer) -> Iterator[Piece]:
        """Yields the pieces of the part, whose bytes `data` has."""
        position = self._part.start
        try:
            while position < self._part.end:
                try:
                    header = check_batch(data, position)
                except Corrupt as damage:
                    position = self._skip(data, position, damage)
                    continue
                if self._follows(header, position, data):
                    self._batch(data, position, header)
                position += header.size
                if self._is_full():
                    yield from self.taken()
            self.finish(len(data))
        except Corrupt:  # with failfast: what is before the damage comes first
            yield from self.taken()
            raise
        yield from self.taken()

    def taken(self) -> Iterator[Piece]:
        """Yields the pieces so far, and forgets them."""
        found, self._pieces = self._pieces, []
        yield from found

    def _is_full(self) -> bool:
        if not self._pieces:
            return False
        last = self._pieces[-1]
        return len(self._pieces) > PIECES_MAX or (last.is_full if isinstance(last, Run) else len(last) >= ROWS_MAX)

    def _rows(self) -> Columns:
        """Returns the columns for a row behind the batches so far."""
        last = self._pieces[-1] if self._pieces else None
        if not isinstance(last, Columns):
            self._pieces.append(last := Columns())
        return last

    def _run(self, data: Buffer) -> Run:
        """Returns the run for a batch behind the rows so far."""
        last = self._pieces[-1] if self._pieces else None
        if not isinstance(last, Run):
            self._pieces.append(last := Run(self._part, self._wanted, data))
        return last

    def add_damage(
        self, header: BatchHeader | None, offset: Offset | None, reason: str, position: int, size: int, raw: bytes = b""
    ) -> None:
        """Adds a row that reports damage; with failfast raises Corrupt."""
        corrupt = told(self._part, self._wanted, reason, position, size)
        self._rows().put(header, offset, raw=raw or None, corrupt=corrupt)

    def _skip(self, data: Buffer, position: int, damage: Corrupt) -> int:
        """Reports damaged bytes and returns the position of the next undamaged batch, or the end of the part."""
        expected = self._next or 0
        found = sound_batch_after(data, position, expected + 1)
        stop = min(found[0], self._part.end) if found else self._part.end
        assert position < stop, (position, stop)
        what = damage.reason
        if found is None and self._part.is_last and not self._is_checkpoint:
            is_cut = self._part.place.following is None and _is_cut(data, position)
            what = f"{CUT if is_cut else 'the log is torn'} at offset {expected}: {damage.reason}"
        self.add_damage(
            None, self._next, what, position, stop - position, data[position : min(stop, position + RAW_BYTES_MAX)]
        )
        self._next = None if found is None else found[1].base_offset
        return stop

    def _follows(self, header: BatchHeader, position: int, data: Buffer) -> bool:
        """Returns whether the batch's offset and epoch follow the batch before; if not, reports it.

        A batch behind a gap is still read, and the missing offsets are reported.
        """
        base, expected, epoch = header.base_offset, self._next, header.epoch
        why = None
        if expected is not None and base < expected:
            why = f"batch at offset {base}, where offset {expected} follows: it was there before"
        elif self._is_checkpoint and epoch != self._epoch:
            why = f"batch of epoch {epoch} in a checkpoint of epoch {self._epoch}"
        elif epoch < self._epoch and not self._is_checkpoint:
            why = f"batch at offset {base} of epoch {epoch}, after epoch {self._epoch}"
        if why is not None:
            raw = data[position : position + min(header.size, RAW_BYTES_MAX)]
            self.add_damage(header, base, why, position, header.size, raw)
            return False
        if expected is not None and base > expected:
            self.add_damage(None, expected, f"offsets {expected} to {base - 1} are missing", position, 0)
        self._next = header.next_offset
        self._epoch = epoch
        return True

    def _batch(self, data: Buffer, position: int, header: BatchHeader) -> None:
        wanted = self._wanted
        outside = not self._is_checkpoint and (
            header.next_offset <= wanted.start_offset or header.base_offset >= wanted.end_offset
        )
        late = header.max_timestamp < wanted.start_ms or header.base_timestamp >= wanted.end_ms
        if not is_dated(header):
            what = f"batch at offset {header.base_offset} has the timestamp {header.base_timestamp} ms since 1970"
            raw = data[position : position + min(header.size, RAW_BYTES_MAX)]
            why = f"{what}, outside of the years 1 to 9999"
            self.add_damage(header, header.base_offset, why, position, header.size, raw)
            return
        if header.is_control:
            self._controls(data, position, header, shown=wanted.control and not outside and not late)
            return
        self._must_begin("a data record", position, header)
        self._last_control = None
        if not outside and not late:
            self._run(data).add(position, header)

    def _controls(self, data: Buffer, position: int, header: BatchHeader, *, shown: bool) -> None:
        """Adds rows for control records; notes the snapshot's header and footer even if they are not selected."""
        try:
            for record in records(data, position, header):
                key, name, version, payload = _control(record.key, record.value)
                self._must_begin(name, position, header)
                self._last_control = name
                in_range = self._is_checkpoint or self._wanted.start_offset <= record.offset < self._wanted.end_offset
                if shown and in_range and (self._wanted.types is None or name in self._wanted.types):
                    raw = record.value if payload is None else None
                    self._rows().put(
                        header, record.offset, key=key, type=name, version=version, payload=payload, raw=raw
                    )
        except Corrupt as damage:
            raw = data[position : position + min(header.size, RAW_BYTES_MAX)]
            self.add_damage(header, header.base_offset, damage.reason, position, header.size, raw)

    def _must_begin(self, name: str, position: int, header: BatchHeader) -> None:
        if self._begins and name != CONTROL_TYPES[ControlType.SNAPSHOT_HEADER]:
            self.add_damage(
                header, header.base_offset, f"a checkpoint begins with SNAPSHOT_HEADER, not {name}", position, 0
            )
        self._begins = False

    def finish(self, size: int) -> None:
        """Checks at the end of the file that a checkpoint has its footer and a segment reaches the next one."""
        if not self._part.is_last:
            return
        if self._is_checkpoint and self._last_control != CONTROL_TYPES[ControlType.SNAPSHOT_FOOTER]:
            why = "no SNAPSHOT_FOOTER: the checkpoint was not written, or not copied, to its end"
            self.add_damage(None, self._next, why, size, 0)
        following = self._part.place.following
        if following is not None and self._next is not None and self._next != following:
            finding = "are missing" if self._next < following else "are here and in the next segment"
            low, high = sorted((self._next, following))
            self.add_damage(None, low, f"offsets {low} to {high - 1} {finding}", size, 0)


def _is_cut(data: Buffer, position: int) -> bool:
    """Returns whether the file ends within the batch that begins at `position`."""
    try:
        return peek_header(data, position).size > len(data) - position
    except Corrupt:
        return len(data) - position < HEADER_BYTES


def _control(key: bytes | None, value: bytes | None) -> tuple[int, str, int, str | None]:
    """Returns type number, type name, version and payload of a control record; payload None if the type is unknown.

    Raises Corrupt if the key or the value is too short.
    """
    if key is None or len(key) < _KEY.size or value is None or len(value) < 2:
        raise Corrupt("a control record has a key of 4 bytes and a value of 2 at least")
    kind, version = _KEY.unpack_from(key)[1], int.from_bytes(value[:2], "big")
    record = CONTROL_RECORDS.get(kind)
    name = CONTROL_TYPES.get(kind, f"UNKNOWN({kind})")
    if record is None or version not in layout_of(record).versions:
        return kind, name, version, None
    return kind, name, version, writer(record, version)(decode(record, value, version))
