"""Writes a record as the JSON text that Kafka's own converters print, and parses such JSON into a record.

The text has the fields of the record's version; a tagged field is left out at its default. The texts of ids are cached.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from json.encoder import encode_basestring
from typing import Any, Final

from kraft import Message
from quorate.doubles import double_json
from quorate.nouns import parse_uuid, uuid_text
from quorate.wire.json_names import json_name
from quorate.wire.schema import Field, FieldType, Layout, default_of, layout_of, struct_class

__all__ = ["TEXTS_CACHED", "base64_text", "from_document", "uuid_json", "writer"]

TEXTS_CACHED: Final = 1 << 16
"""Size limit of a cache of texts."""
_Text = Callable[[Any], str]


def writer(record: type[Message], version: int) -> Callable[[Message], str]:
    """Returns the function that writes records of this class and version as JSON text."""
    return _writer(layout_of(record), version)


def from_document(record: type[Message], version: int, document: Mapping[str, Any]) -> Message:
    """Builds a record from a parsed JSON object; absent fields get defaults. Raises ValueError for unknown ones."""
    return _struct(layout_of(record), version, document)


def base64_text(data: bytes) -> str:
    """Encodes bytes as a base64 JSON string, quotes included."""
    return f'"{b64encode(data).decode("ascii")}"'


@lru_cache(TEXTS_CACHED)
def uuid_json(uuid: bytes) -> str:
    """Returns a uuid of 16 bytes as a JSON string in Kafka's base64, quotes included."""
    return f'"{uuid_text(uuid)}"'


@cache
def _writer(layout: Layout, version: int) -> _Text:
    present = [field for field in layout.fields if field.in_version(version)]
    plain = [
        (field.name, f'"{json_name(field.name)}":', _text(field, version)) for field in present if field.tag is None
    ]
    tagged = [
        (field.name, default_of(field), f'"{json_name(field.name)}":', _text(field, version))
        for field in present
        if field.tag is not None
    ]

    def write(message: Message) -> str:
        members = [prefix + text(getattr(message, name)) for name, prefix, text in plain]
        for name, default, prefix, text in tagged:
            if (value := getattr(message, name)) != default:
                members.append(prefix + text(value))
        return f"{{{','.join(members)}}}"

    return write


def _text(field: Field, version: int) -> _Text:
    """Returns what makes the text of a field's value, of one or of several if it is an array."""
    one = _one(field, version)
    many: _Text = (lambda values: f"[{','.join(map(one, values))}]") if field.array else one
    return (lambda value: "null" if value is None else many(value)) if field.nullable_in(version) else many


def _one(field: Field, version: int) -> _Text:
    match field.kind:
        case FieldType.STRUCT:
            assert field.struct is not None, field
            return _writer(field.struct, version)
        case FieldType.STRING:
            return encode_basestring
        case FieldType.BYTES | FieldType.RECORDS:
            return base64_text
        case FieldType.UUID:
            return uuid_json
        case FieldType.FLOAT64:
            return double_json
        case FieldType.BOOL:
            return lambda value: "true" if value else "false"
        case _:
            return str


def _struct(layout: Layout, version: int, document: Mapping[str, Any]) -> Message:
    known = {json_name(field.name): field for field in layout.fields if field.in_version(version)}
    strange = sorted(set(document) - set(known))
    if strange:
        raise ValueError(f"{layout.name} version {version} has no field {', '.join(strange)}")
    values = {known[name].name: _value(known[name], version, value) for name, value in document.items()}
    return struct_class(layout)(**values)


def _value(field: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return tuple(_item(field, version, item) for item in value)
    return _item(field, version, value)


def _item(field: Field, version: int, value: Any) -> Any:
    match field.kind:
        case FieldType.STRUCT:
            assert field.struct is not None, field
            return _struct(field.struct, version, value)
        case FieldType.UUID:
            return parse_uuid(value)
        case FieldType.BYTES | FieldType.RECORDS:
            return b64decode(value, validate=True)
        case FieldType.FLOAT64:
            return float(value)  # Infinity and NaN are strings in this JSON
        case _:
            return value
