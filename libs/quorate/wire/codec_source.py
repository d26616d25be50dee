"""The common parts of the generators of decoders and encoders: the fields of one version, names, lengths, and
widths."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

from quorate.wire.primitives import read_uvarint, uvarint
from quorate.wire.schema import STRING_MAX, Field, FieldType, Layout

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
"""Up to how many bytes an array is cached: twenty replicas, or the directories of five. Arrays that a caller without
login sends are kept for the life of the process, so long ones are not."""

TOO_LONG: Final = [f"if n > {STRING_MAX + 1}:", "    raise Short"]
"""The lines that refuse a compact string whose length plus one is n."""


class Short(Exception):
    """Raised by generated code, without the field: the bytes end too early, or a value or its length is impossible."""


def old_length(kind: FieldType, *, array: bool) -> struct.Struct:
    """Returns the format of a length before KIP-482: two bytes for a string, four for all else; -1 is null."""
    return _INT16 if kind is FieldType.STRING and not array else _INT32


class CodecSource:
    """The common part of generators for one layout and version: its fields, and the globals of the generated code."""

    def __init__(self, layout: Layout, version: int) -> None:
        self.layout = layout
        self.version = version
        self.flexible = layout.is_flexible(version)
        self.present = [field for field in layout.fields if field.in_version(version)]
        self.plain = [field for field in self.present if field.tag is None]
        self.tagged = sorted((field for field in self.present if field.tag is not None), key=lambda f: f.tag or 0)
        self.names: dict[str, Any] = {"Short": Short, "read_uvarint": read_uvarint, "uvarint": uvarint}

    def name(self, value: Any, prefix: str) -> str:
        """Adds `value` to the globals of the generated code, under a new name with this prefix, which it returns."""
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
