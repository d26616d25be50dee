"""Encodes and decodes Kafka messages: `encode(message, version)`, `decode(Message, data, version)`.

It supports every version that Kafka 4 does, in the flexible encoding (KIP-482) and in the one before it, and keeps
tagged fields that the schema does not know. An encoded message is decoded to the same message.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import TypeVar

from kraft import Message
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.wire import compile, walk
from quorate.wire.codec_source import Short
from quorate.wire.items import Items, Steps, TooManyItems
from quorate.wire.schema import Layout, layout_of

M = TypeVar("M", bound=Message)

_MISFITS = (Short, IndexError, struct.error, UnicodeError, TypeError, AttributeError, Corrupt)
"""Errors that the generated code raises for unfit bytes or values; `walk` then finds the error text."""


def encode(message: Message, version: int) -> bytes:
    """Returns the body of `message` in `version`, without a header.

    Raises ApiError(UNSUPPORTED_VERSION) for an unknown version, or one that lacks a field with another value than its
    default, unless that is ignorable; ValueError, naming field and value, for a value outside the field's type.
    """
    return encoder(type(message), version)(message)


def decode(message: type[M], data: bytes, version: int) -> M:
    """Returns the message whose body in `version` is exactly `data`.

    Raises ApiError(UNSUPPORTED_VERSION), or Corrupt with the field and its position in `data`.
    """
    found: M
    found, end = decoder(message, version)(data, 0)
    if end != len(data):
        raise Corrupt(f"{message.__qualname__}: {len(data) - end} bytes are left over", position=end)
    return found


def encode_in_steps(message: Message, version: int) -> Steps[bytes]:
    """Encodes a message of many items in steps of `ITEMS_PER_STEP`.

    Raises ApiError(UNSUPPORTED_VERSION) for an unknown version, and ValueError, which names no field, for any value
    that the version cannot carry.
    """
    layout = _layout(type(message), version)
    out: list[bytes] = []
    parts: list[bytes] = []
    try:
        for _ in compile.stepped_encoder(layout, version)(message, out.append, Items()):
            parts.append(b"".join(out))  # half a million pieces take their time, too, when they go
            out.clear()
            yield
    except _MISFITS:
        # `walk` would find the field, and hold up the others for as long as it takes.
        what = f"a value that version {version} cannot carry, in too many items to say where"
        raise ValueError(f"{layout.name}: {what}") from None
    return b"".join((*parts, *out))


@cache
def encoder(message: type[M], version: int) -> Callable[[M], bytes]:
    """Returns the function that encodes one message class in one version. It raises what `encode` raises.

    This call itself raises ApiError(UNSUPPORTED_VERSION) for an unknown version.
    """
    layout = _layout(message, version)
    write = compile.encoder(layout, version)

    def encode(message: M) -> bytes:
        out: list[bytes] = []
        try:
            write(message, out.append)
            return b"".join(out)
        except _MISFITS as misfit:
            walk.write(layout, version, message)
            raise AssertionError(f"compiled and walked encoders disagree on {message!r}") from misfit

    return encode


@cache
def piece_encoder(message: type[M], version: int) -> Callable[[M], list[bytes]]:
    """As `encoder`, but the function returns pieces to join: a field of bytes, such as records, is one, not copied."""
    layout = _layout(message, version)
    write = compile.encoder(layout, version)

    def encode(message: M) -> list[bytes]:
        out: list[bytes] = []
        try:
            write(message, out.append)
        except _MISFITS as misfit:
            walk.write(layout, version, message)
            raise AssertionError(f"compiled and walked encoders disagree on {message!r}") from misfit
        return out

    return encode


@cache
def decoder(message: type[M], version: int) -> Callable[[bytes, int], tuple[M, int]]:
    """Returns the function that decodes one message class in one version: (data, position) to (message, end).

    Bytes after the message are left. It raises Corrupt; this call itself ApiError(UNSUPPORTED_VERSION).
    """
    layout = _layout(message, version)
    read = compile.decoder(layout, version)

    def decode(data: bytes, position: int) -> tuple[M, int]:
        try:
            return read(data, position, len(data))
        except _MISFITS as misfit:
            walk.read(layout, version, data, position)
            raise AssertionError(f"compiled and walked decoders disagree on {data!r}") from misfit

    return decode


def stepped_decoder(
    message: type[M], version: int, *, items_max: int
) -> Callable[[bytes, int], Generator[None, None, tuple[M, int]]]:
    """Returns what decodes a message as `decoder` does, but in steps of `ITEMS_PER_STEP` items: a generator function.

    It raises Corrupt, which names no field, also for more than `items_max` items in all lists together.
    """
    layout = _layout(message, version)
    read = compile.stepped_decoder(layout, version)

    def decode(data: bytes, position: int) -> Generator[None, None, tuple[M, int]]:
        items = Items(items_max)
        try:
            found: tuple[M, int] = yield from read(data, position, len(data), items)
        except TooManyItems:
            raise Corrupt(f"{layout.name}: more than {items_max} items in all lists together") from None
        except _MISFITS:
            # `walk` would find the field, and hold up the others for as long as it takes.
            what = f"{len(data) - position} bytes that are no message of version {version}"
            raise Corrupt(f"{layout.name}: {what}, and too many to say where") from None
        return found

    return decode


def _layout(message: type[Message], version: int) -> Layout:
    layout = layout_of(message)
    if version not in layout.versions:
        spoken = f"{layout.versions[0]} to {layout.versions[-1]}"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{layout.name} has no version {version}; spoken are {spoken}")
    return layout
