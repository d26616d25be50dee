"""Converts records to JSON as Kafka's own JSON converters do: with the fields of their version only.

A tagged field is left out if it has its default value. A record that the schema does not know is shown as raw bytes.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, Final, NamedTuple

from kraft import Message
from quorate.controller.secrets import redacted
from quorate.doubles import Double
from quorate.errors import Corrupt
from quorate.nouns import Offset, uuid_text
from quorate.records import CONTROL_RECORDS, UnknownRecord, decode_record, frame_of
from quorate.wire.batch import BatchHeader, ControlType, RawRecord, records
from quorate.wire.codec import decode
from quorate.wire.json_names import json_name, type_name
from quorate.wire.schema import Field, FieldType, Layout, default_of, layout_of

__all__ = ["RecordDocument", "control_of", "shown_records"]

Json = dict[str, Any]  # Any: JSON values

CONTROL_NAMES: Final = {
    ControlType.LEADER_CHANGE: "LeaderChange",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeader",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooter",
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}
"""The names of control records in DumpLogSegments."""

UNKNOWN: Final = "UNKNOWN_RECORD"


class RecordDocument(NamedTuple):
    """One record for output: `timestamp` in ms since 1970, sizes in bytes (-1 for null), `document` the value.

    `control` is the name of a control record, else None.
    """

    offset: Offset
    timestamp: int
    key_bytes: int
    value_bytes: int
    header_keys: tuple[str, ...]
    control: str | None
    document: Json


def shown_records(
    data: memoryview, position: int, header: BatchHeader, *, with_secrets: bool = False
) -> Iterator[RecordDocument]:
    """Yields the records of the batch at `position`; secrets are redacted unless `with_secrets`.

    Raises Corrupt at the first record that cannot be read.
    """
    for record in _raw_records(data, position, header):
        try:
            control, document = _control(record) if header.is_control else (None, _payload(record, with_secrets))
        except Corrupt as damage:
            raise Corrupt(f"record at offset {record.offset}: {damage}", position=position) from None
        yield RecordDocument(
            offset=record.offset,
            timestamp=record.timestamp,
            key_bytes=-1 if record.key is None else len(record.key),
            value_bytes=-1 if record.value is None else len(record.value),
            header_keys=tuple(name for name, _ in record.headers),
            control=control,
            document=document,
        )


def _raw_records(data: memoryview, position: int, header: BatchHeader) -> Iterator[RawRecord]:
    try:
        yield from records(data, position, header)
    except zlib.error as damage:
        raise Corrupt(
            f"batch at offset {header.base_offset} does not decompress: {damage}", position=position
        ) from None


def control_of(record: RawRecord) -> tuple[int, type[Message] | None, int]:
    """Returns a control record's type, its class (None if unknown), and the version of its value. Raises Corrupt."""
    if record.key is None or len(record.key) < 4 or record.value is None or len(record.value) < 2:
        raise Corrupt("a control record has a key of 4 bytes and a value of 2 at least")
    kind, version = int.from_bytes(record.key[2:4], "big"), int.from_bytes(record.value[:2], "big")
    found = CONTROL_RECORDS.get(kind)
    if found is not None and version not in layout_of(found).versions:
        found = None
    return kind, found, version


def _control(record: RawRecord) -> tuple[str, Json]:
    kind, found, version = control_of(record)
    value = record.value or b""
    if found is None:
        return f"UNKNOWN({kind})", {"version": version, "data": b64encode(value).decode("ascii")}
    return CONTROL_NAMES[ControlType(kind)], _message(layout_of(found), decode(found, value, version), version)


def _payload(record: RawRecord, with_secrets: bool) -> Json:
    if record.value is None:
        raise Corrupt("a record of the metadata log has a value, this one has none")
    message = decode_record(record.value)
    if isinstance(message, UnknownRecord):
        data = b64encode(message.body).decode("ascii")
        return {"type": UNKNOWN, "apiKey": message.api_key, "version": message.version, "data": data}
    _, version, _ = frame_of(record.value)
    return message_json(message if with_secrets else redacted(message), version)


def message_json(message: Message, version: int) -> Json:
    """Returns a record as JSON: its type, its version and its fields."""
    return {
        "type": type_name(type(message)),
        "version": version,
        "data": _message(layout_of(type(message)), message, version),
    }


def _message(layout: Layout, message: Message, version: int) -> Json:
    shown: Json = {}
    for field, name, in_json in _fields(layout, version):
        value = getattr(message, field.name)
        if field.tag is None or value != default_of(field):
            shown[name] = value if in_json is None or value is None else in_json(value)
    return shown


@cache
def _fields(layout: Layout, version: int) -> tuple[tuple[Field, str, Callable[[Any], Any] | None], ...]:
    """Returns each field of a version, its JSON name, and the function that converts its value; None if unchanged."""
    found = []
    for field in layout.fields:
        if field.in_version(version):
            one = _one(field, version)
            many = partial(_each, one) if field.array else one
            found.append((field, json_name(field.name), many))
    return tuple(found)


def _each(one: Callable[[Any], Any] | None, values: Iterable[Any]) -> list[Any]:
    return list(values) if one is None else [one(value) for value in values]


def _one(field: Field, version: int) -> Callable[[Any], Any] | None:
    match field.kind:
        case FieldType.STRUCT:
            assert field.struct is not None, field
            shape = field.struct
            return lambda value: _message(shape, value, version)
        case FieldType.UUID:
            return uuid_text
        case FieldType.BYTES | FieldType.RECORDS:
            return lambda value: b64encode(value).decode("ascii")
        case FieldType.FLOAT64:
            return Double
        case _:
            return None
