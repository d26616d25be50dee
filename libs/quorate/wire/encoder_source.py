"""Generates encoders: the Python source that writes one message in one version."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

from quorate.wire.codec_source import FIXED, SHARED_ARRAY_BYTES_MAX, SHARED_ARRAYS_MAX, CodecSource, Short, old_length
from quorate.wire.items import Items, has_lists, item_done
from quorate.wire.primitives import uvarint
from quorate.wire.schema import STRING_MAX, Field, FieldType, Layout, default_of
from quorate.wire.shared import Shared, encoded_once

Encode = Callable[[Any, Callable[[bytes], None]], None]
"""The type of an encoder: (message, function that takes the encoded bytes) → None."""
SteppedEncode = Callable[[Any, Callable[[bytes], None], Items], Generator[None, None, None]]
"""The type of an encoder that works in steps."""


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


_BYTES = {
    compact: {kind: _SharedBytes(kind, prefix) for kind in FIXED}
    for compact, prefix in ((True, lambda count: uvarint(count + 1)), (False, struct.Struct(">i").pack))
}


class EncoderSource(CodecSource):
    """Generates the source of `encode(m, w)` (see `Encode`); `nested` returns the encoder of a struct within."""

    def __init__(self, layout: Layout, version: int, nested: Callable[[Layout, int], Any]) -> None:
        super().__init__(layout, version)
        self._nested = self._leaf = nested

    def lines(self) -> list[str]:
        """Returns the function's lines of source, and adds to `names` what they use."""
        lines = self._head()
        for field in self.layout.fields:
            if not field.in_version(self.version) and not field.ignorable:
                lines += [f"    if {self._differs(field, f'm.{field.name}')}:", "        raise Short"]
        for fixed, fields in self.runs(self.plain):
            lines += self._fixed(fields) if fixed else self._write(fields[0], f"m.{fields[0].name}", "w")
        return lines + self._tags()

    def _head(self) -> list[str]:
        return ["def encode(m, w):"]

    def _call(self, field: Field, value: str, w: str) -> str:
        """Returns the call of the encoder of a struct within."""
        assert field.struct is not None
        return f"{self.name(self._nested(field.struct, self.version), 'write')}({value}, {w})"

    def _item_done(self, indent: str) -> list[str]:
        """Returns the lines after each item of a list."""
        return []

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
            head = [f'    {w}(b"\\1")'] if field.nullable_in(self.version) else []
            return [*head, f"    {self._call(field, 'v', w)}"]
        lines = [f"    {line}" for line in _encoded("v")] if field.kind is FieldType.STRING else []
        return [*lines, f"    {w}({self._length(field, 'v', array=False)})", f"    {w}(v)"]

    def _array(self, field: Field, w: str) -> list[str]:
        if field.kind in FIXED:
            table = self.name(_BYTES[self.compact(field)][field.kind], "bytes")
            return [f"    {w}({table}[v])"]
        lines = [f"    {w}({self._length(field, 'v', array=True)})", "    for item in v:"]
        if field.struct is not None:
            each = [f"        {self._call(field, 'item', w)}", *self._item_done("        ")]
            return [lines[0], *self._shared(field, w), lines[1], *each]
        size = self._length(field, "item", array=False)
        text = [f"        {line}" for line in _encoded("item")]
        return [*lines, *text, f"        {w}({size})", f"        {w}(item)", *self._item_done("        ")]

    def _shared(self, field: Field, w: str) -> list[str]:
        """Returns the lines that write an array that is shared, and leave nothing for the loop over `v`."""
        assert field.struct is not None
        if not field.box or has_lists(field.struct):
            return []
        encode = self.name(self._leaf(field.struct, self.version), "write")
        once, kind = self.name(encoded_once, "encoded_once"), self.name(Shared, "Shared")
        return [f"    if type(v) is {kind}:", f"        {w}({once}(v, {encode}))", "        v = ()"]

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


class SteppedEncoderSource(EncoderSource):
    """Generates a generator `encode(m, w, t)`: it yields after every `ITEMS_PER_STEP` items, counted in `t`.

    `leaf` returns the encoder of a struct without lists, of which none takes a step.
    """

    def __init__(
        self,
        layout: Layout,
        version: int,
        nested: Callable[[Layout, int], SteppedEncode],
        leaf: Callable[[Layout, int], Encode],
    ) -> None:
        super().__init__(layout, version, nested)
        self._leaf = leaf

    def _head(self) -> list[str]:
        return ["def encode(m, w, t):", "    if False:", "        yield"]

    def _call(self, field: Field, value: str, w: str) -> str:
        assert field.struct is not None
        if has_lists(field.struct):
            return f"yield from {self.name(self._nested(field.struct, self.version), 'write')}({value}, {w}, t)"
        return f"{self.name(self._leaf(field.struct, self.version), 'write')}({value}, {w})"

    def _item_done(self, indent: str) -> list[str]:
        return item_done(indent)


def _encoded(name: str) -> list[str]:
    """Returns the lines that replace a string by its UTF-8 bytes, and refuse too long ones."""
    return [f"{name} = {name}.encode()", f"if len({name}) > {STRING_MAX}:", "    raise Short"]


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
