"""Converts a message between its three forms: struct, protobuf, and the JSON of Kafka's own tools.

`to_struct` and `to_protobuf` separate gRPC from the cores: id texts become bytes, absent fields become Kafka's
defaults, absent nullable fields become null.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from kraft import Message
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import parse_uuid, uuid_text
from quorate.wire.convert import RANGES, reader, writer
from quorate.wire.convert_in_steps import stepped_reader, stepped_writer
from quorate.wire.items import Items, Steps
from quorate.wire.json_names import json_name
from quorate.wire.schema import STRING_MAX, Field, FieldType, Layout, layout, layout_of

P = TypeVar("P", bound=ProtobufMessage)


def to_struct(message: ProtobufMessage) -> Any:
    """Returns the struct with the values of a protobuf message.

    Raises ApiError(INVALID_REQUEST), naming the field, for a value outside Kafka's type.
    """
    shape = layout(type(message))  # type: ignore[arg-type]  # classes hash; the stubs look at instances
    try:
        return reader(shape)(message)
    except ValueError as misfit:
        for _ in _find_misfit(shape, message, "", Items()):
            pass
        raise AssertionError(f"no field of {message!r} is said to be wrong") from misfit


def to_struct_in_steps(message: ProtobufMessage) -> Steps[Any]:
    """Does what `to_struct` does, in steps of `ITEMS_PER_STEP` items. Raises what `to_struct` raises."""
    shape = layout(type(message))  # type: ignore[arg-type]  # as above
    try:
        return (yield from stepped_reader(shape)(message, Items()))
    except ValueError:
        yield from _find_misfit(shape, message, "", Items())
        raise AssertionError(f"no field of a {shape.name} is said to be wrong") from None


def to_protobuf(message: Message) -> ProtobufMessage:
    """Returns the protobuf message with the values of a struct. Ranges narrower than protobuf's are not checked."""
    shape = layout_of(type(message))
    return writer(shape)(message, shape.protobuf)


def to_protobuf_in_steps(message: Message) -> Steps[ProtobufMessage]:
    """Does what `to_protobuf` does, in steps of `ITEMS_PER_STEP` items."""
    shape = layout_of(type(message))
    return (yield from stepped_writer(shape)(message, shape.protobuf, Items()))


def json_form(message: Message) -> dict[str, Any]:
    """Returns a message as Kafka's JSON converters print it: camelCase names, ids as text, bytes as base64.

    Secrets are in it, too.
    """
    return _json(layout_of(type(message)), message)


def _find_misfit(shape: Layout, message: ProtobufMessage, path: str, done: Items) -> Steps[None]:
    """Raises ApiError for the first field whose value is outside Kafka's type. It looks in steps."""
    for field in shape.fields:
        value, where = getattr(message, field.name), f"{path}{field.name}"
        if field.array:
            for index, item in enumerate(value.items if field.box else value):
                yield from _check_one(field, item, f"{where}[{index}]", done)
                yield from done.one()
        elif message.HasField(field.name):
            yield from _check_one(field, value, where, done)


def _check_one(field: Field, value: Any, path: str, done: Items) -> Steps[None]:
    if field.struct is not None:
        yield from _find_misfit(field.struct, value, f"{path}.", done)
    elif field.kind is FieldType.UUID:
        try:
            parse_uuid(value)
        except ValueError as problem:
            raise _misfit(path, str(problem)) from None
    elif field.kind is FieldType.STRING:
        size = len(value.encode())
        if size > STRING_MAX:
            raise _misfit(path, f"{size} bytes; a string has at most {STRING_MAX}")
    elif field.kind in RANGES:
        low, high = RANGES[field.kind]
        if not low <= value <= high:
            raise _misfit(path, f"{value} is outside {field.kind.value} ({low} to {high})")


def _misfit(path: str, why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{path}: {why}", {"field": path})


def _json(shape: Layout, message: Message) -> dict[str, Any]:
    return {json_name(field.name): _json_value(field, getattr(message, field.name)) for field in shape.fields}


def _json_value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return [_json_one(field, item) for item in value]
    return _json_one(field, value)


def _json_one(field: Field, value: Any) -> Any:
    match field.kind:
        case FieldType.STRUCT:
            assert field.struct is not None
            return _json(field.struct, value)
        case FieldType.UUID:
            return uuid_text(value)
        case FieldType.BYTES | FieldType.RECORDS:
            return b64encode(value).decode("ascii")
        case _:
            return value
