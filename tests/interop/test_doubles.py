"""What a JVM prints of a hundred thousand doubles is what we print."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from quorate.doubles import double_text
from tests.interop.kafka.release import absent, java

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=str(absent()))]

PROGRAM: Final = Path(__file__).parent / "kafka" / "Doubles.java"
SHORTEST_SINCE: Final = 19
"""Before it Java prints a digit too many of some, about one in eighty (JDK-4511638)."""
COUNT: Final = 100_000


def some_doubles() -> list[float]:
    """Any bits, and what people write: round numbers and powers of ten and two with their neighbours."""
    chance = random.Random(25)
    found = [of_bits(chance.getrandbits(64)) for _ in range(COUNT // 2)]
    found += [round(10 ** chance.uniform(-5, 12), chance.randrange(6)) for _ in range(COUNT // 2)]
    for power in range(-1074, 1024, 3):
        (bits,) = struct.unpack(">Q", struct.pack(">d", 2.0**power))
        found += [of_bits(bits + by) for by in (-1, 0, 1)]
    return [*found, *(float(f"{digit}e{power}") for digit in (1, 2, 9) for power in range(-323, 308))]


def of_bits(bits: int) -> float:
    (value,) = struct.unpack(">d", struct.pack(">Q", bits))
    return float(value)


def test_a_jvm_prints_the_same() -> None:
    values = some_doubles()
    asked = "".join(f"{struct.pack('>d', value).hex()}\n" for value in values)
    command = java("Doubles", source=PROGRAM)
    ran = subprocess.run(command, input=asked, check=True, stdout=subprocess.PIPE, text=True, timeout=120)
    version, *printed = ran.stdout.splitlines()
    differing = {value: theirs for value, theirs in zip(values, printed, strict=True) if theirs != double_text(value)}
    if float(version) < SHORTEST_SINCE:
        differing = {value: theirs for value, theirs in differing.items() if not says_the_same_in_more(theirs, value)}

    assert {} == differing


def says_the_same_in_more(theirs: str, value: float) -> bool:
    """Is it the double, in more digits than are needed, or in as many that are further from it?"""
    ours = double_text(value)
    return float(theirs) == value and len(theirs) >= len(ours)
