"""Java's properties form, against what java.util.Properties makes of it."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a = 1 \n", {"a": "1 "}),
        ("a:1\nb 2\nc\td", {"a": "1", "b": "2", "c": "d"}),
        ("a = = 1", {"a": "= 1"}),
        ("a", {"a": ""}),
        ("=1", {"": "1"}),
        ("# c\n  ! d\n\n \t\na=1", {"a": "1"}),
        ("a=1 # not a comment", {"a": "1 # not a comment"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1,\\\n# taken as it stands", {"a": "1,# taken as it stands"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c=1", {"a b=c": "1"}),
        ("a=\\t\\n\\r\\f\\\\\\q", {"a": "\t\n\r\f\\q"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
    ],
)
def test_reads_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert expected == parse_properties(text)


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\u12g4", "\\u 123"])
def test_an_escape_that_is_not_hexadecimal_is_refused_with_its_line(escape: str) -> None:
    with pytest.raises(ValueError, match=r"line 3: .* \\u takes four hexadecimal digits"):
        parse_properties(f"a=1\n\nb={escape}")


def escaped(text: str) -> str:
    """`text` with everything escaped that means something."""
    return re.sub(r"[^A-Za-z0-9]", lambda match: "".join(f"\\u{unit:04x}" for unit in units(match.group())), text)


def units(character: str) -> list[int]:
    data = character.encode("utf-16-be")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]


WORDS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(WORDS, WORDS))
def test_what_is_written_with_escapes_comes_back(properties: dict[str, str]) -> None:
    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in properties.items())

    assert properties == parse_properties(text)


@given(st.text())
def test_no_text_breaks_it_in_another_way(text: str) -> None:
    with suppress(ValueError):
        parse_properties(text)
