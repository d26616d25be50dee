"""Generates decoders: the Python source that reads one message in one version from its bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

from quorate.wire.codec_source import (
    FIXED,
    SHARED_ARRAY_BYTES_MAX,
    SHARED_ARRAYS_MAX,
    TOO_LONG,
    CodecSource,
    old_length,
)
from quorate.wire.items import Items, item_done
from quorate.wire.schema import Field, FieldType, Layout, default_of, struct_class

Decode = Callable[[bytes, int, int], tuple[Any, int]]
"""The type of a decoder: (buffer, position, end) → (message, position after it)."""
SteppedDecode = Callable[[bytes, int, int, Items], Generator[None, None, tuple[Any, int]]]
"""The type of a decoder that works in steps, and counts items."""


class _SharedArrays(dict[bytes, tuple[Any, ...]]):
    """A cache for arrays of one fixed-width type: bytes → tuple. Messages with equal short arrays share one."""

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


_ARRAYS = {kind: _SharedArrays(kind) for kind in FIXED}


class DecoderSource(CodecSource):
    """Generates the source of `decode(b, p, e)` (see `Decode`); `nested` returns the decoder of a struct within."""

    def __init__(self, layout: Layout, version: int, nested: Callable[[Layout, int], Any]) -> None:
        super().__init__(layout, version)
        self._nested = nested

    def lines(self) -> list[str]:
        """Returns the function's lines of source, and adds to `names` what they use."""
        lines = self._head()
        for fixed, fields in self.runs(self.plain):
            lines += self._fixed(fields) if fixed else self._read(fields[0])
        lines += self._tags()
        values = [f"_{f.name}" if f in self.present else self._default(f) for f in self.layout.fields]
        make = self.name(struct_class(self.layout), "make")
        lines += [f"    return {make}({', '.join([*values, 'unknown'])}), p"]
        return lines

    def _head(self) -> list[str]:
        return ["def decode(b, p, e):"]

    def _call(self, read: str) -> str:
        """Returns the call of a nested decoder."""
        return f"{read}(b, p, e)"

    def _expected(self, count: str, indent: str) -> list[str]:
        """Returns the lines before the items of a list, of which there are `count`."""
        return []

    def _item_done(self, indent: str) -> list[str]:
        """Returns the lines after each item of a list."""
        return []

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
        read = self.name(self._nested(field.struct, self.version), "read")
        if not field.nullable_in(self.version):
            return [f"    {into}, p = {self._call(read)}"]
        return [
            "    p += 1",
            "    if b[p - 1] == 255:",
            f"        {into} = None",
            "    elif b[p - 1] == 1:",
            f"        {into}, p = {self._call(read)}",
            "    else:",
            "        raise Short",
        ]

    def _read_array(self, field: Field, into: str) -> list[str]:
        lines = self._length(field, null=f"{into} = None")
        if field.kind in FIXED:
            width = _ARRAYS[field.kind].width
            arrays = self.name(_ARRAYS[field.kind], "arrays")
            lines += [*self._expected("n - 1", "        "), f"        q = p + n * {width} - {width}", *self._bounded()]
            lines += [f"        {into} = {arrays}[b[p:q]]", "        p = q"]
            if not self.compact(field):
                return lines
            # most arrays of numbers in a log are empty
            empty = ["    if b[p] == 1:", f"        {into} = ()", "        p += 1", "    else:"]
            return [*empty, *(f"    {line}" for line in lines)]
        lines += ["        if n - 1 > e - p:", "            raise Short", *self._expected("n - 1", "        ")]
        lines += ["        items = []"]
        lines += ["        for _ in range(n - 1):"]
        if field.kind is FieldType.STRUCT:
            assert field.struct is not None
            read = self.name(self._nested(field.struct, self.version), "read")
            lines += [f"            item, p = {self._call(read)}"]
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
        lines += ["            items.append(item)", *self._item_done("            ")]
        return [*lines, f"        {into} = tuple(items)"]

    def _tags(self) -> list[str]:
        lines = [f"    _{f.name} = {self._default(f)}" for f in self.tagged]
        lines += ["    unknown = ()"]
        if not self.flexible:
            return lines
        lines += ["    n = b[p]", "    p += 1", "    if n:", "        others = []"]
        lines += ["        if n > 127:", "            n, p = read_uvarint(b, p - 1)", *self._expected("n", "        ")]
        lines += ["        for _ in range(n):", *self._item_done("            ")]
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


class SteppedDecoderSource(DecoderSource):
    """Generates a generator `decode(b, p, e, t)`: it yields after every `ITEMS_PER_STEP` items, counted in `t`."""

    def _head(self) -> list[str]:
        return ["def decode(b, p, e, t):", "    if False:", "        yield"]

    def _call(self, read: str) -> str:
        return f"yield from {read}(b, p, e, t)"

    def _expected(self, count: str, indent: str) -> list[str]:
        return [f"{indent}t.expect({count})"]

    def _item_done(self, indent: str) -> list[str]:
        return item_done(indent)
