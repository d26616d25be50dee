"""The same message in its three forms: struct, protobuf, and the JSON that Kafka's own tools print.

`to_struct` and `to_protobuf` are the border between gRPC and the cores: ids become bytes, absent
fields Kafka's defaults, absent nullable fields null.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import parse_uuid, uuid_text
from quorate.wire.compile import struct_class
from quorate.wire.schema import Field, Kind, Layout, layout, layout_of

P = TypeVar("P", bound=ProtobufMessage)

_RANGES = {
    Kind.INT8: (-(1 << 7), (1 << 7) - 1),
    Kind.INT16: (-(1 << 15), (1 << 15) - 1),
    Kind.UINT16: (0, (1 << 16) - 1),
}
"""What Kafka's type holds, where protobuf's holds more."""


def to_struct(message: ProtobufMessage) -> Any:
    """The struct with the values of a protobuf message.

    Raises ApiError(INVALID_REQUEST) naming the field that does not fit Kafka's type.
    """
    return _to_struct(layout(type(message)), message, "")  # type: ignore[arg-type]  # classes hash; the stubs look at instances


def to_protobuf(message: Message) -> ProtobufMessage:
    """The protobuf message with the values of a struct."""
    made = layout_of(type(message)).protobuf()
    _fill(layout_of(type(message)), message, made)
    return made


def json_form(message: Message) -> dict[str, Any]:
    """Field by field as Kafka's JSON converters print it: camelCase, ids as text, bytes as base64."""
    return _json(layout_of(type(message)), message)


def _to_struct(shape: Layout, message: ProtobufMessage, path: str) -> Message:
    values = {field.name: _value(field, message, f"{path}{field.name}") for field in shape.fields}
    return struct_class(shape)(**values)


def _value(field: Field, message: ProtobufMessage, path: str) -> Any:
    value = getattr(message, field.name)
    if field.array:
        if field.box:
            if not message.HasField(field.name):
                return None
            value = value.items
        return tuple(_one(field, item, f"{path}[{index}]") for index, item in enumerate(value))
    if not message.HasField(field.name):
        if field.nullable_since is not None:
            return None
        if field.kind in (Kind.STRUCT, Kind.UUID):
            return struct_class(field.struct)() if field.struct else field.default
    return _one(field, value, path)


def _one(field: Field, value: Any, path: str) -> Any:
    if field.kind is Kind.STRUCT:
        assert field.struct is not None
        return _to_struct(field.struct, value, f"{path}.")
    if field.kind is Kind.UUID:
        try:
            return parse_uuid(value)
        except ValueError as problem:
            raise _misfit(path, str(problem)) from None
    low, high = _RANGES.get(field.kind, (None, None))
    if low is not None and high is not None and not low <= value <= high:
        raise _misfit(path, f"{value} is outside {field.kind.value} ({low} to {high})")
    return value


def _misfit(path: str, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{path}: {why}", {"field": path})


def _fill(shape: Layout, message: Message, into: ProtobufMessage) -> None:
    for field in shape.fields:
        value = getattr(message, field.name)
        if value is None:
            continue
        if field.array:
            target = getattr(into, field.name)
            if field.box:
                target.SetInParent()
                target = target.items
            if field.struct:
                for item in value:
                    _fill(field.struct, item, target.add())
            else:
                target.extend(uuid_text(item) for item in value) if field.kind is Kind.UUID else target.extend(value)
        elif field.struct:
            target = getattr(into, field.name)
            target.SetInParent()
            _fill(field.struct, value, target)
        else:
            setattr(into, field.name, uuid_text(value) if field.kind is Kind.UUID else value)


def _json(shape: Layout, message: Message) -> dict[str, Any]:
    return {_camel(field.name): _json_value(field, getattr(message, field.name)) for field in shape.fields}


def _json_value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return [_json_one(field, item) for item in value]
    return _json_one(field, value)


def _json_one(field: Field, value: Any) -> Any:
    match field.kind:
        case Kind.STRUCT:
            assert field.struct is not None
            return _json(field.struct, value)
        case Kind.UUID:
            return uuid_text(value)
        case Kind.BYTES | Kind.RECORDS:
            return b64encode(value).decode("ascii")
        case _:
            return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
