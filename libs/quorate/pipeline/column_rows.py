"""Decodes a file part by column: all records of a run of batches at once, with numpy and Arrow.

Records that do not fit are decoded one by one, and batches that do not fit by `batch_rows.decode_batch`; the rows are
the same, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quorate.pipeline.batch_rows import Run, Value, decode_batch, decode_value
from quorate.pipeline.column_text import Payloads, writer_of
from quorate.pipeline.columns import COLUMNS, Columns
from quorate.pipeline.log_files import FilePart
from quorate.pipeline.record_shapes import HEAD_BYTES, Shape, shape_of
from quorate.pipeline.record_spans import Array, Spans, spans
from quorate.pipeline.row_filter import RowFilter
from quorate.pipeline.rows import ROWS_MAX, Piece, pieces, pieces_of

__all__ = ["Arrays", "read_arrays", "read_arrays_of"]

FEW: Final = 64
"""Fewer batches or records than this are faster to decode one by one."""
CONTENT_BYTES_MAX: Final = 1 << 30
"""Runs of more bytes, as of a single huge batch, are decoded one by one: Arrow's positions have 31 bits."""
_HEADS: Final = 1 << 14
"""Number of heads of HEAD_BYTES: keys and versions below 128. This number itself stands for any other head."""


@dataclass(frozen=True, slots=True)
class Arrays:
    """Decoded records as one Arrow array for each name in COLUMNS; `timestamp` is in ms since 1970, an int64."""

    by_name: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.by_name["offset"])

    def slices(self) -> Iterator[Arrays]:
        """Yields the rows in chunks of up to ROWS_MAX, without a copy."""
        for start in range(0, len(self), ROWS_MAX):
            yield Arrays({name: array.slice(start, ROWS_MAX) for name, array in self.by_name.items()})


def read_arrays(part: FilePart, wanted: RowFilter) -> Iterator[Columns | Arrays]:
    """Yields the rows of a part of a file in chunks: the rows of `rows.read`, in the same order, but decoded faster.

    Records that are decoded by column are in Arrays, all others in Columns. Raises OSError, and with `wanted.failfast`
    Corrupt.
    """
    return _decoded(pieces(part, wanted))


def read_arrays_of(part: FilePart, wanted: RowFilter, data: bytes) -> Iterator[Columns | Arrays]:
    """Yields the rows of a part whose bytes are data[part.start:part.end], like `read_arrays` for a file."""
    return _decoded(pieces_of(part, wanted, data))


def _decoded(found: Iterator[Piece]) -> Iterator[Columns | Arrays]:
    columns = Columns()
    for piece in found:
        if isinstance(piece, Columns):
            columns.rows += piece.rows
            continue
        for chunk in _run(piece):
            if isinstance(chunk, Arrays):
                if len(columns):
                    yield columns
                    columns = Columns()
                yield from chunk.slices()
                continue
            columns.rows += chunk.rows
            if len(columns) >= ROWS_MAX:
                yield columns
                columns = Columns()
    if len(columns):
        yield columns


def _run(run: Run) -> Iterator[Columns | Arrays]:
    """Decodes a run; batches in a row that fit become one chunk."""
    if run.rows < FEW or run.bytes > CONTENT_BYTES_MAX:
        yield from _one_by_one(run, 0, len(run.batches))
        return
    found = spans(run)
    begin = 0
    for fits, group in groupby(found.fits.tolist()):
        end = begin + sum(1 for _ in group)
        if fits and found.firsts[end] - found.firsts[begin] >= FEW:
            rows = _Rows(run, found, begin, end)
            if rows.count:
                yield rows.arrays()
        else:
            yield from _one_by_one(run, begin, end)
        begin = end
    assert begin == len(run.batches), (begin, len(run.batches))


def _one_by_one(run: Run, begin: int, end: int) -> Iterator[Columns]:
    for position, header in run.batches[begin:end]:
        columns = Columns()
        decode_batch(run, position, header, columns)
        yield columns


class _Rows:
    """The wanted records of the batches from `begin` to `end` (exclusive) of a run, all of which fit."""

    def __init__(self, run: Run, found: Spans, begin: int, end: int) -> None:
        firsts = found.firsts[begin : end + 1]
        self._run = run
        self._content = found.content
        self._starts = found.starts[firsts[0] : firsts[-1]]
        self._ends = found.ends[firsts[0] : firsts[-1]]
        headers = [header for _, header in run.batches[begin:end]]
        self._bases = np.array([header.base_offset for header in headers], np.int64)
        self._epochs = np.array([header.epoch for header in headers], np.int32)
        self._timestamps = np.array([header.base_timestamp for header in headers], np.int64)
        self._positions = [position for position, _ in run.batches[begin:end]]
        self._batch = np.repeat(np.arange(len(headers)), np.diff(firsts))
        self._offsets = np.arange(len(self._starts)) + (self._bases - (firsts[:-1] - firsts[0]))[self._batch]
        self._heads = self._read_heads()
        self._select()
        assert (np.diff(self._offsets) > 0).all(), (self._bases, firsts)
        self.count = len(self._starts)

    def arrays(self) -> Arrays:
        """Decodes the records."""
        shapes, names, payloads = self._payloads()
        found = {
            "offset": pa.array(self._offsets),
            "epoch": pa.array(self._epochs[self._batch]),
            "timestamp": pa.array(self._timestamps[self._batch]),
            "batch_base_offset": pa.array(self._bases[self._batch]),
            "is_control": pa.array(np.zeros(self.count, np.bool_)),
            **_shape_columns(shapes, names),
            **payloads,
        }
        # A longer column would be cut to the rows of a chunk, and not be noticed.
        assert {self.count} == set(map(len, found.values())), (
            self.count,
            {name: len(each) for name, each in found.items()},
        )
        return Arrays({name: found[name] for name in COLUMNS})

    def _read_heads(self) -> Array:
        """Returns the head of each value as a number below _HEADS; _HEADS itself for one of another length."""
        data = np.frombuffer(self._content, np.uint8)
        frame, key, version = (data[self._starts + at] for at in range(HEAD_BYTES))
        is_plain = (frame == 1) & (key < 128) & (version < 128) & (self._ends - self._starts >= HEAD_BYTES)
        return np.where(is_plain, key.astype(np.int64) << 7 | version, _HEADS)

    def _select(self) -> None:
        """Leaves out what is not wanted."""
        low, high = self._run.range
        kept = (self._offsets >= low) & (self._offsets < high)
        types = self._run.wanted.types
        if types is not None:
            for head in np.flatnonzero(np.bincount(self._heads, minlength=_HEADS)):
                rows = np.flatnonzero(self._heads == head)
                if head == _HEADS:
                    kept[rows] &= np.array([shape_of(self._value(row)).type in types for row in rows], np.bool_)
                elif shape_of(self._value(rows[0])).type not in types:
                    kept[rows] = False
        if not kept.all():
            self._starts, self._ends, self._heads = self._starts[kept], self._ends[kept], self._heads[kept]
            self._batch, self._offsets = self._batch[kept], self._offsets[kept]

    def _value(self, row: Any) -> bytes:  # numpy has integers of its own
        return self._content[self._starts[row] : self._ends[row]]

    def _payloads(self) -> tuple[list[_Name], Array, dict[str, Any]]:
        """Decodes the payloads; returns the names of records, which row has which, and the columns of payloads."""
        names: list[_Name] = []
        name_of = np.zeros(self.count, np.int64)
        texts = _Texts(self.count)
        alone: list[Array] = [np.zeros(0, np.int64)]
        for head in np.flatnonzero(np.bincount(self._heads, minlength=_HEADS)):
            rows = np.flatnonzero(self._heads == head)
            shape = shape_of(self._value(rows[0]))
            if head == _HEADS or shape.write is None:
                alone.append(rows)
                continue
            name_of[rows] = len(names)
            names.append((shape.key, shape.type, shape.version))
            if self._run.wanted.is_decoded:
                found = self._by_column(shape, rows)
                if found is None:
                    alone.append(rows)
                else:
                    alone.append(texts.add(rows, found, self._value))
        self._one_by_one(np.sort(np.concatenate(alone)), names, name_of, texts)
        assert not self._run.wanted.is_decoded or not texts.left_out(), (self.count, texts.left_out())
        return names, name_of, texts.columns()

    def _by_column(self, shape: Shape, rows: Array) -> Payloads | None:
        if shape.record is None or len(rows) < FEW:
            return None
        writer = writer_of(shape.record, shape.version)
        return None if writer is None else writer.payloads(self._content, self._starts[rows], self._ends[rows])

    def _one_by_one(self, rows: Array, names: list[_Name], name_of: Array, texts: _Texts) -> None:
        """Decodes the records that do not fit, in their order, so that with failfast the first damage is raised."""
        known = {name: number for number, name in enumerate(names)}
        values = []
        for row in rows:
            position = self._positions[self._batch[row]]
            value = decode_value(self._run, int(self._offsets[row]), self._value(row), position)
            values.append(value)
            name = value.key, value.type, value.version
            if name not in known:
                known[name] = len(names)
                names.append(name)
            name_of[row] = known[name]
        texts.put(rows, values)


_Name = tuple[int, str, int]
"""Key, type and version of a record."""


class _Texts:
    """Payloads from several places, and in which row each belongs; and the rare columns."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._arrays: list[Any] = [pa.nulls(1, pa.string())]
        self._size = 1
        self._from = np.zeros(count, np.int64)
        self._traces: dict[int, str] = {}
        self._raws: dict[int, bytes] = {}
        self._damage: dict[int, str] = {}

    def add(self, rows: Array, found: Payloads, value: Any) -> Array:
        """Adds payloads made by column; returns the rows that have none. `value` returns a row's bytes."""
        self._put(rows, found.texts)
        is_missing = found.texts.is_null().to_numpy(zero_copy_only=False)
        for at, (trace, is_strange) in found.marks.items():
            if is_missing[at]:
                continue
            row = int(rows[at])
            if trace is not None:
                self._traces[row] = trace
            if is_strange:
                self._raws[row] = value(row)
        return rows[is_missing]

    def put(self, rows: Array, values: list[Value]) -> None:
        """Adds records that were decoded one by one."""
        self._put(rows, pa.array([value.payload for value in values], pa.string()))
        for at, value in zip(rows, values, strict=True):
            row = int(at)
            if value.trace_id is not None:
                self._traces[row] = value.trace_id
            if value.raw is not None:
                self._raws[row] = value.raw
            if value.corrupt is not None:
                self._damage[row] = value.corrupt

    def left_out(self) -> int:
        """Returns how many rows were neither added nor put."""
        return self._count - int(np.count_nonzero(self._from))

    def columns(self) -> dict[str, Any]:
        """Returns the columns of all rows."""
        return {
            "payload": pa.concat_arrays(self._arrays).take(pa.array(self._from)),
            "trace_id": self._sparse(self._traces, pa.string()),
            "raw": self._sparse(self._raws, pa.binary()),
            "_corrupt": self._sparse(self._damage, pa.string()),
        }

    def _put(self, rows: Array, texts: Any) -> None:
        self._from[rows] = np.arange(self._size, self._size + len(texts))
        self._arrays.append(texts)
        self._size += len(texts)

    def _sparse(self, found: Mapping[int, Any], kind: Any) -> Any:
        if not found:
            return pa.nulls(self._count, kind)
        values: list[Any] = [None] * self._count
        for row, value in found.items():
            values[row] = value
        return pa.array(values, kind)


def _shape_columns(names: list[_Name], name_of: Array) -> dict[str, Any]:
    keys, types, versions = zip(*names, strict=True)
    codes = pa.array(name_of)
    return {
        "api_key": pa.array(keys, pa.int32()).take(codes),
        "type": pa.array(types, pa.string()).take(codes),
        "version": pa.array(versions, pa.int32()).take(codes),
    }
