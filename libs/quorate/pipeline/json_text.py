"""Writes a record as the JSON text that Kafka's own converters print, and parses such JSON into a record.

A function is generated for each record class and version, like the codec's decoders: building dicts for a JSON
encoder costs more than the decoding. The text has the fields of that version; a tagged field is left out at its
default. The texts of ids and arrays are cached.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import cache
from json.encoder import encode_basestring
from typing import Any, Final

from kraft import Message
from quorate.doubles import double_json
from quorate.nouns import parse_uuid, uuid_text
from quorate.wire.json_names import json_name
from quorate.wire.schema import Field, FieldType, Layout, default_of, layout_of, struct_class

__all__ = ["KEPT_MAX", "base64_text", "from_document", "writer"]

KEPT_MAX: Final = 1 << 16
"""Size limit of a cache of id or array texts; a full cache is cleared."""
_INTEGERS: Final = (
    FieldType.INT8,
    FieldType.INT16,
    FieldType.INT32,
    FieldType.INT64,
    FieldType.UINT16,
    FieldType.UINT32,
)


class _Ids(dict[bytes, str]):
    """A cache of uuids as JSON strings."""

    def __missing__(self, uuid: bytes) -> str:
        if len(self) >= KEPT_MAX:
            self.clear()
        self[uuid] = text = f'"{uuid_text(uuid)}"'
        return text


class _Arrays(dict[tuple[Any, ...], str]):
    """A cache of arrays as JSON text, by their items. Not for floats and bools: 1, 1.0 and True are equal dict keys."""

    def __init__(self, one: Callable[[Any], str]) -> None:
        super().__init__()
        self._one = one

    def __missing__(self, items: tuple[Any, ...]) -> str:
        if len(self) >= KEPT_MAX:
            self.clear()
        self[items] = text = f"[{','.join(map(self._one, items))}]"
        return text


_IDS: Final = _Ids()
_ID_ARRAYS: Final = _Arrays(_IDS.__getitem__)
_NUMBER_ARRAYS: Final = _Arrays(str)


def writer(record: type[Message], version: int) -> Callable[[Message], str]:
    """Returns the function that writes records of this class and version as JSON text."""
    return _writer(layout_of(record), version)


def from_document(record: type[Message], version: int, document: Mapping[str, Any]) -> Message:
    """Builds a record from a parsed JSON object; absent fields get defaults. Raises ValueError for unknown ones."""
    return _struct(layout_of(record), version, document)


@cache
def _writer(layout: Layout, version: int) -> Callable[[Message], str]:
    names: dict[str, Any] = {"NULL": "null", "TRUE": "true", "FALSE": "false"}
    present = [field for field in layout.fields if field.in_version(version)]
    plain = [field for field in present if field.tag is None]
    shown = "".join(_member(field, version, names) for field in plain)
    lines = ["def write(m):", f"    text = f'{shown}'"]
    for field in present:
        if field.tag is not None:
            default = _named(names, default_of(field))
            lines += [f"    if m.{field.name} != {default}:", f"        text += f'{_member(field, version, names)}'"]
    lines += ["    return '{' + text[1:] + '}'"]
    exec(compile("\n".join(lines), f"<JSON of {layout.name} v{version}>", "exec"), names)
    write: Callable[[Message], str] = names["write"]
    return write


def _member(field: Field, version: int, names: dict[str, Any]) -> str:
    """Generates the f-string source of one JSON member, with the comma before it."""
    value = f"m.{field.name}"
    written = _array(field, value, version, names) if field.array else _one(field, value, version, names)
    if field.nullable_in(version):
        written = f"NULL if {value} is None else {written}"
    return f',"{json_name(field.name)}":{{{written}}}'


def _array(field: Field, value: str, version: int, names: dict[str, Any]) -> str:
    if field.kind in _INTEGERS:
        return f"{_named(names, _NUMBER_ARRAYS)}[{value}]"
    if field.kind is FieldType.UUID:
        return f"{_named(names, _ID_ARRAYS)}[{value}]"
    one = _scalar(field, version)
    return f"{_named(names, _joined(one))}({value})"


def _joined(one: Callable[[Any], str]) -> Callable[[tuple[Any, ...]], str]:
    return lambda items: f"[{','.join(map(one, items))}]"


def _one(field: Field, value: str, version: int, names: dict[str, Any]) -> str:
    if field.kind in _INTEGERS:
        return value
    if field.kind is FieldType.BOOL:
        return f"TRUE if {value} else FALSE"
    if field.kind is FieldType.UUID:
        return f"{_named(names, _IDS)}[{value}]"
    return f"{_named(names, _scalar(field, version))}({value})"


def _scalar(field: Field, version: int) -> Callable[[Any], str]:
    match field.kind:
        case FieldType.STRUCT:
            assert field.struct is not None, field
            return _writer(field.struct, version)
        case FieldType.STRING:
            return encode_basestring
        case FieldType.BYTES | FieldType.RECORDS:
            return base64_text
        case FieldType.FLOAT64:
            return double_json
        case _:
            return json.dumps


def base64_text(data: bytes) -> str:
    """Encodes bytes as a base64 JSON string, quotes included."""
    return f'"{b64encode(data).decode("ascii")}"'


def _named(names: dict[str, Any], value: Any) -> str:
    """Adds `value` to the generated function's globals and returns its name there."""
    found = f"_{len(names)}"
    names[found] = value
    return found


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
