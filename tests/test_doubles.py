"""Doubles in text are Java's, and in JSON Kafka's; a JVM is asked about many of them in `interop/test_doubles.py`."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.doubles import Double, double_text, dumps


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1024.5, "-1024.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.0, "1.23456789E8"),
        (0.001, "0.001"),
        (9.999e-4, "9.999E-4"),
        (2e-3, "0.002"),
        (1e23, "1.0E23"),
        (100.0, "100.0"),
        (0.25, "0.25"),
        (2.0**-24, "5.960464477539063E-8"),
        (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_a_double_is_as_java_prints_it(value: float, text: str) -> None:
    assert text == double_text(value)


@given(st.floats(allow_nan=False))
def test_the_text_is_read_back_as_the_same_double(value: float) -> None:
    assert math.copysign(1, value) == math.copysign(1, float(double_text(value)))
    assert value == float(double_text(value))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=9))
def test_other_documents_are_written_as_json_writes_them(document: object) -> None:
    assert json.dumps(document) == dumps(document)
    assert json.dumps(document, separators=(",", ":"), ensure_ascii=False) == dumps(
        document, separators=(",", ":"), ensure_ascii=False
    )


@given(st.lists(st.floats(), max_size=3), st.text())
def test_doubles_in_a_document_are_numbers_or_strings_of_what_is_none(values: list[float], name: str) -> None:
    text = dumps({name: [Double(value) for value in values]})
    back = json.loads(text, parse_constant=pytest.fail)

    assert [str(value) if math.isfinite(value) else double_text(value) for value in values] == [
        str(value) for value in back[name]
    ]
