"""What a message looks like on Kafka's wire, read off its protobuf descriptor.

`protos/kraft/schema.proto` has the options; this is the one place that reads them. The codec, the
structs, the observer's tables and Spark's schemas are made from what stands here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.message_factory import GetMessageClass

import kraft
from kraft import schema_pb2

ZERO_UUID = bytes(16)


class Kind(Enum):
    """A field's type in the terms of Kafka's message JSON; the value is how the JSON spells it."""

    BOOL = "bool"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT16 = "uint16"
    UINT32 = "uint32"
    FLOAT64 = "float64"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"
    UUID = "uuid"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: where it stands is its place on the wire.

    `until` is inclusive and None when the field still exists. `nullable_since` is None for a field
    that is never null. `struct` is the element's layout when the kind is STRUCT. `box` says that
    the protobuf field is a message around the list, `secret` that its value is not to be shown.
    """

    name: str
    kind: Kind
    array: bool
    struct: Layout | None
    since: int
    until: int | None
    tag: int | None
    nullable_since: int | None
    default: Any  # a value of the field's own type: int, str, bytes, tuple or None
    ignorable: bool
    map_key: bool
    box: bool
    secret: bool

    def in_version(self, version: int) -> bool:
        """Does the field exist in `version` of its message?"""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """May the field be null in `version` of its message?"""
        return self.nullable_since is not None and self.nullable_since <= version


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """One message or nested struct. Versions are inclusive; nested structs share their root's."""

    name: str
    module: str
    key: int | None
    first_version: int
    last_version: int
    flexible_since: int
    fields: tuple[Field, ...]
    protobuf: type[ProtobufMessage]

    @property
    def versions(self) -> range:
        """The versions that can be written and read: those in the flexible encoding (KIP-482)."""
        return range(max(self.first_version, self.flexible_since), self.last_version + 1)

    def __repr__(self) -> str:
        return f"<Layout {self.module}.{self.name} {self.first_version}-{self.last_version}>"


@cache
def layout_of(message: type[kraft.Message]) -> Layout:
    """The layout of a generated struct class."""
    module = importlib.import_module(f"{message.__module__}_pb2")
    protobuf: Any = module
    for name in message.__qualname__.split("."):
        protobuf = getattr(protobuf, name)
    return layout(protobuf)


@cache
def layout(protobuf: type[ProtobufMessage]) -> Layout:
    """The layout of a protobuf message class; its nested structs are of the same versions."""
    given = protobuf.DESCRIPTOR.GetOptions()
    options = given.Extensions
    first, _, last = options[schema_pb2.versions].partition("-")
    assert first, f"{protobuf.DESCRIPTOR.full_name} has no (kraft.versions)"
    return _read(
        protobuf,
        key=options[schema_pb2.key] if given.HasExtension(schema_pb2.key) else None,
        first=int(first),
        last=int(last or first),
        flexible=options[schema_pb2.flexible_since],
    )


def _read(protobuf: type[ProtobufMessage], *, key: int | None, first: int, last: int, flexible: int) -> Layout:
    descriptor = protobuf.DESCRIPTOR

    def nested(element: Any) -> Layout:
        return _read(_class_of(element), key=None, first=first, last=last, flexible=flexible)

    return Layout(
        name=_qualified_name(descriptor),
        module=descriptor.file.name.removesuffix(".proto").replace("/", "."),
        key=key,
        first_version=first,
        last_version=last,
        flexible_since=flexible,
        fields=tuple(_field(field, nested) for field in descriptor.fields),
        protobuf=protobuf,
    )


# The stubs know two descriptor classes, one of them abstract; both are the same at run time: hence Any below.


def _class_of(descriptor: Any) -> type[ProtobufMessage]:
    return GetMessageClass(descriptor)


def _qualified_name(descriptor: Any) -> str:
    parent = descriptor.containing_type
    return f"{_qualified_name(parent)}.{descriptor.name}" if parent else descriptor.name


_KINDS = {
    FieldDescriptor.TYPE_BOOL: Kind.BOOL,
    FieldDescriptor.TYPE_INT32: Kind.INT32,
    FieldDescriptor.TYPE_INT64: Kind.INT64,
    FieldDescriptor.TYPE_UINT32: Kind.UINT32,
    FieldDescriptor.TYPE_DOUBLE: Kind.FLOAT64,
    FieldDescriptor.TYPE_STRING: Kind.STRING,
    FieldDescriptor.TYPE_BYTES: Kind.BYTES,
    FieldDescriptor.TYPE_ENUM: Kind.INT16,
    FieldDescriptor.TYPE_MESSAGE: Kind.STRUCT,
}
_NARROW = {
    schema_pb2.TYPE_INT8: Kind.INT8,
    schema_pb2.TYPE_INT16: Kind.INT16,
    schema_pb2.TYPE_UINT16: Kind.UINT16,
    schema_pb2.TYPE_UUID: Kind.UUID,
    schema_pb2.TYPE_RECORDS: Kind.RECORDS,
}


def _field(field: Any, nested: Callable[[Any], Layout]) -> Field:
    given = field.GetOptions()
    options = given.Extensions
    element = field
    box = bool(field.message_type and field.message_type.GetOptions().Extensions[schema_pb2.box])
    if box:
        (element,) = field.message_type.fields
    kind = _NARROW.get(element.GetOptions().Extensions[schema_pb2.type], _KINDS[element.type])
    array = box or element.is_repeated
    since = options[schema_pb2.since]
    return Field(
        name=field.name,
        kind=kind,
        array=array,
        struct=nested(element.message_type) if kind is Kind.STRUCT else None,
        since=since,
        until=options[schema_pb2.until] if given.HasExtension(schema_pb2.until) else None,
        tag=options[schema_pb2.tag] if options[schema_pb2.tag] >= 0 else None,
        nullable_since=max(since, options[schema_pb2.nullable_since]) if options[schema_pb2.nullable] else None,
        default=_default(field, kind, array=array, null=options[schema_pb2.null_default]),
        ignorable=options[schema_pb2.ignorable],
        map_key=options[schema_pb2.map_key],
        box=box,
        secret=given.debug_redact,
    )


def _default(field: Any, kind: Kind, *, array: bool, null: bool) -> Any:
    """Kafka's default. For a struct that is not null it is the struct whose members are all at theirs."""
    if null:
        return None
    if array:
        return ()
    if kind is Kind.UUID:
        return ZERO_UUID
    if kind is Kind.STRUCT:
        return ...
    return field.default_value
