"""Generates the codec: Python source for one decoder and one encoder for each message and version.

A general reader would cost more than the fields that it reads. So the source is written for exactly one version:
neighbouring fields of fixed width are one `struct` call, lengths are read in place, a struct is created by one
positional call. Short arrays of numbers and uuids are looked up by their bytes before they are unpacked, which also
makes equal arrays one shared tuple.

The generated code has no error texts: it raises any Python error, or `Short`, and the codec then calls `walk` to locate
the error. Few lengths are compared with the available bytes: a slice is never longer than these, and a truncated value
is followed by the count of tags, whose position is then beyond the end. A length that controls a loop is checked, and
so is every length in a version without tags (before KIP-482).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import Any, Final

from quorate.wire.primitives import read_uvarint, uvarint
from quorate.wire.schema import STRING_MAX, Field, FieldType, Layout, default_of, struct_class

FIXED: Final = {
    FieldType.BOOL: "?",
    FieldType.INT8: "b",
    FieldType.INT16: "h",
    FieldType.INT32: "i",
    FieldType.INT64: "q",
    FieldType.UINT16: "H",
    FieldType.UINT32: "I",
    FieldType.FLOAT64: "d",
    FieldType.UUID: "16s",
}
"""The kinds of fixed width, and their big-endian `struct` codes."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

SHARED_ARRAYS_MAX: Final = 1 << 16
"""How many different arrays are cached before the cache is cleared; replica lists repeat, so this is ample."""
SHARED_ARRAY_BYTES_MAX: Final = 80
"""Up to how many bytes an array is cached: twenty replicas, or the directories of five. What a caller without login
sends is kept for the life of the process, so long arrays are not."""

Decode = Callable[[bytes, int, int], tuple[Any, int]]
"""The type of a decoder: (buffer, position, end) → (message, position after it)."""
Encode = Callable[[Any, Callable[[bytes], None]], None]
"""The type of an encoder: (message, function that takes the encoded bytes) → None."""


def old_length(kind: FieldType, *, array: bool) -> struct.Struct:
    """Returns the format of a length before KIP-482: two bytes for a string, four for all else; -1 is null."""
    return _INT16 if kind is FieldType.STRING and not array else _INT32


TOO_LONG: Final = [f"if n > {STRING_MAX + 1}:", "    raise Short"]
"""The lines that refuse a compact string whose length plus one is n."""


def _encoded(name: str) -> list[str]:
    """Returns the lines that replace a string by its UTF-8 bytes, and refuse too long ones."""
    return [f"{name} = {name}.encode()", f"if len({name}) > {STRING_MAX}:", "    raise Short"]


class Short(Exception):
    """Raised if the bytes end before the value does, or if a length is impossible."""


@cache
def decoder(layout: Layout, version: int) -> Decode:
    """Returns the function that decodes one message or struct of this layout."""
    built: Decode = _build("decode", _DecoderSource(layout, version))
    return built


@cache
def encoder(layout: Layout, version: int) -> Encode:
    """Returns the function that encodes one message or struct of this layout."""
    built: Encode = _build("encode", _EncoderSource(layout, version))
    return built


def _build(name: str, source: _CodecSource) -> Any:
    text = "\n".join(source.lines())
    exec(compile(text, f"<{name} {source.layout.name} v{source.version}>", "exec"), source.names)
    return source.names[name]


class _SharedArrays(dict[bytes, tuple[Any, ...]]):
    """A cache of short arrays of one fixed-width kind, unpacked, by their bytes."""

    def __init__(self, kind: FieldType) -> None:
        self.code = FIXED[kind]
        self.width = struct.calcsize(f">{self.code}")

    def __missing__(self, raw: bytes) -> tuple[Any, ...]:
        found = struct.unpack(f">{len(raw) // self.width * self.code}", raw)
        if len(raw) <= SHARED_ARRAY_BYTES_MAX:
            if len(self) >= SHARED_ARRAYS_MAX:
                self.clear()
            self[raw] = found
        return found


class _SharedBytes(dict[tuple[Any, ...], bytes]):
    """Caches short arrays of one fixed-width kind, encoded: the key is the array, the value its length and bytes."""

    def __init__(self, kind: FieldType, prefix: Callable[[int], bytes]) -> None:
        self.code = FIXED[kind]
        self.prefix = prefix

    def __missing__(self, items: tuple[Any, ...]) -> bytes:
        raw = struct.pack(f">{len(items) * self.code}", *items)
        found = self.prefix(len(items)) + raw
        if len(raw) <= SHARED_ARRAY_BYTES_MAX:
            if len(self) >= SHARED_ARRAYS_MAX:
                self.clear()
            self[items] = found
        return found


_ARRAYS = {kind: _SharedArrays(kind) for kind in FIXED}
_BYTES = {
    compact: {kind: _SharedBytes(kind, prefix) for kind in FIXED}
    for compact, prefix in ((True, lambda count: uvarint(count + 1)), (False, struct.Struct(">i").pack))
}


class _CodecSource:
    """The generated source for one layout and version: its fields, and the names that it uses."""

    def __init__(self, layout: Layout, version: int) -> None:
        self.layout = layout
        self.version = version
        self.flexible = layout.is_flexible(version)
        self.present = [field for field in layout.fields if field.in_version(version)]
        self.plain = [field for field in self.present if field.tag is None]
        self.tagged = sorted((field for field in self.present if field.tag is not None), key=lambda f: f.tag or 0)
        self.names: dict[str, Any] = {"Short": Short, "read_uvarint": read_uvarint, "uvarint": uvarint}

    def name(self, value: Any, prefix: str) -> str:
        """Adds `value` to the names of the generated code, and returns its name there."""
        found = f"{prefix}{len(self.names)}"
        self.names[found] = value
        return found

    def compact(self, field: Field) -> bool:
        """Returns whether the field has a compact length: a varint of the length plus one."""
        return self.flexible and not field.never_compact

    def runs(self, fields: Iterable[Field]) -> Iterator[tuple[bool, list[Field]]]:
        """Yields groups of fields: neighbours of fixed width together, every other field alone."""
        for fixed, group in groupby(fields, key=lambda f: f.kind in FIXED and not f.array):
            if fixed:
                yield True, list(group)
            else:
                yield from ((False, [field]) for field in group)

    def lines(self) -> list[str]:
        raise NotImplementedError


class _DecoderSource(_CodecSource):
    def lines(self) -> list[str]:
        lines = ["def decode(b, p, e):"]
        for fixed, fields in self.runs(self.plain):
            lines += self._fixed(fields) if fixed else self._read(fields[0])
        lines += self._tags()
        values = [f"_{f.name}" if f in self.present else self._default(f) for f in self.layout.fields]
        make = self.name(struct_class(self.layout), "make")
        lines += [f"    return {make}({', '.join([*values, 'unknown'])}), p"]
        return lines

    def _default(self, field: Field) -> str:
        return self.name(default_of(field), "default")

    def _fixed(self, fields: list[Field]) -> list[str]:
        layout = struct.Struct(">" + "".join(FIXED[f.kind] for f in fields))
        unpack = self.name(layout.unpack_from, "unpack")
        targets = ", ".join(f"_{f.name}" for f in fields)
        return [f"    {targets}, = {unpack}(b, p)", f"    p += {layout.size}"]

    def _length(self, field: Field, *, null: str) -> list[str]:
        """Returns the lines that read a length plus one into n, and branch on null."""
        if self.compact(field):
            lines = ["    n = b[p]", "    p += 1", "    if n > 127:", "        n, p = read_uvarint(b, p - 1)"]
            if field.kind is FieldType.STRING and not field.array:
                lines += [f"        {line}" for line in TOO_LONG]
        else:
            lines = [f"    {line}" for line in self._old_length(field.kind, array=field.array)]
        if field.nullable_in(self.version):
            return [*lines, "    if n == 0:", f"        {null}", "    else:"]
        return [*lines, "    if n == 0:", "        raise Short", "    else:"]

    def _old_length(self, kind: FieldType, *, array: bool) -> list[str]:
        """Returns the lines that read a length of fixed width plus one into n. Kafka takes any negative one as null."""
        length = old_length(kind, array=array)
        unpack = self.name(length.unpack_from, "unpack")
        return [f"n, = {unpack}(b, p)", f"p += {length.size}", "n = n + 1 if n >= 0 else 0"]

    def _bounded(self, indent: str = "        ") -> list[str]:
        """Returns the lines that find a truncated value where no count of tags follows."""
        return [] if self.flexible else [f"{indent}if q > e:", f"{indent}    raise Short"]

    def _read(self, field: Field) -> list[str]:
        into = f"_{field.name}"
        if field.array:
            return self._read_array(field, into)
        if field.kind is FieldType.STRUCT:
            return self._read_struct(field, into)
        text = ".decode()" if field.kind is FieldType.STRING else ""
        return [
            *self._length(field, null=f"{into} = None"),
            "        q = p + n - 1",
            *self._bounded(),
            f"        {into} = b[p:q]{text}",
            "        p = q",
        ]

    def _read_struct(self, field: Field, into: str) -> list[str]:
        assert field.struct is not None
        read = self.name(decoder(field.struct, self.version), "read")
        if not field.nullable_in(self.version):
            return [f"    {into}, p = {read}(b, p, e)"]
        return [
            "    p += 1",
            "    if b[p - 1] == 255:",
            f"        {into} = None",
            "    elif b[p - 1] == 1:",
            f"        {into}, p = {read}(b, p, e)",
            "    else:",
            "        raise Short",
        ]

    def _read_array(self, field: Field, into: str) -> list[str]:
        lines = self._length(field, null=f"{into} = None")
        if field.kind in FIXED:
            width = _ARRAYS[field.kind].width
            arrays = self.name(_ARRAYS[field.kind], "arrays")
            lines += [f"        q = p + n * {width} - {width}", *self._bounded()]
            lines += [f"        {into} = {arrays}[b[p:q]]", "        p = q"]
            if not self.compact(field):
                return lines
            # most arrays of numbers in a log are empty
            empty = ["    if b[p] == 1:", f"        {into} = ()", "        p += 1", "    else:"]
            return [*empty, *(f"    {line}" for line in lines)]
        lines += ["        if n - 1 > e - p:", "            raise Short", "        items = []"]
        lines += ["        for _ in range(n - 1):"]
        if field.kind is FieldType.STRUCT:
            assert field.struct is not None
            read = self.name(decoder(field.struct, self.version), "read")
            lines += [f"            item, p = {read}(b, p, e)"]
        else:
            assert field.kind is FieldType.STRING, (self.layout, field)
            size = (
                ["n, p = read_uvarint(b, p)", *TOO_LONG]
                if self.compact(field)
                else self._old_length(FieldType.STRING, array=False)
            )
            lines += [
                *(f"            {line}" for line in size),
                "            if n == 0:",
                "                raise Short",
                "            q = p + n - 1",
                *self._bounded("            "),
                "            item = b[p:q].decode()",
                "            p = q",
            ]
        return [*lines, "            items.append(item)", f"        {into} = tuple(items)"]

    def _tags(self) -> list[str]:
        lines = [f"    _{f.name} = {self._default(f)}" for f in self.tagged]
        lines += ["    unknown = ()"]
        if not self.flexible:
            return lines
        lines += ["    n = b[p]", "    p += 1", "    if n:", "        others = []"]
        lines += ["        if n > 127:", "            n, p = read_uvarint(b, p - 1)", "        for _ in range(n):"]
        lines += ["            tag, size = b[p], b[p + 1]", "            p += 2"]
        lines += ["            if tag > 127 or size > 127:"]
        lines += ["                tag, p = read_uvarint(b, p - 2)", "                size, p = read_uvarint(b, p)"]
        lines += ["            stop = p + size", "            if stop > e:", "                raise Short"]
        word = "if"
        for field in self.tagged:
            body = self._fixed([field]) if field.kind in FIXED and not field.array else self._read(field)
            lines += [f"            {word} tag == {field.tag}:"]
            lines += [f"            {line}" for line in body]
            word = "elif"
        if self.tagged:
            lines += ["            else:", "                others.append((tag, b[p:stop]))"]
            lines += ["                p = stop", "            if p != stop:", "                raise Short"]
        else:
            lines += ["            others.append((tag, b[p:stop]))", "            p = stop"]
        return [*lines, "        unknown = tuple(others)"]


class _EncoderSource(_CodecSource):
    def lines(self) -> list[str]:
        lines = ["def encode(m, w):"]
        for field in self.layout.fields:
            if not field.in_version(self.version) and not field.ignorable:
                lines += [f"    if {self._differs(field, f'm.{field.name}')}:", "        raise Short"]
        for fixed, fields in self.runs(self.plain):
            lines += self._fixed(fields) if fixed else self._write(fields[0], f"m.{fields[0].name}", "w")
        return lines + self._tags()

    def _differs(self, field: Field, value: str) -> str:
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {self.name(default_of(field), 'default')}"

    def _fixed(self, fields: list[Field]) -> list[str]:
        pack = self.name(struct.Struct(">" + "".join(FIXED[f.kind] for f in fields)).pack, "pack")
        checks = [f"    if len(m.{f.name}) != 16:\n        raise Short" for f in fields if f.kind is FieldType.UUID]
        return [*checks, f"    w({pack}({', '.join(f'm.{f.name}' for f in fields)}))"]

    def _write(self, field: Field, value: str, w: str) -> list[str]:
        """Returns the lines that write one field of variable width; `value` is an expression, `w` takes the bytes."""
        lines = [f"    v = {value}"]
        null = repr(self._null(field))
        if field.nullable_in(self.version):
            lines += ["    if v is None:", f"        {w}({null})", "    else:"]
        else:
            lines += ["    if v is None:", "        raise Short", "    else:"]
        return lines + [f"    {line}" for line in self._present(field, w)]

    def _null(self, field: Field) -> bytes:
        if field.kind is FieldType.STRUCT and not field.array:
            return b"\xff"
        return b"\0" if self.compact(field) else old_length(field.kind, array=field.array).pack(-1)

    def _length(self, field: Field, value: str, *, array: bool) -> str:
        """Returns the expression for the encoded length of `value`."""
        if self.compact(field):
            return f"uvarint(len({value}) + 1)"
        return f"{self.name(old_length(field.kind, array=array).pack, 'pack')}(len({value}))"

    def _present(self, field: Field, w: str) -> list[str]:
        if field.array:
            return self._array(field, w)
        if field.kind is FieldType.STRUCT:
            assert field.struct is not None
            write = self.name(encoder(field.struct, self.version), "write")
            head = [f'    {w}(b"\\1")'] if field.nullable_in(self.version) else []
            return [*head, f"    {write}(v, {w})"]
        lines = [f"    {line}" for line in _encoded("v")] if field.kind is FieldType.STRING else []
        return [*lines, f"    {w}({self._length(field, 'v', array=False)})", f"    {w}(v)"]

    def _array(self, field: Field, w: str) -> list[str]:
        if field.kind in FIXED:
            table = self.name(_BYTES[self.compact(field)][field.kind], "bytes")
            return [f"    {w}({table}[v])"]
        lines = [f"    {w}({self._length(field, 'v', array=True)})", "    for item in v:"]
        if field.kind is FieldType.STRUCT:
            assert field.struct is not None
            write = self.name(encoder(field.struct, self.version), "write")
            return [*lines, f"        {write}(item, {w})"]
        size = self._length(field, "item", array=False)
        text = [f"        {line}" for line in _encoded("item")]
        return [*lines, *text, f"        {w}({size})", f"        {w}(item)"]

    def _tags(self) -> list[str]:
        if not self.flexible:
            return ["    if m.unknown_tags:", "        raise Short"]
        if not self.tagged:
            return ["    if m.unknown_tags:", *self._merge("        ", "list(m.unknown_tags)"), *self._no_tags()]
        lines = ["    tags = []"]
        for field in self.tagged:
            lines += [f"    if {self._differs(field, f'm.{field.name}')}:", "        out = []"]
            if field.kind in FIXED and not field.array:
                body = [line.replace("    w(", "    out.append(") for line in self._fixed([field])]
            else:
                body = self._write(field, f"m.{field.name}", "out.append")
            lines += [f"    {part}" for line in body for part in line.split("\n")]
            lines += [f"        tags.append(({field.tag}, b''.join(out)))"]
        lines += ["    if m.unknown_tags:", "        tags += m.unknown_tags"]
        return [*lines, "    if tags:", *self._merge("        ", "tags"), *self._no_tags()]

    def _merge(self, indent: str, tags: str) -> list[str]:
        write = self.name(_write_tags, "write_tags")
        return [f"{indent}{write}({tags}, w)"]

    def _no_tags(self) -> list[str]:
        return ["    else:", '        w(b"\\0")']


def _write_tags(tags: list[tuple[int, bytes]], w: Callable[[bytes], None]) -> None:
    """Writes the tagged fields, sorted by tag, each with its size. Raises Short for a repeated tag."""
    tags.sort()
    w(uvarint(len(tags)))
    last = -1
    for tag, value in tags:
        if tag <= last:
            raise Short
        last = tag
        w(uvarint(tag) + uvarint(len(value)) + value)
