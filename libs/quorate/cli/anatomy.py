"""Names every byte of a batch: its header, each record's frame, and each field of its body, from the schema's layouts.

The result is a list of parts in byte order. Leaves have bytes, and together they cover each byte of the batch exactly
once; headings have none. Bytes that cannot be read are one last leaf, and the damage is returned beside the list.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kraft import Message
from quorate.cli.record_json import CONTROL_NAMES
from quorate.doubles import double_text
from quorate.errors import Corrupt
from quorate.nouns import uuid_text
from quorate.records import CONTROL_RECORDS, RECORDS, REQUEST_TAG, TARGET_TAG, TRACE_TAG
from quorate.wire.batch import COMPRESSION, CONTROL, BatchHeader, ControlType
from quorate.wire.codec_source import FIXED
from quorate.wire.json_names import json_name
from quorate.wire.primitives import read_uvarint, read_varint
from quorate.wire.schema import Field, FieldType, Layout, layout_of

__all__ = ["BytesPart", "anatomy"]

_HEADER: Final = (
    ("baseOffset", "int64", "q"),
    ("batchLength", "int32", "i"),
    ("partitionLeaderEpoch", "int32", "i"),
    ("magic", "int8", "b"),
    ("crc", "uint32", "I"),
    ("attributes", "int16", "h"),
    ("lastOffsetDelta", "int32", "i"),
    ("baseTimestamp", "int64", "q"),
    ("maxTimestamp", "int64", "q"),
    ("producerId", "int64", "q"),
    ("producerEpoch", "int16", "h"),
    ("baseSequence", "int32", "i"),
    ("recordsCount", "int32", "i"),
)
_ATTRIBUTES: Final = (
    (0x08, "log append time"),
    (0x10, "transactional"),
    (CONTROL, "control"),
    (0x40, "delete horizon"),
)
OUR_TAGS: Final = {
    TRACE_TAG: "traceparent: the request that caused this batch",
    REQUEST_TAG: "mark: a digest of caller and request id, and the answer, so that a repeated one is written once",
    TARGET_TAG: "target: the voters that AlterQuorum has asked for",
}


class BytesPart(NamedTuple):
    """A range of bytes of a file, with name, type, value and a remark (`note`). `position` is in the file.

    `size` 0 is a heading, and `depth` how many headings it is below.
    """

    position: int
    size: int
    depth: int
    name: str
    type: str
    value: str
    note: str = ""


def anatomy(
    data: memoryview, position: int, header: BatchHeader, *, sound: bool
) -> tuple[list[BytesPart], Corrupt | None]:
    """Returns the parts of the batch at `position` (bytes), and the damage that ends the reading; None without damage.

    `sound` is True if the batch's checksum is right. The records of a compressed batch are one part.
    """
    walk = _Walk(data, position, position + header.size)
    try:
        walk.batch(header, sound=sound)
    except Corrupt as damage:
        if walk.position < walk.end:
            walk.depth = 1
            walk.raw("(not read)", walk.end - walk.position, damage.reason)
        return walk.parts, damage
    return walk.parts, None


class _Walk:
    """Walks through the bytes of a batch: the present position, and the parts collected so far."""

    def __init__(self, data: memoryview, position: int, end: int) -> None:
        self.data = data
        self.position = position
        self.end = end
        self.depth = 0
        self.parts: list[BytesPart] = []

    # Steps: each adds one part and moves on.

    def heading(self, name: str, note: str = "") -> None:
        self.parts.append(BytesPart(self.position, 0, self.depth, name, "", "", note))

    def leaf(self, name: str, kind: str, size: int, value: str, note: str = "") -> None:
        self.parts.append(BytesPart(self.position, size, self.depth, name, kind, value, note))
        self.position += size

    def raw(self, name: str, size: int, note: str = "") -> None:
        self.take(name, size)
        self.leaf(name, "bytes", size, "", note)

    def number(self, name: str, kind: str, code: str, note: Callable[[Any], str] = lambda _: "") -> Any:
        # Any: what `struct` unpacks is an int, a float, a bool or bytes, by its code.
        size = struct.calcsize(">" + code)
        (value,) = struct.unpack(">" + code, self.take(name, size))
        self.leaf(name, kind, size, _text(value), note(value))
        return value

    def uvarint(self, name: str, note: Callable[[int], str] = lambda _: "") -> int:
        return self._varint(name, "uvarint", read_uvarint, note)

    def varint(self, name: str, note: Callable[[int], str] = lambda _: "") -> int:
        return self._varint(name, "varint", read_varint, note)

    def _varint(
        self, name: str, kind: str, read: Callable[[bytes, int], tuple[int, int]], note: Callable[[int], str]
    ) -> int:
        try:
            value, size = read(bytes(self.data[self.position : min(self.end, self.position + 10)]), 0)
        except Corrupt as damage:
            raise Corrupt(f"{name}: {damage.reason}", position=self.position) from None
        self.leaf(name, kind, size, str(value), note(value))
        return value

    def take(self, name: str, size: int) -> bytes:
        left = self.end - self.position
        if not 0 <= size <= left:
            raise Corrupt(f"{name}: takes {size} bytes, {left} are left", position=self.position)
        return bytes(self.data[self.position : self.position + size])

    # The batch and its records.

    def batch(self, header: BatchHeader, *, sound: bool) -> None:
        kind = "control batch" if header.is_control else "batch"
        count = "1 record" if header.count == 1 else f"{header.count} records"
        self.heading(f"{kind} at offset {header.base_offset}", f"{header.size} bytes, {count}")
        self.depth = 1
        for name, word, code in _HEADER:
            self.number(name, word, code, lambda value, name=name: _header_note(name, value, header, sound))  # type: ignore[misc]  # the default binds the loop's name
        if header.attributes & COMPRESSION:
            self.raw("records", self.end - self.position, f"compressed with {header.compression}: not taken apart")
            return
        for _ in range(header.count):
            self.depth = 1
            self.record(header)
        if self.position < self.end:
            raise Corrupt(f"{self.end - self.position} bytes after the last record", position=self.position)

    def record(self, header: BatchHeader) -> None:
        place = len(self.parts)
        self.heading("record")
        self.depth = 2
        length = self.varint("length", lambda length: f"{_bytes(length)} follow")
        whole, stop = self.end, self.position + length
        if length < 1 or stop > whole:
            raise Corrupt(f"record length {length}, {whole - self.position} bytes are left", position=self.position)
        self.end = stop
        try:
            self.number("attributes", "int8", "b")
            self.varint("timestampDelta", lambda delta: _time(header.base_timestamp + delta))
            offset = header.base_offset + self.varint(
                "offsetDelta", lambda delta: f"offset {header.base_offset + delta}"
            )
            self.parts[place] = self.parts[place]._replace(name=f"record at offset {offset}")
            self.content(header)
        finally:
            self.end = whole
        if self.position != stop:
            raise Corrupt(f"record length {length} is off by {stop - self.position}", position=self.position)

    def content(self, header: BatchHeader) -> None:
        key_bytes = self.varint("keyLength", lambda size: "no key" if size < 0 else "")
        kind: int | None = None
        if header.is_control and key_bytes >= 4:
            self.number("key.version", "int16", "h")
            kind = self.number("key.type", "int16", "h", _control_note)
            key_bytes -= 4
        if key_bytes > 0:
            self.raw("key", key_bytes)
        value_bytes = self.varint("valueLength", lambda size: "no value" if size < 0 else "")
        if value_bytes > 0:
            self.value(value_bytes, kind)
        for index in range(self.varint("headersCount")):
            for what in ("key", "value"):
                size = self.varint(f"headers[{index}].{what}Length")
                if size > 0:
                    self.raw(f"headers[{index}].{what}", size)

    def value(self, size: int, control: int | None) -> None:
        self.take("value", size)
        whole, self.end = self.end, self.position + size
        try:
            if control is None:
                self.framed()
            else:
                found = CONTROL_RECORDS.get(control)
                self.body(found, int.from_bytes(self.take("version", 2), "big"), f"control type {control}")
            if self.position < self.end:
                raise Corrupt(f"{self.end - self.position} bytes after the last field", position=self.position)
        finally:
            self.end = whole

    def framed(self) -> None:
        frame = self.uvarint("frameVersion")
        if frame != 1:
            raise Corrupt(f"frame version {frame}; only 1 exists", position=self.position)
        key = self.uvarint("apiKey", lambda key: RECORDS[key].__name__ if key in RECORDS else "not known here")
        version = self.uvarint("version")
        self.body(RECORDS.get(key), version, f"api key {key}")

    def body(self, found: type[Message] | None, version: int, what: str) -> None:
        if found is None or version not in layout_of(found).versions:
            self.raw("body", self.end - self.position, f"{what} in version {version} is not known here: shown raw")
            return
        self.heading(f"{found.__name__} v{version}")
        self.depth += 1
        self.message(layout_of(found), version)
        self.depth -= 1

    # Messages (KIP-482: the flexible encoding).

    def message(self, layout: Layout, version: int) -> None:
        for field in layout.fields:
            if field.in_version(version) and field.tag is None:
                self.field(field, json_name(field.name), version)
        known = {field.tag: field for field in layout.fields if field.in_version(version)}
        for _ in range(self.uvarint("tagged fields")):
            self.tagged(known, version)

    def tagged(self, known: dict[int | None, Field], version: int) -> None:
        found: list[Field | None] = [None]

        def named(tag: int) -> str:
            found[0] = known.get(tag)
            if found[0] is not None:
                return json_name(found[0].name)
            return OUR_TAGS.get(tag, "not known here: kept")

        tag = self.uvarint("tag", named)
        size = self.uvarint("size", _bytes)
        self.take(f"tag {tag}", size)
        field, stop = found[0], self.position + size
        self.depth += 1
        if field is not None:
            self.field(field, json_name(field.name), version)
            if self.position != stop:
                raise Corrupt(f"tag {tag} takes other than the {size} bytes announced", position=self.position)
        elif size:
            text = bytes(self.data[self.position : stop])
            self.leaf(f"tag {tag}", "bytes", size, _printable(text) if tag == TRACE_TAG else "")
        self.depth -= 1

    def field(self, field: Field, name: str, version: int) -> None:
        if not field.array:
            self.one(field, name, version, nullable=field.nullable_in(version))
            return
        count = self.uvarint(name, lambda coded: _count(coded, "element")) - 1
        self.depth += 1
        for index in range(max(0, count)):
            self.one(field, f"{name}[{index}]", version, nullable=False)
        self.depth -= 1

    def one(self, field: Field, name: str, version: int, *, nullable: bool) -> None:
        if field.kind in FIXED:
            self.number(name, field.kind.value, FIXED[field.kind])
        elif field.kind is FieldType.STRUCT:
            self.struct(field, name, version, nullable=nullable)
        else:
            size = self.uvarint(f"{name}.length", lambda coded: _count(coded, "byte")) - 1
            if size > 0:
                raw = self.take(name, size)
                self.leaf(name, field.kind.value, size, _printable(raw) if field.kind is FieldType.STRING else "")

    def struct(self, field: Field, name: str, version: int, *, nullable: bool) -> None:
        assert field.struct is not None, field
        if nullable and self.number(name, "int8", "b", lambda mark: "null" if mark < 0 else "present") < 0:
            return
        self.heading(name)
        self.depth += 1
        self.message(field.struct, version)
        self.depth -= 1


def _header_note(name: str, value: int, header: BatchHeader, sound: bool) -> str:
    match name:
        case "batchLength":
            return f"bytes after this field; {header.size} in all"
        case "partitionLeaderEpoch":
            return "not under the checksum"
        case "crc":
            return f"{value:#010x}, CRC-32C of all that follows: {'it fits' if sound else 'IT DOES NOT FIT'}"
        case "attributes":
            return ", ".join([header.compression, *(word for bit, word in _ATTRIBUTES if value & bit)])
        case "lastOffsetDelta":
            return f"last offset {header.last_offset}"
        case "baseTimestamp" | "maxTimestamp":
            return _time(value)
        case "producerId" | "producerEpoch" | "baseSequence" if value == -1:
            return "none"
        case _:
            return ""


def _control_note(kind: int) -> str:
    return CONTROL_NAMES.get(ControlType(kind), "") if kind in ControlType.__members__.values() else "not known here"


def _time(ms: int) -> str:
    """Formats ms since 1970 as ISO 8601 in UTC.

    >>> _time(1795197499467)
    '2026-11-20T17:58:19.467Z'
    """
    try:
        moment = datetime.fromtimestamp(ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "no date"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def _count(coded: int, noun: str) -> str:
    """Formats a compact length, which is encoded as the length plus one, with 0 for null (KIP-482)."""
    if coded == 0:
        return "null"
    return f"{coded - 1} {noun}{'' if coded == 2 else 's'}"


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return uuid_text(value)
    if isinstance(value, float):
        return double_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _printable(raw: bytes) -> str:
    text = raw.decode("utf-8", errors="replace")
    return '"' + "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text) + '"'
