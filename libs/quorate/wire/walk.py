"""A slow codec that walks through a message field by field, to locate errors for the generated codec.

The generated codec calls it only for unfit bytes or values. Both must accept the same messages; tests compare them.
"""

from __future__ import annotations

import struct
from typing import Any

from kraft import Message
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.wire.codec_source import FIXED, old_length
from quorate.wire.primitives import read_uvarint, uvarint
from quorate.wire.schema import STRING_MAX, Field, FieldType, Layout, default_of, struct_class

_STRING_RULE = f"a string has at most {STRING_MAX}"


def read(layout: Layout, version: int, data: bytes, position: int) -> tuple[Message, int]:
    """Returns the message in `data` at `position`, and the position after it. Raises Corrupt, naming the field."""
    return _ByteReader(data, position, layout, version).message(layout, layout.name)


def write(layout: Layout, version: int, message: Message) -> bytes:
    """Returns the bytes of a message.

    Raises ValueError, naming the field, for an unfit value; ApiError(UNSUPPORTED_VERSION) for a field with another
    value than its default that the version lacks, unless it is ignorable.
    """
    return _message(layout, version, message, layout.name)


class _ByteReader:
    def __init__(self, data: bytes, position: int, layout: Layout, version: int) -> None:
        self.data = data
        self.position = position
        self.version = version
        self.flexible = layout.is_flexible(version)

    def message(self, layout: Layout, path: str) -> tuple[Message, int]:
        values: dict[str, Any] = {}
        for field in layout.fields:
            if field.in_version(self.version) and field.tag is None:
                values[field.name] = self.field(field, f"{path}.{field.name}")
        if self.flexible:
            self.tags(layout, path, values)
        return struct_class(layout)(**values), self.position

    def tags(self, layout: Layout, path: str, values: dict[str, Any]) -> None:
        known = {field.tag: field for field in layout.fields if field.in_version(self.version)}
        unknown: list[tuple[int, bytes]] = []
        for _ in range(self.uvarint(f"{path}: number of tagged fields")):
            tag = self.uvarint(f"{path}: a tag")
            size = self.uvarint(f"{path}: size of tag {tag}")
            stop = self.position + size
            field = known.get(tag)
            if field is None:
                unknown.append((tag, self.take(size, f"{path}: tag {tag}")))
                continue
            name = f"{path}.{field.name}"
            if stop > len(self.data):
                raise Corrupt(f"{name}: {size} bytes are announced, {self.left} are left", position=self.position)
            values[field.name] = self.field(field, name)
            if self.position != stop:
                raise Corrupt(f"{name}: does not take the {size} bytes that are announced", position=self.position)
        values["unknown_tags"] = tuple(unknown)

    def field(self, field: Field, path: str) -> Any:
        if field.array:
            count = self.length(field, path, array=True, nullable=field.nullable_in(self.version))
            if count is None:
                return None
            # every element takes at least one byte, so an impossible count is refused before memory is allocated
            width = struct.calcsize(">" + FIXED[field.kind]) if field.kind in FIXED else 1
            if count * width > self.left:
                raise Corrupt(
                    f"{path}: {count} elements are announced, {self.left} bytes are left", position=self.position
                )
            return tuple(self.one(field, f"{path}[{index}]", element=True) for index in range(count))
        return self.one(field, path, element=False)

    def one(self, field: Field, path: str, *, element: bool) -> Any:
        if field.kind in FIXED:
            code = ">" + FIXED[field.kind]
            return struct.unpack(code, self.take(struct.calcsize(code), path))[0]
        nullable = not element and field.nullable_in(self.version)
        if field.kind is FieldType.STRUCT:
            assert field.struct is not None
            if nullable:
                mark = self.take(1, path)
                if mark == b"\xff":
                    return None
                if mark != b"\x01":
                    raise Corrupt(f"{path}: {mark[0]} says neither null nor present", position=self.position - 1)
            return self.message(field.struct, path)[0]
        size = self.length(field, path, array=False, nullable=nullable)
        if size is None:
            return None
        raw = self.take(size, path)
        if field.kind is not FieldType.STRING:
            return raw
        try:
            return raw.decode()
        except UnicodeDecodeError as problem:
            raise Corrupt(
                f"{path}: not UTF-8 ({problem.reason})", position=self.position - size + problem.start
            ) from None

    def length(self, field: Field, path: str, *, array: bool, nullable: bool) -> int | None:
        start = self.position
        if self.flexible and not field.never_compact:
            announced = self.uvarint(f"{path}: length") - 1
        else:
            length = old_length(field.kind, array=array)
            (announced,) = length.unpack(self.take(length.size, f"{path}: length"))
        if announced > STRING_MAX and field.kind is FieldType.STRING and not array:
            raise Corrupt(f"{path}: {announced} bytes are announced; {_STRING_RULE}", position=start)
        if announced >= 0:
            return announced
        if nullable:
            return None
        raise Corrupt(f"{path}: null, which version {self.version} does not allow", position=start)

    def uvarint(self, what: str) -> int:
        try:
            value, self.position = read_uvarint(self.data, self.position)
        except (Corrupt, IndexError):
            raise Corrupt(f"{what}: not an unsigned varint", position=self.position) from None
        return value

    def take(self, size: int, what: str) -> bytes:
        if size > self.left:
            raise Corrupt(f"{what}: takes {size} bytes, {self.left} are left", position=self.position)
        self.position += size
        return self.data[self.position - size : self.position]

    @property
    def left(self) -> int:
        return len(self.data) - self.position


def _message(layout: Layout, version: int, message: Message, path: str) -> bytes:
    if not isinstance(message, struct_class(layout)):
        raise ValueError(f"{path}: {message!r} is not a {layout.name}")
    flexible = layout.is_flexible(version)
    plain: list[bytes] = []
    tagged: list[tuple[int, bytes]] = list(message.unknown_tags)  # type: ignore[attr-defined]
    for field in layout.fields:
        value, name = getattr(message, field.name), f"{path}.{field.name}"
        if not field.in_version(version):
            if not field.ignorable and not _at_default(field, value):
                raise ApiError(
                    ErrorCode.UNSUPPORTED_VERSION, f"{name} is {value!r}, and version {version} has no such field"
                )
        elif field.tag is None:
            plain.append(_field(field, version, value, name, flexible=flexible))
        elif not _at_default(field, value):
            tagged.append((field.tag, _field(field, version, value, name, flexible=flexible)))
    if not flexible:
        if tagged:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{path} has tagged fields {[tag for tag, _ in tagged]}, and version {version} has none: KIP-482",
            )
        return b"".join(plain)
    tags = sorted(tagged)
    if len({tag for tag, _ in tags}) != len(tags):
        raise ValueError(f"{path}: two tagged fields have one tag: {[tag for tag, _ in tags]}")
    section = b"".join(uvarint(tag) + uvarint(len(raw)) + raw for tag, raw in tags)
    return b"".join(plain) + uvarint(len(tags)) + section


def _at_default(field: Field, value: Any) -> bool:
    return bool(value == default_of(field))


def _field(field: Field, version: int, value: Any, path: str, *, flexible: bool) -> bytes:
    compact = flexible and not field.never_compact
    if value is None:
        if not field.nullable_in(version):
            raise ValueError(f"{path} is null, which version {version} does not allow")
        if field.kind is FieldType.STRUCT and not field.array:
            return b"\xff"
        return _length(-1, field, path, array=field.array, compact=compact)
    if field.array:
        items = [_one(field, version, item, f"{path}[{index}]", compact=compact) for index, item in enumerate(value)]
        return _length(len(items), field, path, array=True, compact=compact) + b"".join(items)
    mark = b"\x01" if field.kind is FieldType.STRUCT and field.nullable_in(version) else b""
    return mark + _one(field, version, value, path, compact=compact)


def _length(length: int, field: Field, path: str, *, array: bool, compact: bool) -> bytes:
    """Returns an encoded length; -1 is null."""
    if length > STRING_MAX and field.kind is FieldType.STRING and not array:
        raise ValueError(f"{path}: {length} bytes are too long; {_STRING_RULE}")
    if compact:
        return uvarint(length + 1)
    return old_length(field.kind, array=array).pack(length)


def _one(field: Field, version: int, value: Any, path: str, *, compact: bool) -> bytes:
    if field.kind is FieldType.STRUCT:
        assert field.struct is not None
        return _message(field.struct, version, value, path)
    try:
        if field.kind is FieldType.UUID and len(value) != 16:
            raise ValueError(f"{path}: an id has 16 bytes, not {len(value)}")
        if field.kind in FIXED:
            return struct.pack(">" + FIXED[field.kind], value)
        raw = value.encode() if field.kind is FieldType.STRING else bytes(value)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as problem:
        raise ValueError(f"{path}: {value!r} does not fit {field.kind.value} ({problem})") from None
    return _length(len(raw), field, path, array=False, compact=compact) + raw
