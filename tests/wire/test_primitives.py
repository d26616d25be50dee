"""Varints against arithmetic, and against every way in which they can be cut or too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import Corrupt
from quorate.wire.primitives import read_uvarint, read_varint, uvarint, varint

KNOWN = [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (0xFFFFFFFF, "ffffffff0f")]
KNOWN_SIGNED = [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(1 << 63), "ffffffffffffffffff01")]


@pytest.mark.parametrize(("value", "hex_form"), KNOWN)
def test_an_unsigned_number_is_written_low_group_first(value: int, hex_form: str) -> None:
    assert hex_form == uvarint(value).hex()


@pytest.mark.parametrize(("value", "hex_form"), KNOWN_SIGNED)
def test_a_signed_number_is_written_as_zigzag(value: int, hex_form: str) -> None:
    assert hex_form == varint(value).hex()


@given(st.integers(0, 0xFFFFFFFF), st.binary(max_size=4), st.binary(max_size=4))
def test_an_unsigned_number_comes_back_wherever_it_lies(value: int, before: bytes, after: bytes) -> None:
    data = before + uvarint(value) + after

    assert (value, len(data) - len(after)) == read_uvarint(data, len(before))


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=4), st.binary(max_size=4))
def test_a_signed_number_comes_back_wherever_it_lies(value: int, before: bytes, after: bytes) -> None:
    data = before + varint(value) + after

    assert (value, len(data) - len(after)) == read_varint(data, len(before))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "the buffer ends inside a varint"),
        ("80", "the buffer ends inside a varint"),
        ("8080808080", "a varint of more than five bytes"),
        ("808080808001", "a varint of more than five bytes"),
        ("ffffffff1f", "a varint beyond 32 bits"),
    ],
)
def test_refuses_what_is_no_unsigned_number_of_32_bits(data: str, reason: str) -> None:
    with pytest.raises(Corrupt) as refused:
        read_uvarint(b"\xff" + bytes.fromhex(data), 1)

    assert (reason, 1) == (refused.value.reason, refused.value.position)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "the buffer ends inside a varint"),
        ("ff" * 9, "the buffer ends inside a varint"),
        ("ff" * 10 + "01", "a varint of more than ten bytes"),
        ("ff" * 9 + "02", "a varint beyond 64 bits"),
    ],
)
def test_refuses_what_is_no_signed_number_of_64_bits(data: str, reason: str) -> None:
    with pytest.raises(Corrupt) as refused:
        read_varint(b"\xff" + bytes.fromhex(data), 1)

    assert (reason, 1) == (refused.value.reason, refused.value.position)
