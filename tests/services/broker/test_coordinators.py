"""Which partition a group or a transactional id belongs to: Java's hash of a string, by facts of the Java language."""

from __future__ import annotations

import pytest

from services.broker.coordinators import partition_of


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        ("", 0),
        ("hello", 99_162_322),
        ("Aa", 2_112),
        ("BB", 2_112),
        ("polygenelubricants", -(1 << 31)),  # its absolute value is no int: 0 in Kafka
        ("\U0001f600", 1_772_899),  # two UTF-16 units, 0xD83D and 0xDE00
    ],
)
def test_a_key_is_hashed_as_by_java(key: str, hashed: int) -> None:
    assert 31 * 0xD83D + 0xDE00 == 1_772_899

    assert (0 if hashed == -(1 << 31) else abs(hashed) % 50) == partition_of(key, 50)
