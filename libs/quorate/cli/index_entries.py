"""The entries of a segment's offset index and time index."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from quorate.cli.reading import FileKind
from quorate.nouns import Offset

__all__ = ["INDEX_ENTRY", "TIME_INDEX_ENTRY", "Entry", "entries_of"]

INDEX_ENTRY: Final = struct.Struct(">ii")
TIME_INDEX_ENTRY: Final = struct.Struct(">qi")


class Entry(NamedTuple):
    """One entry of an index file, at byte `at`; `position` is a byte of the .log, `timestamp` in ms since 1970.

    An offset index has no `timestamp`, a time index no `position`.
    """

    at: int
    offset: Offset
    position: int | None
    timestamp: int | None


def entries_of(data: memoryview, kind: FileKind, base: Offset) -> Iterator[Entry]:
    """Yields the entries of an index whose segment has base offset `base`, without Kafka's preallocated zeros."""
    form = INDEX_ENTRY if kind is FileKind.INDEX else TIME_INDEX_ENTRY
    for at in range(0, len(data) - form.size + 1, form.size):
        first, second = form.unpack_from(data, at)
        if first == 0 and second == 0:
            return
        if kind is FileKind.INDEX:
            yield Entry(at, base + first, second, None)
        else:
            yield Entry(at, base + second, None, first)
