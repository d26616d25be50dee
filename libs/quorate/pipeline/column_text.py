"""Writes the payloads of many records of one type and version at once, field by field, as Arrow arrays.

The texts are those of `json_text`, and are made once for each distinct value in a field: topic ids, lists of replicas
and whole groups of tags repeat. A record that does not fit gets no text, and the caller decodes it alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraft import Message
from quorate.errors import Corrupt
from quorate.pipeline.json_text import TEXTS_CACHED, base64_text, uuid_json, writer
from quorate.pipeline.record_shapes import HEAD_BYTES, marks_of
from quorate.pipeline.record_spans import Array
from quorate.wire.codec import decode, encode
from quorate.wire.codec_source import FIXED, Short
from quorate.wire.json_names import json_name
from quorate.wire.primitives import read_uvarint, uvarint
from quorate.wire.schema import Field, FieldType, layout_of

__all__ = ["Payloads", "Writer", "writer_of"]

_NUMBERS: Final = {
    FieldType.INT8: "i1",
    FieldType.INT16: ">i2",
    FieldType.INT32: ">i4",
    FieldType.INT64: ">i8",
    FieldType.UINT16: ">u2",
    FieldType.UINT32: ">u4",
}
"""Numpy's names of the numbers on the wire."""
_UUID_BYTES: Final = 16
_MISFITS: Final = (Short, IndexError, struct.error, UnicodeError, Corrupt)
"""Errors for malformed bytes; `decode_record` then says what is wrong with them."""
_Text = Callable[[bytes], str | None]


@dataclass(slots=True)
class Payloads:
    """The payloads (JSON) of some records, null for those that cannot be read by column.

    `marks` has, for some rows, the trace id and whether the record has tags that nobody knows; for all others these
    are None and False.
    """

    texts: Any  # a pa.StringArray; pyarrow has no types
    marks: dict[int, tuple[str | None, bool]] = field(default_factory=dict)


@cache
def writer_of(record: type[Message], version: int) -> Writer | None:
    """Returns the writer for records of this class and version; None if their fields cannot be read by column."""
    layout = layout_of(record)
    plain = [each for each in layout.fields if each.in_version(version) and each.tag is None]
    if not layout.is_flexible(version) or not all(_is_columnar(each) for each in plain):
        return None
    return Writer(record, version, plain)


def _is_columnar(each: Field) -> bool:
    if each.never_compact or each.kind in (FieldType.STRUCT, FieldType.FLOAT64):
        return False
    return each.kind in _NUMBERS or each.kind is FieldType.UUID or not each.array


class Writer:
    """Writes many records of one class and version as JSON texts at once; `plain` are the fields before the tags."""

    def __init__(self, record: type[Message], version: int, plain: list[Field]) -> None:
        self._version = version
        self._plain = plain
        self._rest = _rest_text(record, version)
        self._ends: dict[bytes, str] = {}
        fields = layout_of(record).fields
        self._tags = frozenset(each.tag for each in fields if each.tag is not None and each.in_version(version))

    def payloads(self, content: bytes, starts: Array, ends: Array) -> Payloads:
        """Returns the JSON texts of the record values content[starts[k]:ends[k]], null if it has to be decoded alone.

        The values ascend, and `content` has more bytes behind the last one.
        Each value has a head of HEAD_BYTES, which is not looked at.
        """
        columns = _Columns(content, starts + HEAD_BYTES, ends)
        members = [
            member
            for number, each in enumerate(self._plain)
            for member in columns.member(each, f'{"," if number else "{"}"{json_name(each.name)}":', self._version)
        ]
        codes, rests = columns.rest()
        texts: list[str | None] = [self._ends.get(rest) for rest in rests]
        found: dict[int, tuple[str | None, bool]] = {}
        for code in [code for code, text in enumerate(texts) if text is None]:
            texts[code], marks = self._end(rests[code])
            if marks is not None:
                found[code] = marks
        tags = pa.array(texts, pa.string()).take(codes)
        whole = pc.binary_join_element_wise(*members, tags, "") if members else tags
        if not columns.fits.all():
            whole = pc.if_else(pa.array(columns.fits), whole, pa.scalar(None, pa.string()))
        return Payloads(whole, _by_row(np.asarray(codes), found) if found else {})

    def _end(self, rest: bytes) -> tuple[str | None, tuple[str | None, bool] | None]:
        """Returns the end of a payload's text, from the tagged fields on, and the marks of tags that the schema lacks.

        (None, None) for bytes that are no tagged fields; no marks if the schema has all of the tags.
        """
        try:
            known, others = _parted(rest, self._tags)
            end = self._ends.get(known)
            if end is None:
                text = self._rest(known)
                if len(self._ends) >= TEXTS_CACHED:
                    self._ends.clear()
                self._ends[known] = end = f"{text}}}" if self._plain else f"{{{text[1:]}}}"
        except _MISFITS:
            return None, None
        return end, (marks_of(others) if others else None)


def _by_row(codes: Array, found: Mapping[int, tuple[str | None, bool]]) -> dict[int, tuple[str | None, bool]]:
    is_found = np.zeros(int(codes.max()) + 1, np.bool_)
    is_found[list(found)] = True
    rows = np.flatnonzero(is_found[codes])
    return {row: found[code] for row, code in zip(rows.tolist(), codes[rows].tolist(), strict=True)}


class _Columns:
    """Reads one field after the other of all values; `fits` says which values have had all of them so far."""

    def __init__(self, content: bytes, at: Array, ends: Array) -> None:
        self._content = content
        self._data = np.frombuffer(content, np.uint8)
        self._buffer = pa.py_buffer(content)
        self._ends = ends
        self.fits = at < ends
        self._at = np.minimum(at, ends)

    def member(self, each: Field, prefix: str, version: int) -> list[Any]:
        """Reads a field; returns the arrays, or texts for all rows, that together are its JSON member."""
        if each.array or each.kind in (FieldType.STRING, FieldType.BYTES, FieldType.RECORDS):
            return [self._variable(each, prefix, version)]
        if each.kind is FieldType.UUID:
            codes, uuids = self._distinct(self._at + _UUID_BYTES)
            return [_texts(uuids, lambda raw: uuid_json(raw) if len(raw) == _UUID_BYTES else None, prefix).take(codes)]
        if each.kind is FieldType.BOOL:
            are_set = self._data[self._at] != 0
            self._advance(self._at + 1)
            return [pa.array([f"{prefix}false", f"{prefix}true"]).take(pa.array(are_set.astype(np.int8)))]
        kind = np.dtype(_NUMBERS[each.kind])
        every = np.ndarray(len(self._content) - kind.itemsize + 1, kind, self._content, strides=(1,))
        numbers = every[self._at].astype(kind.newbyteorder("="))
        self._advance(self._at + kind.itemsize)
        return [prefix, pa.array(numbers).cast(pa.string())]

    def rest(self) -> tuple[Any, list[bytes]]:
        """Returns what is left of each value as codes, and the distinct bytes that these stand for."""
        return self._distinct(self._ends, is_last=True)

    def _variable(self, each: Field, prefix: str, version: int) -> Any:
        """Reads a field that has its length, plus one, before it: 0 is null. Only lengths of one byte fit."""
        width = struct.calcsize(f">{FIXED[each.kind]}") if each.array else 1
        length = self._data[self._at].astype(np.int64)
        self.fits &= length < 128
        codes, raws = self._distinct(self._at + 1 + width * np.maximum(length - 1, 0))
        shown, is_nullable = _shown(each), each.nullable_in(version)

        def text(raw: bytes) -> str | None:
            if raw[:1] == b"\0":
                return "null" if is_nullable else None
            return shown(raw[1:])

        return _texts(raws, text, prefix).take(codes)

    def _distinct(self, to: Array, *, is_last: bool = False) -> tuple[Any, list[bytes]]:
        """Reads up to the positions `to`; returns codes by row, and the distinct bytes that they stand for."""
        begin = self._at
        self._advance(to, is_last=is_last)
        # The values and the bytes between them in turn, as an array over the content itself: every second one is taken.
        bounds = np.empty(2 * len(begin), np.int32)
        bounds[0::2], bounds[1::2] = begin, self._at
        # Arrow does not look at them, and would read a text of less than no bytes from anywhere.
        assert (bounds[1:] >= bounds[:-1]).all(), bounds
        array = pa.BinaryArray.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), self._buffer])
        found = array.take(pa.array(np.arange(0, len(bounds), 2))).dictionary_encode()
        return found.indices, found.dictionary.to_pylist()

    def _advance(self, to: Array, *, is_last: bool = False) -> None:
        self.fits &= (to <= self._ends) if is_last else (to < self._ends)  # at least the number of tags follows
        self._at = np.minimum(to, self._ends)


def _texts(raws: list[bytes], text: _Text, prefix: str) -> Any:
    """Returns the text of each value, behind `prefix`; null if it has none."""
    found: list[str | None] = []
    for raw in raws:
        try:
            one = text(raw)
        except _MISFITS:
            one = None
        found.append(None if one is None else prefix + one)
    return pa.array(found, pa.string())


_string: Final = lru_cache(TEXTS_CACHED)(lambda raw: encode_basestring(raw.decode()))


def _shown(each: Field) -> Callable[[bytes], str]:
    """Returns what makes the text of a string, bytes, or array of fixed width of its bytes without their length."""
    if each.array:
        return _array(each.kind)
    return _string if each.kind is FieldType.STRING else base64_text


@cache
def _array(kind: FieldType) -> Callable[[bytes], str]:
    code = FIXED[kind]
    width = struct.calcsize(f">{code}")
    show: Callable[[Any], str] = uuid_json if kind is FieldType.UUID else str

    @lru_cache(TEXTS_CACHED)
    def text(raw: bytes) -> str:
        return f"[{','.join(map(show, struct.unpack('>' + code * (len(raw) // width), raw)))}]"

    return text


def _rest_text(record: type[Message], version: int) -> Callable[[bytes], str]:
    """Returns what makes ",name:value" for each tagged field, of the bytes behind the last plain field."""
    body, write = encode(record(), version), writer(record, version)
    nothing = write(record())
    assert body.endswith(b"\0"), (record, version, body)

    def text(rest: bytes) -> str:
        members = write(decode(record, body[:-1] + rest, version))[len(nothing) - 1 : -1]
        return f",{members}" if members and not members.startswith(",") else members

    return text


def _parted(rest: bytes, known: Collection[int]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Splits the tags in `rest`: returns those with a number in `known` as a rest of their own, and the others.

    Raises one of _MISFITS for bytes that are no tags.
    """
    count, at = read_uvarint(rest, 0)
    kept: list[bytes] = []
    others: list[tuple[int, bytes]] = []
    for _ in range(count):
        begin = at
        tag, at = read_uvarint(rest, at)
        size, at = read_uvarint(rest, at)
        end = at + size
        if tag in known:
            kept.append(rest[begin:end])
        else:
            others.append((tag, rest[at:end]))
        at = end
    if at != len(rest):
        raise Short
    return uvarint(len(kept)) + b"".join(kept), others
