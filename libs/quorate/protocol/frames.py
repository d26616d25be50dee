"""Cuts a byte stream into frames: four bytes of size, then as many bytes. Kafka's NetworkReceive."""

from __future__ import annotations

from typing import Final

from quorate.protocol.errors import ProtocolError

__all__ = ["SIZE_BYTES", "Frames", "frame"]

SIZE_BYTES: Final = 4


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

    def receive_data(self, data: bytes) -> None:
        """Appends bytes of the stream."""
        self._buffer += data

    def clear(self) -> None:
        """Forgets what was not taken, and gives its memory back."""
        self._buffer = bytearray()

    def take(self) -> bytes | None:
        """Returns the next whole frame without its size, or None before it is there. Raises ProtocolError."""
        if len(self._buffer) < SIZE_BYTES:
            return None
        size = self._size()
        if not 0 < size <= self.size_max:
            raise ProtocolError(f"frame size is {size}; it must be from 1 to {self.size_max}")
        if len(self._buffer) < SIZE_BYTES + size:
            return None
        taken = bytes(self._buffer[SIZE_BYTES : SIZE_BYTES + size])
        del self._buffer[: SIZE_BYTES + size]
        return taken

    def _size(self) -> int:
        return int.from_bytes(self._buffer[:SIZE_BYTES], signed=True)


def frame(*parts: bytes) -> bytes:
    """Returns the frame with these bytes.

    >>> frame(b"ab", b"c").hex()
    '00000003616263'
    """
    return b"".join((sum(map(len, parts)).to_bytes(SIZE_BYTES), *parts))
