"""Varints: encodes and decodes integers of variable length (zigzag for signed ones)."""

from __future__ import annotations

from quorate.errors import Corrupt

_ONE_BYTE = tuple(bytes((value,)) for value in range(128))


def uvarint(value: int) -> bytes:
    """Returns an unsigned integer as a varint: base 128, least significant group first.

    >>> uvarint(300).hex()
    'ac02'
    """
    assert value >= 0, value
    if value < 128:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Returns the unsigned 32-bit varint at `position`, and the position after it. Raises Corrupt."""
    value = shift = 0
    start = position
    while True:
        if position >= len(buffer):
            raise Corrupt("the buffer ends inside a varint", position=start)
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise Corrupt("a varint of more than five bytes", position=start)
    if value > 0xFFFFFFFF:
        raise Corrupt("a varint beyond 32 bits", position=start)
    return value, position


def varint(value: int) -> bytes:
    """Returns a signed integer as a zigzag varint. Record batches write all numbers inside records in this form.

    >>> varint(-1).hex(), varint(1).hex()
    ('01', '02')
    """
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Returns the signed zigzag varint of up to 64 bits at `position`, and the position after it. Raises Corrupt."""
    value = shift = 0
    start = position
    while True:
        if position >= len(buffer):
            raise Corrupt("the buffer ends inside a varint", position=start)
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise Corrupt("a varint of more than ten bytes", position=start)
    if value >> 64:
        raise Corrupt("a varint beyond 64 bits", position=start)
    return (value >> 1) ^ -(value & 1), position
