"""Cuts a byte stream into frames: four bytes of size, then as many bytes. Kafka's NetworkReceive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quorate.protocol.errors import ProtocolError

__all__ = ["SIZE_BYTES", "Frames", "frame", "frame_in_pieces"]

SIZE_BYTES: Final = 4
SIZE_MAX: Final = (1 << 31) - 1
"""The size of a frame is signed: a larger one would be read as negative."""
PIECE_BYTES_MIN: Final = 16 << 10
"""So much is sent from where it is: to copy less costs less than another piece."""


class Frames:
    """The received bytes that are not yet taken. A size is checked as soon as it is there, before its bytes come.

    `size_max` is the largest accepted frame in bytes, Kafka's `socket.request.max.bytes`; it may change on the way.
    """

    def __init__(self, *, size_max: int) -> None:
        assert size_max > 0, size_max
        self.size_max = size_max
        self._buffer = bytearray()

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def is_ready(self) -> bool:
        """Whether `take` has something to say: a whole frame is there, or a size that is refused."""
        if len(self._buffer) < SIZE_BYTES:
            return False
        size = self._size()
        return not 0 < size <= self.size_max or len(self._buffer) >= SIZE_BYTES + size

    def receive_data(self, data: bytes | memoryview) -> None:
        """Appends bytes of the stream, which are copied."""
        self._buffer += data

    def clear(self) -> None:
        """Forgets what was not taken, and gives its memory back."""
        self._buffer = bytearray()

    def take(self) -> bytes | None:
        """Returns the next whole frame without its size, or None before it is there.

        Raises ProtocolError for a size that is not from 1 to `size_max`.
        """
        if len(self._buffer) < SIZE_BYTES:
            return None
        size = self._size()
        if not 0 < size <= self.size_max:
            raise ProtocolError(f"frame size is {size}; it must be from 1 to {self.size_max}")
        if len(self._buffer) < SIZE_BYTES + size:
            return None
        with memoryview(self._buffer) as whole, whole[SIZE_BYTES : SIZE_BYTES + size] as view:
            taken = bytes(view)
        assert len(taken) == size, (len(taken), size)
        del self._buffer[: SIZE_BYTES + size]
        return taken

    def _size(self) -> int:
        return int.from_bytes(self._buffer[:SIZE_BYTES], signed=True)


def frame(*parts: bytes) -> bytes:
    """Returns the frame with these bytes.

    >>> frame(b"ab", b"c").hex()
    '00000003616263'
    """
    size = sum(map(len, parts))
    assert size <= SIZE_MAX, size
    return b"".join((size.to_bytes(SIZE_BYTES), *parts))


def frame_in_pieces(parts: Sequence[bytes]) -> list[bytes]:
    """Returns the frame with these bytes in pieces: those of `PIECE_BYTES_MIN` and more as they are, the others joined.

    >>> records = bytes(PIECE_BYTES_MIN)
    >>> [piece is records for piece in frame_in_pieces([b"a", b"b", records, b"c"])]
    [False, True, False]
    """
    if sum(map(len, parts)) < PIECE_BYTES_MIN:
        return [frame(*parts)]
    pieces: list[bytes] = []
    small: list[bytes] = [b""]  # the size, which is known at the end
    size = 0
    for part in parts:
        size += len(part)
        if len(part) < PIECE_BYTES_MIN:
            small.append(part)
        else:
            pieces += [b"".join(small), part]
            small = []
    if small:
        pieces.append(b"".join(small))
    assert size <= SIZE_MAX, size
    assert sum(map(len, pieces)) == size, (list(map(len, pieces)), size)
    pieces[0] = size.to_bytes(SIZE_BYTES) + pieces[0]
    return pieces
