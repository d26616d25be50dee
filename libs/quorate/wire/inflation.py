"""Decompresses gzip piece by piece: a step of work each, and no more than a limit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from quorate.errors import Corrupt

__all__ = ["PIECE_BYTES", "inflated"]

PIECE_BYTES: Final = 256 << 10
"""So much is decompressed in a step, some 1 ms."""


def inflated(data: bytes, bytes_max: int) -> Iterator[bytes]:
    """Yields what gzip has compressed into `data`, in pieces of up to `PIECE_BYTES`.

    Raises Corrupt for bytes that are no gzip, or cut, or followed by others, or that become more than `bytes_max`.
    """
    inflate = zlib.decompressobj(wbits=31)
    total = 0
    try:
        while not inflate.eof:
            piece = inflate.decompress(data, PIECE_BYTES)
            data = inflate.unconsumed_tail
            total += len(piece)
            if total > bytes_max:
                raise Corrupt(f"gzip of more than {bytes_max} bytes")
            if not piece and not data and not inflate.eof:
                raise Corrupt("gzip that is cut off")
            yield piece
    except zlib.error as problem:
        raise Corrupt(f"no gzip: {problem}") from None
    if inflate.unused_data:
        raise Corrupt(f"{len(inflate.unused_data)} bytes after the gzip")
