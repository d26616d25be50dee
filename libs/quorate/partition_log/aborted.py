"""The index of aborted transactions, `.txnindex`: what a `read_committed` consumer has to leave out. KIP-98.

One file beside each segment that has a marker of an abort, in Kafka's format.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from quorate.errors import Corrupt
from quorate.nouns import Offset
from quorate.storage.files import FILE_MODE, naming, replace_whole, write_all

_ENTRY: Final = struct.Struct(">hqqqq")
VERSION: Final = 0


class Aborted(NamedTuple):
    """An aborted transaction: its first record, its marker, and the last stable offset as the marker was written."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


def append_aborted(path: Path, aborted: Aborted) -> None:
    """Adds an entry at the end of a segment's index, which it makes if need be. It is not synced. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, FILE_MODE)
    try:
        with naming(path):
            write_all(descriptor, _ENTRY.pack(VERSION, *aborted), os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def read_aborted(path: Path, *, since: Offset = 0) -> Iterator[Aborted]:
    """Yields the entries of a segment's index, if there is one, from the marker at `since` on. Raises Corrupt."""
    data = path.read_bytes() if path.is_file() else b""
    if len(data) % _ENTRY.size:
        raise Corrupt(f"an index of aborted transactions of {len(data)} bytes", path=path)
    markers = range(0, len(data), _ENTRY.size)
    first = bisect_left(markers, since, key=lambda at: _ENTRY.unpack_from(data, at)[3]) if since else 0
    for version, *entry in _ENTRY.iter_unpack(memoryview(data)[first * _ENTRY.size :]):
        if version != VERSION:
            raise Corrupt(f"an aborted transaction in version {version}; only {VERSION} is spoken", path=path)
        yield Aborted(*entry)


def is_sound(path: Path, base_offset: Offset) -> bool:
    """Returns whether a segment's index has whole entries alone, whose markers rise, and none before the segment.

    A missing index is sound.
    """
    try:
        entries = list(read_aborted(path))
    except Corrupt:
        return False
    markers = [each.last_offset for each in entries]
    rise = markers == sorted(set(markers))
    return rise and all(each.last_offset > each.first_offset and each.last_offset >= base_offset for each in entries)


def cut_aborted(path: Path, *, to: Offset) -> None:
    """Removes the entries of a segment's index whose marker is at `to` or above, durably. Raises Corrupt, OSError."""
    found = list(read_aborted(path))
    kept = [each for each in found if each.last_offset < to]
    if len(kept) < len(found):
        replace_whole(path, b"".join(_ENTRY.pack(VERSION, *each) for each in kept))
