"""A tuple that keeps its protobuf form and its encoded form, for arrays that are in very many messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import Message as ProtobufMessage

__all__ = ["ITEMS_MAX", "Shared", "SharedReads", "encoded_once"]

T = TypeVar("T")

ITEMS_MIN: Final = 8
"""Arrays of fewer items are read one by one: to look for them costs as much."""
ITEMS_MAX: Final = 64
"""Longer arrays are read item by item, too."""
BYTES_MAX: Final = 8 << 10
"""Arrays of more bytes are read each time."""
BYTES_PER_ITEM: Final = 512
"""To look for an array of so many bytes costs as much as to read an item."""
READS_MAX: Final = 64
"""The arrays that each reader of a field caches: half a megabyte of bytes at most, and structs of some megabytes."""


class Shared(tuple[T, ...]):
    """A tuple of structs that remembers its protobuf and its encoded form, for an array that is sent very often.

    It is for nullable arrays; only `convert` and encoders tell it from a tuple.
    """

    box: ProtobufMessage | None = None
    """The array's protobuf form, set when it is first sent. It is copied into each message and never changed."""
    codes: dict[Any, bytes] | None = None
    """The array's items in Kafka's wire format, by what has encoded them; set when they are first sent."""


def encoded_once(items: Shared[Any], encode: Callable[[Any, Callable[[bytes], None]], None]) -> bytes:
    """Returns what `encode` writes for the items; it is called once, and the bytes are kept. Raises what it raises."""
    codes = items.codes
    if codes is None:
        codes = items.codes = {}
    found = codes.get(encode)
    if found is None:
        parts: list[bytes] = []
        for item in items:
            encode(item, parts.append)
        found = codes[encode] = b"".join(parts)
    return found


class SharedReads:
    """Called, reads an array of structs from protobuf. Equal arrays that were read a short while ago are one Shared.

    So it is with `ITEMS_MIN` to `ITEMS_MAX` items and up to `BYTES_MAX` bytes; others are read each time, to a tuple.
    """

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self._read = read
        self._found: dict[bytes, Shared[Any]] = {}
        self.cost = 0
        """How many items' work the last array was: as many as it has, or as looking for it by its bytes costs."""

    def __call__(self, box: Any) -> tuple[Any, ...]:
        """Returns the structs of a box's items. Raises ValueError for an unfit value, which is not kept."""
        items = box.items
        self.cost = len(items)
        if not ITEMS_MIN <= len(items) <= ITEMS_MAX or box.ByteSize() > BYTES_MAX:
            return tuple(map(self._read, items))
        code = box.SerializeToString()
        found = self._found.get(code)
        if found is None:
            found = Shared(map(self._read, items))
            if len(self._found) >= READS_MAX:
                self._found.clear()
            self._found[code] = found
        else:
            self.cost = 1 + len(code) // BYTES_PER_ITEM
        return found
