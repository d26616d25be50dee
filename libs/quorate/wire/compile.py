"""Generates the codec: Python source for one decoder and one encoder for each message and version.

A general reader would cost more than the fields that it reads. So the source is written for exactly one version:
neighbouring fields of fixed width are one `struct` call, lengths are read in place, a struct is created by one
positional call. Short arrays of numbers and uuids are looked up by their bytes before they are unpacked, which also
makes equal arrays one shared tuple.

The generated code has no error texts: it raises any Python error, or `Short`, and the codec then calls `walk` to locate
the error. Few lengths are compared with the available bytes: a slice is never longer than these, and a truncated value
is followed by the count of tags, whose position is then beyond the end. A length that controls a loop is checked, and
so is every length in a version without tags (before KIP-482).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from quorate.wire.codec_source import CodecSource
from quorate.wire.decoder_source import Decode, DecoderSource, SteppedDecode, SteppedDecoderSource
from quorate.wire.encoder_source import Encode, EncoderSource, SteppedEncode, SteppedEncoderSource
from quorate.wire.schema import Layout


@cache
def decoder(layout: Layout, version: int) -> Decode:
    """Returns the function that decodes one message or struct of this layout (see `Decode`).

    For unfit bytes it raises errors that name no field: `codec` turns them into Corrupt.
    """
    source = DecoderSource(layout, version, decoder)
    built: Decode = _built("decode", source, source.lines())
    return built


@cache
def stepped_decoder(layout: Layout, version: int) -> SteppedDecode:
    """As `decoder`, for large messages: a generator function that works in steps and counts items."""
    source = SteppedDecoderSource(layout, version, stepped_decoder)
    built: SteppedDecode = _built("decode", source, source.lines())
    return built


@cache
def encoder(layout: Layout, version: int) -> Encode:
    """Returns the function that encodes one message or struct of this layout (see `Encode`).

    For unfit values it raises errors that name no field: `codec` finds the field.
    """
    source = EncoderSource(layout, version, encoder)
    built: Encode = _built("encode", source, source.lines())
    return built


@cache
def stepped_encoder(layout: Layout, version: int) -> SteppedEncode:
    """As `encoder`, for large messages: a generator function that works in steps."""
    source = SteppedEncoderSource(layout, version, stepped_encoder, encoder)
    built: SteppedEncode = _built("encode", source, source.lines())
    return built


def _built(name: str, source: CodecSource, lines: list[str]) -> Any:
    exec(compile("\n".join(lines), f"<{name} {source.layout.name} v{source.version}>", "exec"), source.names)
    return source.names[name]
