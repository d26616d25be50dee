"""The layout of each message on Kafka's wire, read from the options of its protobuf descriptor.

`protos/kraft/schema.proto` defines the options; only this module reads them. The codec, the structs, the observer's
tables and Spark's schemas are derived from these layouts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as ProtobufMessage
from google.protobuf.message_factory import GetMessageClass

import kraft
from kraft import schema_pb2

ZERO_UUID = bytes(16)

STRING_MAX: Final = 2**15 - 1
"""The most bytes of a string in UTF-8. Kafka's generated writers and readers refuse a longer one, a compact one too."""


class FieldType(Enum):
    """The type of a field. Each member's value is the type's name in Kafka's message JSON.

    For a struct, the JSON has the struct's own name; here it is STRUCT, and `Field.struct` has its layout.
    """

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
    """One field of a message. The order of fields is their order on the wire.

    `since` and `until` are the versions that have the field, inclusive; `until` is None for a current field.
    `nullable_since` is None for a field that is never null. `struct` is the element's layout if the kind is STRUCT.
    With `box` the protobuf field is a message around the list; a `secret` value must not be shown. The length of a
    `never_compact` field has a fixed width in flexible versions, too.
    """

    name: str
    kind: FieldType
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
    never_compact: bool

    def in_version(self, version: int) -> bool:
        """Returns whether `version` of the message has the field."""
        return self.since <= version and (self.until is None or version <= self.until)

    def nullable_in(self, version: int) -> bool:
        """Returns whether the field may be null in `version` of the message."""
        return self.nullable_since is not None and self.nullable_since <= version


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """The layout of one message or nested struct. Versions are inclusive; nested structs have those of the message.

    `key` is the API key of a request or response, or the type of a record; None for others.
    """

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
        """The versions that can be encoded and decoded."""
        return range(self.first_version, self.last_version + 1)

    def is_flexible(self, version: int) -> bool:
        """Returns whether `version` has compact lengths and tagged fields. KIP-482."""
        return version >= self.flexible_since

    def __repr__(self) -> str:
        return f"<Layout {self.module}.{self.name} {self.first_version}-{self.last_version}>"


@cache
def layout_of(message: type[kraft.Message]) -> Layout:
    """Returns the layout of a generated struct class."""
    module = importlib.import_module(f"{message.__module__}_pb2")
    protobuf: Any = module
    for name in message.__qualname__.split("."):
        protobuf = getattr(protobuf, name)
    return layout(protobuf)


@cache
def layout(protobuf: type[ProtobufMessage]) -> Layout:
    """Returns the layout of a protobuf message class, including its nested structs."""
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


@cache
def struct_class(layout: Layout | None) -> type[kraft.Message]:
    """Returns the generated struct class of this layout."""
    assert layout is not None
    # Relative to the package `kraft`, wherever it is: in the wheel pyspark-kraft it lies in another package.
    found: Any = importlib.import_module(layout.module.removeprefix("kraft"), kraft.__name__)
    for part in layout.name.split("."):
        found = getattr(found, part)
    assert isinstance(found, type)
    assert issubclass(found, kraft.Message), found
    return found


def default_of(field: Field) -> Any:
    """Returns the value of an absent field in a struct: `Field.default`, or for `...` a struct of defaults."""
    return struct_class(field.struct)() if field.default is ... else field.default


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


# The stubs have two descriptor classes, one of them abstract; at run time they are the same: hence Any below.


def _class_of(descriptor: Any) -> type[ProtobufMessage]:
    return GetMessageClass(descriptor)


def _qualified_name(descriptor: Any) -> str:
    parent = descriptor.containing_type
    return f"{_qualified_name(parent)}.{descriptor.name}" if parent else descriptor.name


_KINDS = {
    FieldDescriptor.TYPE_BOOL: FieldType.BOOL,
    FieldDescriptor.TYPE_INT32: FieldType.INT32,
    FieldDescriptor.TYPE_INT64: FieldType.INT64,
    FieldDescriptor.TYPE_UINT32: FieldType.UINT32,
    FieldDescriptor.TYPE_DOUBLE: FieldType.FLOAT64,
    FieldDescriptor.TYPE_STRING: FieldType.STRING,
    FieldDescriptor.TYPE_BYTES: FieldType.BYTES,
    FieldDescriptor.TYPE_ENUM: FieldType.INT16,
    FieldDescriptor.TYPE_MESSAGE: FieldType.STRUCT,
}
_NARROW = {
    schema_pb2.TYPE_INT8: FieldType.INT8,
    schema_pb2.TYPE_INT16: FieldType.INT16,
    schema_pb2.TYPE_UINT16: FieldType.UINT16,
    schema_pb2.TYPE_UUID: FieldType.UUID,
    schema_pb2.TYPE_RECORDS: FieldType.RECORDS,
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
        struct=nested(element.message_type) if kind is FieldType.STRUCT else None,
        since=since,
        until=options[schema_pb2.until] if given.HasExtension(schema_pb2.until) else None,
        tag=options[schema_pb2.tag] if options[schema_pb2.tag] >= 0 else None,
        nullable_since=max(since, options[schema_pb2.nullable_since]) if options[schema_pb2.nullable] else None,
        default=_default(field, kind, array=array, null=options[schema_pb2.null_default]),
        ignorable=options[schema_pb2.ignorable],
        map_key=options[schema_pb2.map_key],
        box=box,
        secret=given.debug_redact,
        never_compact=options[schema_pb2.never_compact],
    )


def _default(field: Any, kind: FieldType, *, array: bool, null: bool) -> Any:
    """Returns Kafka's default of a field; `...` for a struct whose fields all have their own defaults."""
    if null:
        return None
    if array:
        return ()
    if kind is FieldType.UUID:
        return ZERO_UUID
    if kind is FieldType.STRUCT:
        return ...
    return field.default_value
