"""Decodes the records of a file part into columns, with a row for each damaged place.

Every checksum is verified, so the rows are what Kafka itself would accept. Bytes that cannot be read become a row
with the reason and the bytes, and reading continues behind them; with `failfast` Corrupt is raised instead.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kraft import Message
from quorate.errors import Corrupt
from quorate.nouns import Epoch, Offset
from quorate.pipeline.columns import COLUMNS, Columns
from quorate.pipeline.files import Buffer, opened
from quorate.pipeline.json_text import writer
from quorate.pipeline.log_files import CHECKPOINT_KIND, FilePart
from quorate.pipeline.payload_text import HEAD_BYTES, MISFITS, text_of
from quorate.records import CONTROL_RECORDS, RECORDS, REQUEST_TAG, TARGET_TAG, TRACE_TAG, decode_record, frame_of
from quorate.storage.recovery import sound_batch_after
from quorate.wire.batch import BatchHeader, ControlType, check_batch, data_values, records
from quorate.wire.codec import decode
from quorate.wire.json_names import type_name
from quorate.wire.schema import layout_of

__all__ = [
    "COLUMNS",
    "CONTROL_TYPES",
    "RAW_BYTES_MAX",
    "ROWS_MAX",
    "UNKNOWN",
    "Columns",
    "RowFilter",
    "read",
    "read_bytes",
]

ROWS_MAX: Final = 10_000
"""Target number of rows in a chunk; a batch is never split, so a chunk may be larger."""
RAW_BYTES_MAX: Final = 1 << 20
"""Size limit in bytes of the damaged bytes that a row keeps."""
UNKNOWN: Final = "UNKNOWN_RECORD"
CONTROL_TYPES: Final = {
    ControlType.LEADER_CHANGE: "LEADER_CHANGE",
    ControlType.SNAPSHOT_HEADER: "SNAPSHOT_HEADER",
    ControlType.SNAPSHOT_FOOTER: "SNAPSHOT_FOOTER",
    ControlType.KRAFT_VERSION: "KRAFT_VERSION",
    ControlType.KRAFT_VOTERS: "KRAFT_VOTERS",
}
"""Type names of control records, as in Kafka's ControlRecordType."""
_KEY: Final = struct.Struct(">hh")
_OURS: Final = frozenset((TRACE_TAG, REQUEST_TAG, TARGET_TAG))


class RowFilter(NamedTuple):
    """Selects rows by offset, timestamp (ms since 1970) and type name; ends are exclusive, `types` None selects all.

    Damage is always reported. Data batches entirely outside the ranges are not decoded. `kinds` and `cluster_ids`
    select whole files, None all; whoever lists the files asks `is_of`. Without `decoded` only the head of a record is
    read: its payload, trace id and raw bytes are None, and damage within its own bytes is not found, unless `failfast`
    asks for it.
    """

    start_offset: Offset = 0
    end_offset: Offset = (1 << 63) - 1
    start_ms: int = -(1 << 63)
    end_ms: int = (1 << 63) - 1
    types: frozenset[str] | None = None
    control: bool = True
    failfast: bool = False
    kinds: frozenset[str] | None = None
    cluster_ids: frozenset[str] | None = None
    decoded: bool = True

    def is_of(self, cluster_id: str, kind: str) -> bool:
        """Returns whether files of this cluster and kind are selected."""
        return (self.kinds is None or kind in self.kinds) and (
            self.cluster_ids is None or cluster_id in self.cluster_ids
        )


def read(part: FilePart, wanted: RowFilter) -> Iterator[Columns]:
    """Yields the rows of a part of a file in chunks; what is damaged is a row of its own.

    Raises OSError. With `wanted.failfast` it raises Corrupt at the first damage, which names file and position.
    """
    reader = _PartReader(part, wanted)
    if part.place.problem is not None:
        reader.add_damage(None, None, part.place.problem, 0, 0)
    elif part.start < part.end:
        with opened(part.place.path, part.place.access, start=part.start, end=part.end) as data:
            yield from reader.run(data)
    elif part.place.kind == CHECKPOINT_KIND:
        reader.add_damage(None, None, "a checkpoint of no bytes", 0, 0)
    else:
        reader.finish(part.end)
    if len(reader.columns):
        yield reader.columns


def read_bytes(part: FilePart, wanted: RowFilter, data: bytes) -> Iterator[Columns]:
    """Yields the rows of a part whose bytes are in memory, like `read` for a file."""
    reader = _PartReader(part, wanted)
    yield from reader.run(data)
    if len(reader.columns):
        yield reader.columns


class _PartReader:
    """The state of reading one part: the columns so far, the expected offset and the epoch of the last batch."""

    def __init__(self, part: FilePart, wanted: RowFilter) -> None:
        self.columns = Columns()
        self._part = part
        self._wanted = wanted
        self._decodes = wanted.decoded or wanted.failfast
        self._next = part.offset
        self._epoch: Epoch = part.epoch if part.place.epoch is None else part.place.epoch
        self._is_checkpoint = part.place.kind == CHECKPOINT_KIND
        self._begins = self._is_checkpoint and part.start == 0
        self._last_control: str | None = None

    def run(self, data: Buffer) -> Iterator[Columns]:
        """Decodes the part's batches and yields all chunks of rows but the last, which stays in `columns`."""
        position, end = self._part.start, self._part.end
        while position < end:
            try:
                header = check_batch(data, position)
            except Corrupt as damage:
                position = self._skip(data, position, damage)
                continue
            if self._follows(header, position, data):
                self._batch(data, position, header)
            position += header.size
            if len(self.columns) >= ROWS_MAX:
                yield self.columns
                self.columns = Columns()
        self.finish(len(data))

    def add_damage(
        self, header: BatchHeader | None, offset: Offset | None, reason: str, position: int, size: int, raw: bytes = b""
    ) -> None:
        """Adds a row that reports damage; with failfast raises Corrupt."""
        damage = Corrupt(reason, path=Path(self._part.place.path), position=position)
        if self._wanted.failfast:
            raise damage
        self.columns.put(header, offset, raw=raw or None, corrupt=f"{reason}, {size} bytes at byte {position}")

    def _skip(self, data: Buffer, position: int, damage: Corrupt) -> int:
        """Reports damaged bytes and returns the position of the next undamaged batch, or the end of the part."""
        expected = self._next or 0
        found = sound_batch_after(data, position, expected + 1)
        stop = min(found[0], self._part.end) if found else self._part.end
        what = damage.reason
        if found is None and self._part.is_last and not self._is_checkpoint:
            what = f"the log is torn at offset {expected}: {damage.reason}"
        self.add_damage(
            None, self._next, what, position, stop - position, data[position : min(stop, position + RAW_BYTES_MAX)]
        )
        self._next = None if found is None else found[1].base_offset
        return stop

    def _follows(self, header: BatchHeader, position: int, data: Buffer) -> bool:
        """Returns whether the batch's offset and epoch follow the batch before; if not, reports it.

        A batch behind a gap is still read, and the missing offsets are reported.
        """
        base, expected = header.base_offset, self._next
        raw = data[position : position + min(header.size, RAW_BYTES_MAX)]
        if expected is not None and base < expected:
            why = f"batch at offset {base}, where offset {expected} follows: it was there before"
            self.add_damage(header, base, why, position, header.size, raw)
            return False
        if self._is_checkpoint and header.epoch != self._epoch:
            why = f"batch of epoch {header.epoch} in a checkpoint of epoch {self._epoch}"
            self.add_damage(header, base, why, position, header.size, raw)
            return False
        if not self._is_checkpoint and header.epoch < self._epoch:
            why = f"batch at offset {base} of epoch {header.epoch}, after epoch {self._epoch}"
            self.add_damage(header, base, why, position, header.size, raw)
            return False
        if expected is not None and base > expected:
            self.add_damage(None, expected, f"offsets {expected} to {base - 1} are missing", position, 0)
        self._next = header.next_offset
        self._epoch = header.epoch
        return True

    def _batch(self, data: Buffer, position: int, header: BatchHeader) -> None:
        wanted = self._wanted
        outside = not self._is_checkpoint and (
            header.next_offset <= wanted.start_offset or header.base_offset >= wanted.end_offset
        )
        late = header.max_timestamp < wanted.start_ms or header.base_timestamp >= wanted.end_ms
        if header.is_control:
            self._controls(data, position, header, shown=wanted.control and not outside and not late)
            return
        self._must_begin("a data record", position, header)
        self._last_control = None
        if not outside and not late:
            try:
                values = data_values(data, position, header)
            except Corrupt as damage:
                raw = data[position : position + min(header.size, RAW_BYTES_MAX)]
                self.add_damage(header, header.base_offset, damage.reason, position, header.size, raw)
                return
            self._values(values, position, header)

    def _values(self, values: list[bytes], position: int, header: BatchHeader) -> None:
        """Adds the rows of a batch of data records, by the fast path if all are selected and undamaged."""
        base = header.base_offset
        low, high = (0, 1 << 63) if self._is_checkpoint else (self._wanted.start_offset, self._wanted.end_offset)
        before = len(self.columns)
        plain = self._wanted.types is None and low <= base and header.next_offset <= high
        if not (plain and self._plain_values(values, base)):
            for offset, value in enumerate(values, base):
                if low <= offset < high:
                    self._value(offset, value, position)
        count, columns = len(self.columns) - before, self.columns
        columns.epoch += [header.epoch] * count
        columns.timestamp += [header.base_timestamp] * count
        columns.batch_base_offset += [base] * count
        columns.is_control += [False] * count

    def _plain_values(self, values: list[bytes], base: Offset) -> bool:
        """The hot loops: decode all records of a batch together; False, adding nothing, if one needs the slow path."""
        count = len(values)
        traces: list[str | None] = [None] * count
        raws: list[bytes | None] = [None] * count
        try:
            keys, names, versions, writers, texts = zip(*[_SHAPES[value[:HEAD_BYTES]] for value in values], strict=True)
            payloads: list[str | None] = [None] * count
            if self._decodes:
                payloads = [text(value) for text, value in zip(texts, values, strict=True)]
            if self._decodes and None in payloads:
                # Common: the leader tags the first record of a batch (trace context, request id).
                for at in [at for at, payload in enumerate(payloads) if payload is None]:
                    payloads[at], traces[at], raws[at] = _looked_into(values[at], writers[at])
        except (KeyError, *MISFITS):
            return False
        columns = self.columns
        columns.offset += range(base, base + count)
        columns.api_key += keys
        columns.type += names
        columns.version += versions
        columns.payload += payloads
        columns.trace_id += traces
        columns.raw += raws
        columns.corrupt += [None] * count
        return True

    def _value(self, offset: Offset, value: bytes, position: int) -> None:
        """Adds the columns of one data record, known, unknown or damaged, that are not those of its batch."""
        key, name, version, write, _ = _SHAPES.get(value[:HEAD_BYTES]) or _shape_of(value)
        if self._wanted.types is not None and name not in self._wanted.types:
            return
        trace = raw = corrupt = payload = None
        if write is None:
            raw = value
        elif self._decodes:
            try:
                payload, trace, raw = _looked_into(value, write)
            except Corrupt as damage:
                raw, corrupt = value, self._misread(offset, damage, position)
        columns = self.columns
        columns.offset.append(offset)
        columns.api_key.append(key)
        columns.type.append(name)
        columns.version.append(version)
        columns.payload.append(payload)
        columns.trace_id.append(trace)
        columns.raw.append(raw)
        columns.corrupt.append(corrupt)

    def _misread(self, offset: Offset, damage: Corrupt, position: int) -> str:
        reason = f"record at offset {offset}: {damage}"
        if self._wanted.failfast:
            raise Corrupt(reason, path=Path(self._part.place.path), position=position)
        return f"{reason}, in the batch at byte {position}"

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
                    self.columns.put(
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


class _Shape(NamedTuple):
    """The decoder of one record type and version, found by the head of a value.

    `write` makes JSON of a decoded record, `text` makes it of plain bytes. `write` is None for an unknown record.
    """

    key: int
    type: str
    version: int
    write: Callable[[Message], str] | None
    text: Callable[[bytes], str | None]


_SHAPES: Final[dict[bytes, _Shape]] = {}


def _shape_of(value: bytes) -> _Shape:
    """Looks up the decoder for a value and caches it by the head if the head has HEAD_BYTES, as nearly always.

    The `write` of a record that this schema does not know is None.
    """
    try:
        key, version, body = frame_of(value)
    except Corrupt:
        return _Shape(-1, UNKNOWN, -1, _refuse, _refuse)
    record = RECORDS.get(key)
    if record is None or version not in layout_of(record).versions:
        return _Shape(key, UNKNOWN, version, None, _refuse)
    shape = _Shape(key, type_name(record), version, writer(record, version), text_of(record, version))
    if body == HEAD_BYTES:
        _SHAPES[value[:HEAD_BYTES]] = shape
    return shape


def _looked_into(value: bytes, write: Callable[[Message], str]) -> tuple[str, str | None, bytes | None]:
    """Decodes a known record; returns its payload, trace id, and raw bytes if it has unknown tags. Raises Corrupt."""
    record = decode_record(value)
    return write(record), *_tags(record.unknown_tags, value)  # type: ignore[attr-defined]  # known records have them


def _refuse(_: Message | bytes) -> str:
    raise AssertionError("a value without a frame is not decoded")


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


def _tags(tags: tuple[tuple[int, bytes], ...], value: bytes) -> tuple[str | None, bytes | None]:
    """Returns the trace id, and the value itself if it has tags that this schema does not know."""
    trace = next((_trace_id(text) for tag, text in tags if tag == TRACE_TAG), None)
    return trace, value if any(tag not in _OURS for tag, _ in tags) else None


def _trace_id(traceparent: bytes) -> str | None:
    """Returns the trace id of a W3C traceparent; None if the text is malformed."""
    version, _, rest = traceparent.decode("ascii", "replace").partition("-")
    trace_id = rest.partition("-")[0]
    return trace_id if len(version) == 2 and len(trace_id) == 32 else None
